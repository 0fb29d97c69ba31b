"""GeoPackage for QGIS: masks as pixel-edge polygons in the scenes' own CRS, holes and parts kept.

Rasterised by the pixel-centre rule such a polygon gives its mask back bit for bit; what is drawn freely is rasterised by the same rule.
Not here: the file (`storage.geopackages`), style and project (`trigpoint.exchange.qgis`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.categories import Taxonomy
from trigpoint.exchange.items import (
    ITEM_KEY,
    JOINT,
    SEEN_KEY,
    SEPARABLE_KEY,
    Document,
    ExchangeScene,
    ExportList,
    join_category,
    masks_by_scene,
    read_seen,
    read_separable,
    seen_text,
    separable_text,
    shown,
)
from trigpoint.exchange.reading import Label, Reader
from trigpoint.geometry.frames import apply_affine, invert_affine, transformer
from trigpoint.masks.crops import polygon_of_record
from trigpoint.review.ledger import ItemState

MASKS, SCENES = "masks", "scenes"
"""Names of the layers; with a number behind where the scenes have several CRSs."""

SCENE_KEY, CATEGORY_KEY = "scene_id", "category"
"""Further columns of the layer of masks."""

MASK_COLUMNS = (CATEGORY_KEY, ITEM_KEY, SCENE_KEY, SEEN_KEY, SEPARABLE_KEY)
"""All of its columns."""

INSIDE_SHARE = 0.5
"""Share of a new polygon that must lie in a scene for the scene to be taken for its own, when the polygon does not name one."""


class VectorLayer(NamedTuple):
    """A layer of features.

    Attributes:
        crs: Authority code or WKT.
        geometries: MultiPolygons in `crs` (as read: anything).
        rows: Properties of each.
        ids: How to call each in a message.
    """

    name: str
    crs: str
    geometries: tuple[BaseGeometry | None, ...]
    rows: tuple[dict[str, Any], ...]
    ids: tuple[int | str, ...] = ()


def to_geopackage(scenes: Iterable[ExchangeScene], states: Mapping[str, ItemState]) -> list[VectorLayer]:
    """Write scenes as layers: for each CRS one of masks and one of the scenes' outlines."""
    by_crs: dict[str, list[ExchangeScene]] = {}
    for scene in sorted(scenes, key=lambda scene: scene.scene_id):
        by_crs.setdefault(scene.crs, []).append(scene)
    by_scene = masks_by_scene(states)
    layers: list[VectorLayer] = []
    for k, (crs, members) in enumerate(sorted(by_crs.items()), start=1):
        suffix = f"_{k}" if len(by_crs) > 1 else ""
        geometries: list[BaseGeometry] = []
        rows: list[dict[str, Any]] = []
        for scene in members:
            for state, value in by_scene.get(scene.scene_id, []):
                geometries.append(_mapped(polygon_of_record(value.mask), scene))
                rows.append(
                    {
                        ITEM_KEY: state.item.item_id,
                        SCENE_KEY: scene.scene_id,
                        CATEGORY_KEY: JOINT.join(value.category),
                        SEEN_KEY: seen_text(state),
                        SEPARABLE_KEY: separable_text(value),
                    }
                )
        layers.append(VectorLayer(f"{MASKS}{suffix}", crs, tuple(geometries), tuple(rows)))
        outlines = tuple(_mapped(shapely.box(0, 0, scene.width, scene.height), scene) for scene in members)
        layers.append(VectorLayer(f"{SCENES}{suffix}", crs, outlines, tuple({SCENE_KEY: scene.scene_id} for scene in members)))
    return layers


def _mapped(polygon: BaseGeometry, scene: ExchangeScene) -> BaseGeometry:
    placed = shapely.transform(polygon, lambda points: apply_affine(scene.transform, points))
    return placed if placed.geom_type == "MultiPolygon" else shapely.MultiPolygon([placed])  # type: ignore[list-item]


def from_geopackage(
    layers: Sequence[VectorLayer], export: ExportList | None, scenes: Mapping[str, ExchangeScene], taxonomy: Taxonomy
) -> Document:
    """Read layers of masks; a feature without a `scene_id` is of the one scene that it lies in.

    Args:
        layers: The layers of masks of the file.
        export: The list of the export, where the file still has it.
        scenes: Scene id → scene of the release.
        taxonomy: `category` holds ids of its categories, joined by +.
    """
    reader = Reader("gpkg", scenes, taxonomy)
    reader.export = export
    if export is not None:
        reader.scene_ids |= set(export.scene_ids) & set(scenes)
    for layer in layers:
        for geometry, row, own in zip(layer.geometries, layer.rows, layer.ids, strict=True):
            _read_feature(reader, layer, geometry, row, f"layer {layer.name!r}, feature {shown(own)}", scenes)
    return reader.document()


def _read_feature(
    reader: Reader,
    layer: VectorLayer,
    geometry: BaseGeometry | None,
    row: dict[str, Any],
    place: str,
    scenes: Mapping[str, ExchangeScene],
) -> None:
    item_id, scene_id, category = (_text(row.get(key)) for key in (ITEM_KEY, SCENE_KEY, CATEGORY_KEY))
    categories = join_category(category) if category else []
    label = Label(place, item_id or None, categories, read_seen(row.get(SEEN_KEY)), read_separable(row.get(SEPARABLE_KEY)))
    if scene_id:
        scene = reader.scene(scene_id, place)
    else:
        found = [] if geometry is None else _scenes_around(geometry, layer.crs, scenes)
        scene = found[0] if len(found) == 1 else None
        if scene is None:
            names = ", ".join(each.scene_id for each in found[:5])
            cause = f"it lies in {len(found)} scenes ({names}); say which in scene_id" if found else "it lies in no scene of this release"
            reader.problem(place, cause, label.item_id)
    sheet = None if scene is None else reader.sheet(scene.picture, [scene.width, scene.height], place, scene.scene_id)
    if scene is not None and sheet is not None:
        reader.add_polygon(label, sheet, None if geometry is None else _in_image(geometry, layer.crs, scene))


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _in_image(geometry: BaseGeometry, crs: str, scene: ExchangeScene) -> BaseGeometry:
    inverse = invert_affine(scene.transform)

    def to_image(points: NDArray[np.float64]) -> NDArray[np.float64]:
        if crs != scene.crs:
            points = np.column_stack(transformer(crs, scene.crs).transform(points[:, 0], points[:, 1]))
        return apply_affine(inverse, points)

    return shapely.transform(geometry, to_image)


def _scenes_around(geometry: BaseGeometry, crs: str, scenes: Mapping[str, ExchangeScene]) -> list[ExchangeScene]:
    """Return the scenes that a geometry lies in: those that hold all of it, else those that hold most of it."""
    shares: list[tuple[float, ExchangeScene]] = []
    for _, scene in sorted(scenes.items()):
        image = _in_image(geometry, crs, scene)
        if not np.isfinite(shapely.get_coordinates(image)).all():
            continue
        left, top, right, bottom = image.bounds
        width = min(right, float(scene.width)) - max(left, 0.0)
        height = min(bottom, float(scene.height)) - max(top, 0.0)
        whole = max((right - left) * (bottom - top), 1e-12)
        if width > 0 and height > 0 and width * height / whole >= INSIDE_SHARE:
            shares.append((width * height / whole, scene))
    full = [scene for share, scene in shares if share >= 1 - 1e-9]
    return full or [scene for _, scene in shares]
