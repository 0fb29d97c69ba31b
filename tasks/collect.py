"""collect: POIs and scenes of one source."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from storage.osm import read_osm
from storage.rasters import RasterSource, open_source, read_window, write_scene_tif
from storage.vectors import SetAside, read_features
from tasks.steps import Done, Item, Made
from tasks.workspace import Workspace
from trigpoint.config import SourceConfig, VectorConfig
from trigpoint.errors import InputError, RasterError
from trigpoint.geometry.frames import SceneFrame, fit_frame, lonlat_from_crs, transformer
from trigpoint.geometry.repair import split_at_antimeridian
from trigpoint.identity import digest_json, make_id
from trigpoint.imagery.phash import grey_grid, hash_text, variant_hashes
from trigpoint.imagery.tiling import grid_windows, spread_points, window_around
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.records.scene import Poi, Scene, Window
from trigpoint.records.stage import ArtefactRef, Drop, StageName
from trigpoint.records.tables import GRID_SCHEMA, POI_SCHEMA, SCENE_SCHEMA

OSM_SUFFIXES = (".pbf", ".osm", ".bz2")
"""File suffixes that are read as OpenStreetMap data."""

MAX_SCENE_PX = 32_767
"""Longest side of a scene: outlines are compared in 64-bit whole numbers of the fourth power of it."""


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per source; its inputs are the bytes of its raster and POI files and what the configuration says of it."""
    items: list[Item] = []
    for source in workspace.config.sources:
        files = [source.imagery.path, *_sidecars(source.imagery.path), *(part.path for part in source.pois)]
        said = source.model_dump(mode="json", exclude={"footprints", "annotations"})
        items.append(
            Item(
                item_id=source.name,
                inputs=(*(workspace.digest(path) for path in files), digest_json(_without_folders(said))),
            )
        )
    return items


def _sidecars(path: Path) -> list[Path]:
    """Files beside a raster that GDAL reads with it (`x.tif.aux.xml`, `x.tif.msk`)."""
    return sorted(other for other in path.parent.glob(f"{path.name}.*") if other.is_file())


def _without_folders(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _without_folders(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_folders(v, key) for v in value]
    return Path(value).name if key == "path" else value


def source_config(workspace: Workspace, name: str) -> SourceConfig:
    """Return the configuration of a source by name."""
    return next(source for source in workspace.config.sources if source.name == name)


def make(workspace: Workspace, item: Item) -> Made:
    """Read the POIs of a source and cut its scenes; native pixels, nothing resampled."""
    config = source_config(workspace, item.item_id)
    drops: list[Drop] = []
    pois = [poi for part in config.pois for poi in read_pois(part, config.name, workspace, drops)]
    files: dict[str, ArtefactRef] = {}
    scenes: list[Scene] = []
    grids: dict[str, NDArray[np.float64]] = {}
    with open_source(config.imagery.path, crs_override=config.imagery.crs) as source:
        wanted = _windows(config, source, pois, workspace.config.seed, drops)
        for window, how, poi_id in wanted:
            try:
                cut = _cut(config, source, window, how, poi_id, workspace, drops)
            except RasterError as error:
                scene_id = make_id("s", source.sha256, list(window.as_tuple()))
                drops.append(
                    _drop(config.name, scene_id, "unreadable", str(error), "mend the file, then `trigpoint retry`", is_quarantined=True)
                )
                continue
            if cut is not None:
                scenes.append(cut.scene)
                files[cut.scene.scene_id] = cut.image
                grids[cut.scene.scene_id] = cut.grid
    scenes.sort(key=lambda scene: scene.scene_id)
    tables = {
        "poi": pa.Table.from_pylist([poi_row(poi) for poi in pois], schema=POI_SCHEMA),
        "scene": pa.Table.from_pylist([scene_row(scene) for scene in scenes], schema=SCENE_SCHEMA),
        "scene_record": pa.table({"record": pa.array([scene.model_dump_json() for scene in scenes], pa.string())}),
        "grey_grid": pa.table({"scene_id": sorted(grids), "grid": [grids[k].ravel() for k in sorted(grids)]}, schema=GRID_SCHEMA),
    }
    return Made(tables, files, drops, n_in=len(pois) + len(wanted), n_out=len(pois) + len(scenes))


def read_pois(part: VectorConfig, source_name: str, workspace: Workspace, drops: list[Drop]) -> list[Poi]:
    """Read the features of a file that a category's tag expressions find; those without a usable geometry are dropped with their reason."""
    taxonomy = workspace.taxonomy
    found: list[Poi] = []
    if part.path.suffix in OSM_SUFFIXES:
        osm = read_osm(part.path)
        for osm_type, osm_id in osm.without_geometry:
            why = "nodes or members are missing from the file, or its rings do not close"
            drops.append(_drop(source_name, f"osm/{osm_type}/{osm_id}", "no_geometry", why, "use a complete extract"))
        for feature in (*osm.nodes, *osm.areas):
            categories = taxonomy.match_tags(feature.tags)
            if categories:
                found.append(
                    Poi(
                        poi_id=f"osm/{feature.osm_type}/{feature.osm_id}",
                        source=source_name,
                        osm_type=feature.osm_type,
                        osm_id=feature.osm_id,
                        lon=feature.lon,
                        lat=feature.lat,
                        name=feature.tags.get("name"),
                        tags=feature.tags,
                        categories=categories,
                    )
                )
    else:
        table = read_features(part.path, layer=part.layer, crs_override=part.crs)
        drops += [set_aside_drop("collect", source_name, part, aside) for aside in table.set_aside]
        points = shapely.get_coordinates(shapely.point_on_surface(table.geometries))
        lonlat = lonlat_from_crs(table.crs, points)
        for k, properties in enumerate(table.properties):
            tags = {key: str(value) for key, value in properties.items() if value is not None}
            categories = taxonomy.match_tags(tags)
            if categories:
                identity = feature_id(part, properties, table.geometries[k])
                found.append(
                    Poi(
                        poi_id=identity,
                        source=source_name,
                        lon=float(lonlat[k, 0]),
                        lat=float(lonlat[k, 1]),
                        name=tags.get("name"),
                        tags=tags,
                        categories=categories,
                    )
                )
    return sorted(found, key=lambda poi: poi.poi_id)


def feature_id(part: VectorConfig, properties: dict[str, Any], geometry: BaseGeometry) -> str:
    """Identify a feature: by its id property, else by its geometry.

    Raises:
        InputError: the configured id property is missing or null.
    """
    if part.id_property is None:
        return make_id(f"{part.path.stem}/f", shapely.to_wkb(geometry, hex=True))
    value = properties.get(part.id_property)
    if value is None:
        raise InputError(
            f"{part.path}: a feature has no {part.id_property!r}; it has {sorted(properties)}; set id_property or mend the file"
        )
    return f"{part.id_prefix}{value}"


def set_aside_drop(stage: StageName, scope_id: str, part: VectorConfig, aside: SetAside) -> Drop:
    """Say why a feature of a vector file could not be used."""
    return Drop(
        stage=stage,
        scope_id=scope_id,
        item_id=f"{part.path.name}/{aside.feature_id}",
        reason_code=aside.reason_code,
        detail=aside.detail,
        remedy="mend the file",
    )


_Wanted = tuple[Window, str, str | None]


def _windows(config: SourceConfig, source: RasterSource, pois: list[Poi], seed: int, drops: list[Drop]) -> list[_Wanted]:
    """The windows that the configuration asks for: listed, on a grid, around POIs; each once."""
    scenes = config.scenes
    wanted: list[_Wanted] = []
    for col_off, row_off, width, height in scenes.windows:
        window = Window(col_off=col_off, row_off=row_off, width=width, height=height)
        if col_off < 0 or row_off < 0 or col_off + width > source.width or row_off + height > source.height:
            why = f"window {window.as_tuple()} reaches over the raster of {source.width} × {source.height} pixels"
            drops.append(_drop(config.name, str(window.as_tuple()), "window_outside_raster", why, "move or shrink it"))
        else:
            wanted.append((window, "window", None))
    if scenes.grid is not None:
        wanted += [(window, "grid", None) for window in grid_windows(source.width, source.height, scenes.grid.sizes_px)]
    if scenes.around_pois is not None:
        wanted += _around_pois(config, source, pois, seed, drops)
    unique: dict[tuple[int, int, int, int], _Wanted] = {}
    for entry in wanted:
        if max(entry[0].width, entry[0].height) > MAX_SCENE_PX:
            why = f"window {entry[0].as_tuple()} has a side of more than {MAX_SCENE_PX} pixels"
            drops.append(_drop(config.name, str(entry[0].as_tuple()), "scene_too_large", why, "cut smaller scenes"))
            continue
        unique.setdefault(entry[0].as_tuple(), entry)
    return list(unique.values())


def _around_pois(config: SourceConfig, source: RasterSource, pois: list[Poi], seed: int, drops: list[Drop]) -> list[_Wanted]:
    asked = config.scenes.around_pois
    if asked is None or asked.size_px > min(source.width, source.height):
        if asked is not None:
            why = f"scenes of {asked.size_px} px around POIs do not fit a raster of {source.width} × {source.height}"
            drops.append(_drop(config.name, "around_pois", "raster_too_small", why, "lower size_px"))
        return []
    chosen = [poi for poi in pois if set(poi.categories) & set(asked.categories)]
    if not chosen:
        return []
    lonlat = np.array([(poi.lon, poi.lat) for poi in chosen])
    x, y = transformer("OGC:CRS84", source.crs).transform(lonlat[:, 0], lonlat[:, 1])
    to_image = SceneFrame(source.crs, source.transform, fit_frame(source.crs, source.transform, source.width, source.height))
    pixels = to_image.image_from_crs(np.column_stack([x, y]))
    inside: list[int] = []
    for k, (col, row) in enumerate(pixels):
        if not (0 <= col < source.width and 0 <= row < source.height):
            continue
        here = Window(col_off=int(col), row_off=int(row), width=1, height=1)
        if not read_window(source, here).valid[0, 0]:
            why = f"lies on an invalid pixel (column {int(col)}, row {int(row)})"
            drops.append(_drop(config.name, chosen[k].poi_id, "poi_on_invalid_pixel", why, "use imagery that shows it"))
            continue
        inside.append(k)
    order = sorted(inside, key=lambda k: digest_json([seed, chosen[k].poi_id]))
    picked = spread_points(lonlat, order, asked.min_spacing_m, asked.limit)
    wanted: list[_Wanted] = []
    for k in picked:
        col, row = float(pixels[k, 0]), float(pixels[k, 1])
        wanted.append((window_around(col, row, asked.size_px, source.width, source.height), "poi", chosen[k].poi_id))
    return wanted


class _Cut(NamedTuple):
    scene: Scene
    image: ArtefactRef
    grid: NDArray[np.float64]


def _cut(
    config: SourceConfig, source: RasterSource, window: Window, how: str, poi_id: str | None, workspace: Workspace, drops: list[Drop]
) -> _Cut | None:
    scene_id = make_id("s", source.sha256, list(window.as_tuple()))
    patch = read_window(source, window)
    valid_share = float(np.count_nonzero(patch.valid)) / patch.valid.size
    if valid_share < config.scenes.min_valid_share:
        why = f"{valid_share:.1%} of window {window.as_tuple()} is valid, fewer than {config.scenes.min_valid_share:.0%}"
        drops.append(_drop(config.name, scene_id, "too_little_valid_area", why, "lower scenes.min_valid_share or choose another window"))
        return None
    frame = fit_frame(source.crs, patch.transform, window.width, window.height)
    grid = grey_grid(rgb_of_patch(patch).array, patch.valid)
    scene = Scene(
        scene_id=scene_id,
        source=config.name,
        source_sha256=source.sha256,
        window=window,
        crs=source.crs,
        transform=patch.transform,
        frame=frame,
        valid_share=valid_share,
        shorter_side_m=SceneFrame(source.crs, patch.transform, frame).shorter_side_m(patch.valid),
        licence=config.imagery.licence,
        attribution=config.imagery.attribution,
        acquired=config.imagery.acquired,
        how=how,  # type: ignore[arg-type]
        phash=tuple(hash_text(value) for value in variant_hashes(grid)),
        grey_sd=float(grid.std()),
        poi_id=poi_id,
        crs_overridden=source.crs_overridden,
    )
    return _Cut(scene, workspace.store.put_bytes(write_scene_tif(patch), ".tif"), grid)


def _drop(source: str, item_id: str, reason_code: str, detail: str, remedy: str, *, is_quarantined: bool = False) -> Drop:
    return Drop(
        stage="collect",
        scope_id=source,
        item_id=item_id,
        reason_code=reason_code,
        detail=detail,
        remedy=remedy,
        is_quarantined=is_quarantined,
    )


def poi_row(poi: Poi) -> dict[str, Any]:
    """Return a POI as a row of `POI_SCHEMA`."""
    row = poi.to_json()
    row["tags"] = json.dumps(poi.tags, sort_keys=True, ensure_ascii=False)
    return row


def scene_row(scene: Scene) -> dict[str, Any]:
    """Return a scene as a row of `SCENE_SCHEMA`; `region_path` and `outside` are left to publish."""
    frame = SceneFrame(scene.crs, scene.transform, scene.frame)
    w, h = float(scene.width), float(scene.height)
    edge = np.array([[0, 0], [0, h], [w, h], [w, 0]], dtype=float)
    footprint = shapely.orient_polygons(split_at_antimeridian(shapely.Polygon(frame.lonlat_from_image(edge))))
    return {
        "scene_id": scene.scene_id,
        "path": f"scenes/{scene.scene_id}.tif",
        "mask_path": f"masks/{scene.scene_id}.tif",
        "region_path": None,
        "crs": scene.crs,
        "transform": list(scene.transform),
        "width": scene.width,
        "height": scene.height,
        "gsd_m": scene.frame.gsd_m,
        "pixel_area_m2": scene.frame.pixel_area_m2,
        "metric_crs": scene.frame.metric_crs,
        "scale_k": scene.frame.scale_k,
        "convergence_deg": scene.frame.convergence_deg,
        "image_up_deg": scene.frame.image_up_deg,
        "north_up": scene.frame.is_north_up,
        "valid_share": scene.valid_share,
        "shorter_side_m": scene.shorter_side_m,
        "source": scene.source,
        "source_sha256": scene.source_sha256,
        "window": list(scene.window.as_tuple()),
        "licence": scene.licence,
        "attribution": scene.attribution,
        "acquired": scene.acquired,
        "how": scene.how,
        "poi_id": scene.poi_id,
        "phash": list(scene.phash),
        "grey_sd": scene.grey_sd,
        "outside": [],
        "geometry": shapely.to_wkb(footprint),
    }
