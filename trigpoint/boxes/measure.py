"""Everything that is measured of an instance: outlines, boxes, area, perimeter, orientation."""

import math
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.boxes.calipers import hbb_from_polygon, min_area_rectangles
from trigpoint.errors import InputError
from trigpoint.geometry.frames import SceneFrame
from trigpoint.geometry.outlines import measuring_outlines, polygon_from_mask, polygons_from_labels
from trigpoint.geometry.repair import split_at_antimeridian
from trigpoint.masks.ownership import cut_labels, touches_edge
from trigpoint.masks.rle import encode_labels, encode_mask
from trigpoint.rules import Rules

BoolArray = NDArray[np.bool_]


class Measured(NamedTuple):
    """Measured instances of a scene.

    Attributes:
        rows: One dict per instance, keys of `INSTANCE_SCHEMA`, in the order given.
        outlines: (n,) measuring outlines in image coordinates.
    """

    rows: list[dict[str, Any]]
    outlines: NDArray[np.object_]


def plane_mask(planes: NDArray[Any], plane: int) -> BoolArray:
    """Return the bit plane `plane` of a (height, width) unsigned array as bool."""
    return (planes >> planes.dtype.type(plane)) & planes.dtype.type(1) == 1


def measure_instances(
    rows: list[dict[str, Any]], labels: NDArray[np.uint16], planes: NDArray[Any], valid: BoolArray, frame: SceneFrame, rules: Rules
) -> Measured:
    """Measure every instance of a scene.

    Args:
        rows: Dicts with the keys of `MASK_SCHEMA`.
        labels: (height, width) index map.
        planes: (height, width) bit planes.
        valid: (height, width) bool.
        frame: The scene's frame.
        rules: The outline rule.

    Raises:
        InputError: a row's label or plane has no pixel.
    """
    if not rows:
        return Measured([], np.zeros(0, dtype=object))
    traced = polygons_from_labels(labels)
    cut = cut_labels(labels, valid)
    sizes = np.bincount(labels.ravel())
    rle_of = encode_labels(labels)
    area_px: list[int] = []
    rles: list[str] = []
    polygons = np.empty(len(rows), dtype=object)
    is_cut: list[bool] = []
    for k, row in enumerate(rows):
        if row["label"] is not None:
            if row["label"] not in traced:
                raise InputError(f"instance {row['instance_id']!r}: label {row['label']} has no pixel in the index map; re-run annotate")
            area_px.append(int(sizes[row["label"]]))
            rles.append(rle_of[row["label"]])
            polygons[k] = traced[row["label"]]
            is_cut.append(row["label"] in cut)
        else:
            mask = plane_mask(planes, row["plane"])
            area_px.append(int(np.count_nonzero(mask)))
            rles.append(encode_mask(mask))
            polygons[k] = polygon_from_mask(mask)
            is_cut.append(touches_edge(mask, valid))

    outlines = measuring_outlines(polygons, rules.outline.tolerance_px)
    ground = shapely.transform(outlines, frame.ground_from_image)
    image_boxes = min_area_rectangles(polygons)
    ground_boxes = min_area_rectangles(shapely.transform(polygons, frame.ground_from_image))
    centroids = shapely.get_coordinates(shapely.centroid(ground))
    points = shapely.get_coordinates(shapely.point_on_surface(polygons))
    perimeters = shapely.length(ground)
    ground_area = shapely.area(ground)
    lonlat = [split_at_antimeridian(polygon) for polygon in shapely.transform(polygons, frame.lonlat_from_image)]
    geometries = shapely.to_wkb(shapely.orient_polygons(np.array(lonlat, dtype=object)))
    # from the x-axis towards y is counter-clockwise on the ground; azimuths run clockwise from north
    orientation = (90.0 - ground_boxes.long_angle_deg + frame.record.convergence_deg) % 180.0

    measured: list[dict[str, Any]] = []
    for k, row in enumerate(rows):
        length, width = float(ground_boxes.length[k]), float(ground_boxes.width[k])
        measured.append(
            {
                **{key: row[key] for key in ("instance_id", "scene_id", "label", "plane", "category", "countable", "boxable")},
                "cut": is_cut[k],
                "area_px": area_px[k],
                "area_m2": area_px[k] * frame.record.pixel_area_m2,
                "perimeter_m": float(perimeters[k]),
                "length_m": length,
                "width_m": width,
                "orientation_deg": float(orientation[k]),
                "elongation": length / width,
                "compactness": float(4 * math.pi * ground_area[k] / perimeters[k] ** 2),
                "centroid_x_m": float(centroids[k, 0]),
                "centroid_y_m": float(centroids[k, 1]),
                "point_x_px": float(points[k, 0]),
                "point_y_px": float(points[k, 1]),
                "hbb_px": list(hbb_from_polygon(polygons[k])) if row["boxable"] else None,
                "obb_px": image_boxes.corners[k].ravel().tolist() if row["boxable"] else None,
                "rle": rles[k],
                **{key: row[key] for key in ("moved_px", "source_ids", "proposal", "review_state")},
                "geometry": bytes(geometries[k]),
            }
        )
    return Measured(measured, outlines)
