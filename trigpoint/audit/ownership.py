"""Who owns which pixel: index map, region planes, run lengths, areas, cut flags and outlines must tell one story.

Not here: boxes and metric values of an instance (`boxes.py`).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import rasterio.features
import shapely
from numpy.typing import NDArray
from scipy import ndimage

from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import Frame, open_raster
from trigpoint.audit.outline import Part, pixel_edge_parts, polygon_of
from trigpoint.audit.reading import Instance, Release, Scene

FILE = "instances.parquet"
RELATIVE = 1e-5
"""Relative tolerance of `area_m2`: pixel count times a pixel area that is itself compared."""


@dataclass
class Masks:
    """The masks of one scene as read from its rasters.

    Attributes:
        index: (height, width) owners of pixels; 0 is nothing.
        planes: Plane number → (height, width) mask of a region.
        valid: (height, width) valid pixels of the scene.
        parts: instance id → pixel-edge polygons in image coordinates.
        windows: instance id → (rows, columns) slices around the mask.
        whole: Plane number → mask with holes filled, once asked for.
    """

    index: NDArray[np.uint16]
    planes: dict[int, NDArray[np.bool_]]
    valid: NDArray[np.bool_]
    parts: dict[str, list[Part]] = field(default_factory=dict[str, list[Part]])
    windows: dict[str, tuple[slice, slice]] = field(default_factory=dict[str, "tuple[slice, slice]"])
    whole: dict[int, NDArray[np.bool_]] = field(default_factory=dict[int, "NDArray[np.bool_]"])

    def filled(self, plane: int) -> NDArray[np.bool_]:
        """Return a region's mask with its holes filled: whatever cannot be reached from the border of the scene over pixel edges."""
        if plane not in self.whole:
            ground, _ = cast("tuple[NDArray[np.int32], int]", ndimage.label(np.pad(~self.planes[plane], 1, constant_values=True)))
            self.whole[plane] = ground[1:-1, 1:-1] != ground[0, 0]
        return self.whole[plane]

    def window_of(self, instance: Instance) -> NDArray[np.bool_]:
        """Return the mask of an instance within its window."""
        window = self.windows[instance.instance_id]
        if instance.countable:
            return self.index[window] == instance.label
        return self.planes[int(instance.plane or 0)][window]


def read_masks(release: Release, scene: Scene, frame: Frame, valid: NDArray[np.bool_], notes: Notebook) -> Masks:
    """Read index map and region planes; what is missing or of the wrong kind is noted and counts as empty."""
    shape = (scene.height, scene.width)
    masks = Masks(np.zeros(shape, dtype=np.uint16), {}, valid if valid.shape == shape else np.ones(shape, dtype=bool))
    with notes.guard("mask_unreadable", scene.mask_path, scene.scene_id):
        band = _read_band(release, scene, scene.mask_path, ("uint16",), notes)
        if band is not None:
            masks.index = band.astype(np.uint16)
    has_regions = any(not instance.countable for instance in release.instances_of(scene.scene_id))
    if scene.region_path is None and has_regions:
        notes.add("region_path_missing", "scenes.parquet", scene.scene_id, "a path: the scene has regions", "null")
    if scene.region_path is not None:
        with notes.guard("mask_unreadable", scene.region_path, scene.scene_id):
            band = _read_band(release, scene, scene.region_path, ("uint8", "uint16", "uint32"), notes)
            if band is not None:
                for plane in range(band.dtype.itemsize * 8):
                    mask = (band >> np.asarray(plane, dtype=band.dtype)) & np.asarray(1, dtype=band.dtype)
                    if mask.any():
                        masks.planes[plane] = mask.astype(bool)
    return masks


def _read_band(release: Release, scene: Scene, path: str, kinds: tuple[str, ...], notes: Notebook) -> NDArray[Any] | None:
    with open_raster(release.folder, path) as dataset:
        if dataset.count != 1 or dataset.dtypes[0] not in kinds:
            notes.add("mask_dtype", path, scene.scene_id, f"one band of {' or '.join(kinds)}", f"{dataset.count} of {dataset.dtypes[0]}")
            return None
        if (dataset.width, dataset.height) != (scene.width, scene.height):
            notes.add("mask_size", path, scene.scene_id, f"{scene.width} x {scene.height} px", f"{dataset.width} x {dataset.height} px")
            return None
        if str(dataset.profile.get("compress")).lower() != "zstd":
            notes.add("mask_compression", path, scene.scene_id, "ZSTD", dataset.profile.get("compress"))
        stored = tuple(dataset.transform)[:6]
        if not np.allclose(stored, scene.transform, rtol=1e-12, atol=1e-9 * max(abs(stored[0]), abs(stored[1]))):
            notes.add("mask_transform", path, scene.scene_id, list(scene.transform), list(stored))
        return dataset.read(1)


def check_ownership(scene: Scene, instances: list[Instance], masks: Masks, frame: Frame, notes: Notebook) -> list[Instance]:
    """Match labels and planes with instances, one to one, and compare areas, run lengths, cut flags, points and outlines.

    Returns:
        The instances that have a mask; only these can be measured.
    """
    regions = scene.region_path or "regions"
    owners = _match(instances, scene, masks, notes)
    slices = ndimage.find_objects(masks.index.astype(np.int32))
    pixel_parts = pixel_edge_parts(masks.index)
    present: list[Instance] = []
    for instance in owners:
        if instance.countable:
            label = int(instance.label or 0)
            masks.windows[instance.instance_id] = slices[label - 1]
            masks.parts[instance.instance_id] = pixel_parts[label]
        else:
            plane = masks.planes[int(instance.plane or 0)].astype(np.uint8)
            masks.windows[instance.instance_id] = ndimage.find_objects(plane)[0]
            masks.parts[instance.instance_id] = pixel_edge_parts(plane)[1]
        present.append(instance)
        with notes.guard("instance_unreadable", FILE, instance.instance_id):
            _check_instance(instance, masks, frame, notes)
    with notes.guard("outline_wrong", FILE, scene.scene_id):
        _check_geometries(scene, present, masks, frame, notes)
    notes.count("masks", len(present))
    used = {int(instance.plane or 0) for instance in owners if not instance.countable}
    for plane in sorted(set(masks.planes) - used):
        notes.add("plane_without_region", regions, scene.scene_id, f"a region for plane {plane}", "none")
    return present


def _match(instances: list[Instance], scene: Scene, masks: Masks, notes: Notebook) -> list[Instance]:
    """Return the instances whose label or plane is theirs alone and has pixels; note all others and labels without an owner."""
    claims: dict[tuple[bool, int], list[Instance]] = defaultdict(list)
    for instance in instances:
        number = instance.label if instance.countable else instance.plane
        other = instance.plane if instance.countable else instance.label
        if number is None or other is not None or (instance.countable and number < 1):
            notes.add(
                "label_wrong",
                FILE,
                instance.instance_id,
                "label for a countable, plane for a region",
                f"label {instance.label}, plane {instance.plane}",
            )
        else:
            claims[instance.countable, int(number)].append(instance)
    labels = {int(v) for v in np.unique(masks.index)} - {0}
    owners: list[Instance] = []
    for (countable, number), claimants in claims.items():
        kind = "label" if countable else "plane"
        file = scene.mask_path if countable else scene.region_path or "regions"
        if len(claimants) > 1:
            notes.add("label_twice", FILE, f"{scene.scene_id} {kind} {number}", "one instance", [c.instance_id for c in claimants])
        if number not in (labels if countable else masks.planes):
            for claimant in claimants:
                notes.add("instance_without_pixels", file, claimant.instance_id, f"pixels of {kind} {number}", "none")
        else:
            owners.append(claimants[0])
    for label in sorted(labels - {number for countable, number in claims if countable}):
        notes.add("label_without_instance", scene.mask_path, scene.scene_id, f"an instance with label {label}", "none")
    return sorted(owners, key=lambda i: (not i.countable, i.label or 0, i.plane or 0))


def mask_runs(mask: NDArray[np.bool_], window: tuple[slice, slice], height: int) -> NDArray[np.int64]:
    """Return (n, 2) starts and ends of the runs of True pixels, counted down the columns of the whole image (COCO order)."""
    columns = np.zeros((height, mask.shape[1]), dtype=np.int8)
    columns[window[0]] = mask
    steps = np.diff(columns.ravel(order="F"), prepend=np.int8(0), append=np.int8(0))
    return np.column_stack([np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)]) + window[1].start * height


def rle_counts(text: str) -> list[int]:
    """Decode a COCO compressed counts string: run lengths, background first.

    Source: cocoapi, common/maskApi.c, rleFrString: 5 bits and a continuation bit per character from 48, two's complement; from the
        fourth run on, differences to the run before the last. Written anew, with every step checked: a hostile string cannot
        write outside memory here.

    Raises:
        ValueError: a character or a run length is impossible.

    >>> rle_counts("31212141")
    [3, 1, 2, 2, 4, 3, 8, 4]
    """
    counts: list[int] = []
    position = 0
    while position < len(text):
        value, shift, more = 0, 0, True
        while more:
            if position >= len(text) or shift > 60:
                raise ValueError("compressed counts end inside a number")
            code = ord(text[position]) - 48
            if not 0 <= code < 64:
                raise ValueError(f"character {text[position]!r} is no compressed count")
            value |= (code & 31) << shift
            more, position, shift = bool(code & 32), position + 1, shift + 5
            if not more and code & 16:
                value -= 1 << shift
        if len(counts) > 2:
            value += counts[-2]
        if value < 0:
            raise ValueError(f"run of {value} pixels")
        counts.append(value)
    return counts


def rle_runs(text: str, n_pixels: int) -> NDArray[np.int64]:
    """Return (n, 2) starts and ends of the foreground runs of a compressed counts string.

    Raises:
        ValueError: the runs do not sum up to the image.
    """
    counts = rle_counts(text)
    if sum(counts) != n_pixels:
        raise ValueError(f"runs sum up to {sum(counts)} pixels, expected {n_pixels}")
    edges = np.cumsum([0, *counts])
    starts, ends = edges[1:-1:2], edges[2::2]
    runs = np.column_stack([starts[: len(ends)], ends]).astype(np.int64)
    runs = runs[runs[:, 1] > runs[:, 0]]
    joined = np.flatnonzero(runs[1:, 0] == runs[:-1, 1])
    if len(joined):  # zero-length background runs are legal: join what they part
        keep_start, keep_end = np.ones(len(runs), dtype=bool), np.ones(len(runs), dtype=bool)
        keep_start[joined + 1] = False
        keep_end[joined] = False
        runs = np.column_stack([runs[keep_start, 0], runs[keep_end, 1]])
    return runs


def _check_instance(instance: Instance, masks: Masks, frame: Frame, notes: Notebook) -> None:
    item = instance.instance_id
    mask, window = masks.window_of(instance), masks.windows[item]
    height, width = masks.index.shape
    area = int(mask.sum())
    if area != instance.area_px:
        notes.add("area_px_wrong", FILE, item, f"{area} px", f"{instance.area_px} px")
    area_m2 = area * frame.pixel_area_m2
    if not abs(instance.area_m2 - area_m2) <= 2 * RELATIVE * area_m2:
        notes.add("area_m2_wrong", FILE, item, f"{area_m2:.9g} m2", f"{instance.area_m2:.9g} m2")
    with notes.guard("rle_wrong", FILE, item, "the runs of the mask"):
        if not np.array_equal(rle_runs(instance.rle, height * width), mask_runs(mask, window, height)):
            notes.add("rle_wrong", FILE, item, "the runs of the mask", "other runs")
    surely, perhaps = _is_cut(mask, window, masks.valid)
    if (surely and not instance.cut) or (instance.cut and not perhaps):
        notes.add("cut_wrong", FILE, item, surely, instance.cut)
    column, row = (int(np.floor(v)) for v in instance.point_px)
    rows, columns = window
    if not (rows.start <= row < rows.stop and columns.start <= column < columns.stop and mask[row - rows.start, column - columns.start]):
        notes.add("point_outside", FILE, item, "a point in the mask", list(instance.point_px))


def _is_cut(mask: NDArray[np.bool_], window: tuple[slice, slice], valid: NDArray[np.bool_]) -> tuple[bool, bool]:
    """Say whether a mask touches the scene's border or invalid pixels: surely (by an edge), perhaps (by a corner at least)."""
    rows, columns = window
    border = rows.start == 0 or columns.start == 0 or rows.stop == valid.shape[0] or columns.stop == valid.shape[1]
    if border:
        return True, True
    around = ~valid[rows.start - 1 : rows.stop + 1, columns.start - 1 : columns.stop + 1]
    if not around.any():
        return False, False
    grown = np.pad(mask, 1)
    surely = np.asarray(ndimage.binary_dilation(grown, ndimage.generate_binary_structure(2, 1)), dtype=bool) & around
    perhaps = np.asarray(ndimage.binary_dilation(grown, np.ones((3, 3), dtype=bool)), dtype=bool) & around
    return bool(surely.any()), bool(perhaps.any())


def _check_geometries(scene: Scene, present: list[Instance], masks: Masks, frame: Frame, notes: Notebook) -> None:
    """Burn every stored outline again (pixel centre inside) and compare with the mask, bit for bit; its edges are pixel edges."""
    shape = masks.index.shape
    shapes: list[tuple[Any, int]] = []
    by_label = {int(i.label or 0): i for i in present if i.countable}
    for instance in present:
        with notes.guard("outline_wrong", FILE, instance.instance_id):
            polygon = shapely.transform(shapely.from_wkb(instance.geometry), frame.to_image)
            if polygon.geom_type not in ("Polygon", "MultiPolygon") or polygon.is_empty:
                raise ValueError(f"geometry is a {polygon.geom_type}")
            right = polygon_of(masks.parts[instance.instance_id])
            if abs(polygon.area - right.area) > 0.01 * max(right.length, 1):
                notes.add("outline_wrong", FILE, instance.instance_id, f"pixel edges, {right.area} px2", f"{polygon.area:.6g} px2")
            elif instance.countable:
                shapes.append((polygon, int(instance.label or 0)))
            else:
                burnt = np.asarray(rasterio.features.rasterize([(polygon, 1)], out_shape=shape, dtype="uint8")) > 0
                off = int((burnt != masks.planes[int(instance.plane or 0)]).sum())
                if off:
                    notes.add("outline_wrong", FILE, instance.instance_id, "the mask when rasterised", f"{off} pixels differ")
    if not shapes:
        return
    burnt = np.asarray(rasterio.features.rasterize(shapes, out_shape=shape, dtype="uint16"))
    known = np.isin(masks.index, [label for _, label in shapes])
    off = (burnt != np.where(known, masks.index, 0)) & (known | (burnt > 0))
    for label in sorted({int(v) for v in np.unique(np.concatenate([burnt[off], masks.index[off]]))} & set(by_label)):
        count = int((off & ((burnt == label) | (masks.index == label))).sum())
        notes.add("outline_wrong", FILE, by_label[label].instance_id, "the mask when rasterised", f"{count} pixels differ")
