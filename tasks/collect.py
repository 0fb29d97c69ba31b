"""collect: POIs and scenes of one source."""

import json
import math
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from storage.osm import OsmFeature, is_overpass, read_osm
from storage.rasters import RasterSource, is_same_grid, open_source, read_window, write_scene_tif
from storage.vectors import SetAside, read_features, tags_of
from tasks.fetch import SourceFiles, acquired_of, files_of, missing, series_of, source_rows
from tasks.scenes import frame_of
from tasks.steps import Done, Item, Made
from tasks.workspace import Workspace
from trigpoint.config import AroundPoisConfig, PoiConfig, ScenesConfig, SourceConfig, VectorConfig
from trigpoint.errors import InputError, RasterError
from trigpoint.geometry.frames import SceneFrame, apply_affine, fit_frame, transformer
from trigpoint.geometry.places import lonlat_geometry, representative_points
from trigpoint.geometry.repair import split_at_antimeridian
from trigpoint.identity import digest_json, make_id
from trigpoint.imagery.bbox import parts_of_box
from trigpoint.imagery.patch import Patch
from trigpoint.imagery.phash import grey_grid, hash_text, variant_hashes
from trigpoint.imagery.quality import blank_share, bright_share, cloud_share
from trigpoint.imagery.tiling import Chosen, Refusal, Sampling, choose_points, grid_windows, window_around
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.imagery.windows import clip_window, transform_of_window, window_of_points
from trigpoint.records.scene import Poi, Scene, Window
from trigpoint.records.stage import ArtefactRef, Drop, StageName
from trigpoint.records.tables import GRID_SCHEMA, MAPPED_SCHEMA, POI_SCHEMA, SCENE_SCHEMA, SOURCE_FILE_SCHEMA

OSM_ENDINGS = (".pbf", ".osm", ".osm.bz2", ".osm.gz", ".bz2", ".gz", ".xml")
"""Ends of the names of files that are read as OpenStreetMap data; `.json` is when it is an Overpass answer."""

MAX_SCENE_PX = 32_767
"""Longest side of a scene: outlines are compared in 64-bit whole numbers of the fourth power of it."""


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per source; its inputs are the bytes of its raster and POI files and what the configuration says of it."""
    items: list[Item] = []
    owners: dict[str, str] = {}
    for source in workspace.config.sources:
        files = files_of(workspace, source)
        if files.imagery is not None and (owner := owners.setdefault(files.imagery.sha256, source.name)) != source.name:
            files = missing(f"its imagery is that of source {owner!r}, byte for byte; merge the two into one source")
        inputs = [*files.digests, _said(source)]
        payload = {"files": files.to_json()}
        first = series_of(workspace, source)
        if first is not None:
            inputs.append(digest_json(["series", first]))
        if first is not None and first != source.name:
            lender = source_config(workspace, first)
            lent = files_of(workspace, lender)
            inputs += [*lent.digests, _said(lender)]
            payload["first"] = lent.to_json()
        items.append(Item(item_id=source.name, inputs=tuple(inputs), payload=payload))
    return items


def _said(source: SourceConfig) -> str:
    return digest_json(_without_folders(source.model_dump(mode="json", exclude={"footprints", "annotations", "proposals"})))


def _without_folders(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _without_folders(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_folders(v, key) for v in value]
    return Path(value).name if key == "path" and isinstance(value, str) else value


def source_config(workspace: Workspace, name: str) -> SourceConfig:
    """Return the configuration of a source by name."""
    return next(source for source in workspace.config.sources if source.name == name)


def make(workspace: Workspace, item: Item) -> Made:
    """Read the POIs of a source and cut its scenes; native pixels, nothing resampled."""
    config = source_config(workspace, item.item_id)
    own = SourceFiles.model_validate(item.payload["files"])
    if own.imagery is None:
        raise InputError(own.problem)
    drops: list[Drop] = []
    pois = _all_pois(config, own, workspace, drops)
    files: dict[str, ArtefactRef] = {}
    scenes: list[Scene] = []
    grids: dict[str, NDArray[np.float64]] = {}
    acquired = acquired_of(config.imagery, own.imagery)
    with ExitStack() as open_files:
        source = open_files.enter_context(open_source(own.imagery.path, crs_override=config.imagery.crs))
        clouds = _open_clouds(config, own, source, open_files)
        wanted = _lent_windows(config, item, source, workspace, drops) if "first" in item.payload else None
        if wanted is None:
            wanted = _windows(config, source, pois, workspace, drops)
            if series_of(workspace, config) is not None:
                wanted = [each._replace(series_id=_series_id(source, each.window)) for each in wanted]
        for each in wanted:
            window = each.window
            try:
                cut = _cut(config, acquired, source, clouds, each, workspace, drops)
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
        "mapped": _mapped(config, own, scenes) if workspace.config.language.forms else MAPPED_SCHEMA.empty_table(),
        "scene": pa.Table.from_pylist([scene_row(scene) for scene in scenes], schema=SCENE_SCHEMA),
        "scene_record": pa.table({"record": pa.array([scene.model_dump_json() for scene in scenes], pa.string())}),
        "source_file": pa.Table.from_pylist(source_rows(config, own), schema=SOURCE_FILE_SCHEMA),
        "grey_grid": pa.table({"scene_id": sorted(grids), "grid": [grids[k].ravel() for k in sorted(grids)]}, schema=GRID_SCHEMA),
    }
    return Made(tables, files, drops, n_in=len(pois) + len(wanted), n_out=len(pois) + len(scenes))


def _all_pois(config: SourceConfig, files: SourceFiles, workspace: Workspace, drops: list[Drop]) -> list[Poi]:
    """Read the POIs of all files of a source; of those with one id the first is taken, the others are set aside."""
    found: dict[str, list[Poi]] = {}
    for part, file in zip(config.pois, files.pois, strict=True):
        for poi in read_pois(part, Path(file.path), config.name, workspace, drops):
            found.setdefault(poi.poi_id, []).append(poi)
    for poi_id, (first, *others) in found.items():
        if others:
            n_other = sum(poi != first for poi in others)
            why = f"{len(others) + 1} POIs have this id, {n_other} of them say something else than the first, which is taken"
            remedy = "give each its own id, or leave id_property out" if n_other else "none needed"
            drops.append(_drop(config.name, poi_id, "poi_id_repeated", why, remedy, n=len(others)))
    return [first for first, *_ in found.values()]


def _mapped(config: SourceConfig, files: SourceFiles, scenes: list[Scene]) -> pa.Table:
    """Every tagged thing of OpenStreetMap files whose bounds meet those of a scene: what negatives of free language are held against."""
    found: list[OsmFeature] = []
    for _, file in zip(config.pois, files.pois, strict=True):
        if _is_osm(Path(file.path)):
            osm = read_osm(file.path)
            found += [*osm.nodes, *osm.areas, *osm.lines]
    if not found or not scenes:
        return MAPPED_SCHEMA.empty_table()
    west, south, east, north = shapely.bounds(shapely.from_wkb([feature.wkb for feature in found])).T
    near = np.zeros(len(found), dtype=bool)
    for scene in scenes:
        corners = np.array([[0, 0], [scene.width, 0], [scene.width, scene.height], [0, scene.height]], dtype=np.float64)
        lon, lat = frame_of(scene).lonlat_from_image(corners).T
        # a scene over 180° has corners on both sides: there every longitude may meet it
        near |= ((east >= lon.min()) & (west <= lon.max()) | (np.ptp(lon) > 180)) & (north >= lat.min()) & (south <= lat.max())
    kept = [found[int(k)] for k in np.flatnonzero(near)]
    tags = [json.dumps(feature.tags, sort_keys=True, ensure_ascii=False) for feature in kept]
    return pa.table({"geometry": [feature.wkb for feature in kept], "tags": tags}, schema=MAPPED_SCHEMA)


def read_pois(part: PoiConfig, path: Path, source_name: str, workspace: Workspace, drops: list[Drop]) -> list[Poi]:
    """Read the features of a file that a category's tag expressions find; those without a usable geometry are dropped with their reason."""
    found = _osm_pois(path, source_name, workspace, drops) if _is_osm(path) else _vector_pois(part, path, source_name, workspace, drops)
    if part.bbox is not None:
        box = shapely.MultiPolygon([shapely.box(*half) for half in parts_of_box(part.bbox)])
        found = [poi for poi in found if shapely.intersects(box, _geometry_of(poi))]
    return sorted(found, key=lambda poi: poi.poi_id)


def _is_osm(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith(OSM_ENDINGS) or (name.endswith(".json") and is_overpass(path))


def _geometry_of(poi: Poi) -> BaseGeometry:
    return shapely.Point(poi.lon, poi.lat) if poi.geometry is None else shapely.from_wkb(poi.geometry)


def _extent(wkb: bytes) -> bytes | None:
    return None if shapely.from_wkb(wkb).geom_type == "Point" else wkb


def _osm_pois(path: Path, source_name: str, workspace: Workspace, drops: list[Drop]) -> list[Poi]:
    osm = read_osm(path, lambda tags: bool(workspace.taxonomy.match_tags(tags)))
    for osm_type, osm_id in osm.without_geometry:
        why = "nodes or members are missing from the file, its rings do not close, or a relation of its type makes no area"
        drops.append(_drop(source_name, f"osm/{osm_type}/{osm_id}", "no_geometry", why, "use a complete extract"))
    return [
        Poi(
            poi_id=f"osm/{feature.osm_type}/{feature.osm_id}",
            source=source_name,
            osm_type=feature.osm_type,
            osm_id=feature.osm_id,
            lon=feature.lon,
            lat=feature.lat,
            geometry=_extent(feature.wkb),
            name=feature.tags.get("name"),
            tags=feature.tags,
            categories=workspace.taxonomy.match_tags(feature.tags),
        )
        for feature in (*osm.nodes, *osm.areas, *osm.lines)
    ]


def _vector_pois(part: PoiConfig, path: Path, source_name: str, workspace: Workspace, drops: list[Drop]) -> list[Poi]:
    said = VectorConfig.model_validate({**part.model_dump(exclude={"overpass", "bbox", "complete"}), "path": path})
    table = read_features(path, layer=part.layer, crs_override=part.crs)
    drops += [set_aside_drop("collect", source_name, said, aside) for aside in table.set_aside]
    found: list[Poi] = []
    for properties, own in zip(table.properties, table.geometries, strict=True):
        tags = tags_of(properties)
        categories = workspace.taxonomy.match_tags(tags)
        if not categories:
            continue
        identity = feature_id(said, properties, own)
        geometry = lonlat_geometry(own, table.crs)
        if geometry is None:
            why = f"its coordinates, such as {shapely.get_coordinates(own)[0].tolist()}, are nowhere on the Earth in {table.crs}"
            drops.append(_drop(source_name, identity, "bad_geometry", why, "mend the file, or set the key 'crs'"))
            continue
        (lon, lat), *_ = representative_points(np.array([geometry], dtype=object)).tolist()
        found.append(
            Poi(
                poi_id=identity,
                source=source_name,
                lon=lon,
                lat=lat,
                geometry=_extent(shapely.to_wkb(geometry)),
                name=tags.get("name") or tags.get("names.primary"),
                tags=tags,
                categories=categories,
            )
        )
    return found


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


class _Wanted(NamedTuple):
    window: Window
    how: Literal["grid", "window", "poi"]
    poi_id: str | None = None
    series_id: str | None = None


def _series_id(first: RasterSource, window: Window) -> str:
    return make_id("series", first.sha256, list(window.as_tuple()))


def _lent_windows(config: SourceConfig, item: Item, source: RasterSource, workspace: Workspace, drops: list[Drop]) -> list[_Wanted]:
    """The footprints of the scenes of another source as windows of this one: the smallest that cover them, in native pixels."""
    lender = source_config(workspace, str(config.scenes.same_as))
    files = SourceFiles.model_validate(item.payload["first"])
    if files.imagery is None:
        raise InputError(files.problem)
    found: list[_Wanted] = []
    with open_source(files.imagery.path, crs_override=lender.imagery.crs) as first:
        to_image = SceneFrame(source.crs, source.transform, fit_frame(source.crs, source.transform, source.width, source.height))
        for each in _windows(lender, first, _all_pois(lender, files, workspace, []), workspace, []):
            w, h = each.window.width, each.window.height
            edge = shapely.get_coordinates(shapely.segmentize(shapely.box(0, 0, w, h), max(w, h) / 8))
            x, y = apply_affine(transform_of_window(first.transform, each.window), edge).T
            if first.crs != source.crs:
                x, y = transformer(first.crs, source.crs).transform(x, y)
            window = window_of_points(to_image.image_from_crs(np.column_stack([x, y])))
            if clip_window(window, source.width, source.height) != window:
                why = (
                    f"window {each.window.as_tuple()} of source {lender.name!r} is {window.as_tuple()} here, which reaches over the raster"
                )
                series = _series_id(first, each.window)
                drops.append(_drop(config.name, series, "series_outside_raster", why, "use a raster that covers the same place"))
            else:
                found.append(_Wanted(window, each.how, each.poi_id, _series_id(first, each.window)))
    return found


def _open_clouds(config: SourceConfig, files: SourceFiles, source: RasterSource, open_files: ExitStack) -> RasterSource | None:
    """Open the cloud mask: a file on the grid of the imagery, or the imagery itself; None when clouds have no limit.

    Raises:
        RasterError: the mask is on another grid, or has no such band.
    """
    clouds = config.imagery.clouds
    if clouds is None or config.scenes.max_cloud_share is None:
        return None
    if files.clouds is None:
        mask = source
    else:
        mask = open_files.enter_context(open_source(files.clouds.path, crs_override=source.crs if source.crs_overridden else None))
        if not is_same_grid(mask, source):
            raise RasterError(
                f"cloud mask {files.clouds.path} has {mask.width} × {mask.height} pixels, the transform {mask.transform} and the CRS "
                f"{mask.crs[:80]!r}, expected the grid of the imagery: {source.width} × {source.height}, {source.transform}, "
                f"{source.crs[:80]!r}; warp the mask (nearest neighbour)"
            )
    if clouds.band > mask.count:
        raise RasterError(f"imagery.clouds.band is {clouds.band}, but {mask.path.name} has {mask.count} band(s); name another")
    return mask


def _windows(config: SourceConfig, source: RasterSource, pois: list[Poi], workspace: Workspace, drops: list[Drop]) -> list[_Wanted]:
    """The windows that the configuration asks for: listed, on a grid, around POIs; each once."""
    scenes = config.scenes
    wanted: list[_Wanted] = []
    for col_off, row_off, width, height in scenes.windows:
        window = Window(col_off=col_off, row_off=row_off, width=width, height=height)
        if col_off < 0 or row_off < 0 or col_off + width > source.width or row_off + height > source.height:
            why = f"window {window.as_tuple()} reaches over the raster of {source.width} × {source.height} pixels"
            drops.append(_drop(config.name, str(window.as_tuple()), "window_outside_raster", why, "move or shrink it"))
        else:
            wanted.append(_Wanted(window, "window"))
    if scenes.grid is not None:
        wanted += [_Wanted(window, "grid") for window in grid_windows(source.width, source.height, scenes.grid.sizes_px)]
    if scenes.around_pois is not None:
        wanted += _around_pois(config, scenes.around_pois, source, pois, workspace, drops)
    unique: dict[tuple[int, int, int, int], _Wanted] = {}
    for entry in wanted:
        place = entry.window.as_tuple()
        if max(entry.window.width, entry.window.height) > MAX_SCENE_PX:
            why = f"window {place} has a side of more than {MAX_SCENE_PX} pixels"
            drops.append(_drop(config.name, str(place), "scene_too_large", why, "cut smaller scenes"))
            continue
        if unique.setdefault(place, entry) is not entry and entry.poi_id is not None:
            why = f"its window {place} is that of {unique[place].poi_id or 'the configuration'} already"
            drops.append(_drop(config.name, entry.poi_id, "window_taken", why, "ask for a spacing, or smaller scenes"))
    return list(unique.values())


def _around_pois(
    config: SourceConfig, asked: AroundPoisConfig, source: RasterSource, pois: list[Poi], workspace: Workspace, drops: list[Drop]
) -> list[_Wanted]:
    """Choose POIs that the raster shows and place a window around each."""
    found = [poi for poi in pois if set(asked.wanted) & set(poi.categories)]
    categories = [tuple(c for c in poi.categories if c in asked.wanted) for poi in found]
    lonlat = np.array([(poi.lon, poi.lat) for poi in found]).reshape(-1, 2)
    x, y = transformer("OGC:CRS84", source.crs).transform(lonlat[:, 0], lonlat[:, 1])
    to_image = SceneFrame(source.crs, source.transform, fit_frame(source.crs, source.transform, source.width, source.height))
    pixels = to_image.image_from_crs(np.column_stack([x, y]))
    on_raster = [k for k, (col, row) in enumerate(pixels) if 0 <= col < source.width and 0 <= row < source.height]
    sizes: dict[int, int] = {}
    for k in on_raster:
        size = _size_around(config, asked, source, found[k], (int(pixels[k, 0]), int(pixels[k, 1])), workspace, drops)
        if size is not None:
            sizes[k] = size
    order = sorted(sizes, key=lambda k: digest_json([workspace.config.seed, found[k].poi_id]))
    picked = choose_points(lonlat, categories, order, _sampling(asked))
    drops += _shortfalls(config.name, asked, categories, on_raster, picked)
    wanted: list[_Wanted] = []
    for k in picked.indices:
        col, row = float(pixels[k, 0]), float(pixels[k, 1])
        wanted.append(_Wanted(window_around(col, row, sizes[k], source.width, source.height), "poi", found[k].poi_id))
    return wanted


def _shortfalls(
    source: str, asked: AroundPoisConfig, categories: list[tuple[str, ...]], on_raster: list[int], picked: Chosen
) -> list[Drop]:
    """Say which quotas, or without quotas which limit, are not met, and what became of the POIs."""
    limit = _sampling(asked).limit
    short = [(f"around_pois/{name}", {name}, asked.quota[name], n) for name, n in picked.missing.items() if name in asked.quota]
    if not asked.quota and limit is not None and len(picked.indices) < limit:
        short = [("around_pois", set(asked.wanted), limit, limit - len(picked.indices))]
    said: dict[Refusal, str] = {
        "too_near": f"are nearer than {asked.min_spacing_m:g} m to a chosen one",
        "region_full": f"are in a region of {asked.region_km:g} km that has its {asked.per_region} already",
        "quota_full": "are also of a category that has its quota",
        "over_limit": f"are beyond the limit of {limit}",
    }
    drops: list[Drop] = []
    for item_id, names, wanted, n in short:
        members = {k for k, own in enumerate(categories) if names.intersection(own)}
        fit = members & (picked.refused.keys() | set(picked.indices))
        reasons = Counter(picked.refused[k] for k in members & picked.refused.keys())
        why = (
            f"{n} of {wanted} scenes around {', '.join(sorted(names))} are missing: {len(members)} such POIs were read, "
            f"{len(members.intersection(on_raster))} lie on the raster, {len(fit)} can have a scene"
        )
        why += "".join(f", {reasons[reason]} {text}" for reason, text in said.items() if reasons[reason])
        drops.append(
            _drop(
                source,
                item_id,
                "quota_not_met" if asked.quota else "limit_not_reached",
                why,
                "ask for fewer, or use more POIs or a larger raster",
                n=n,
            )
        )
    return drops


def _size_around(
    config: SourceConfig,
    asked: AroundPoisConfig,
    source: RasterSource,
    poi: Poi,
    pixel: tuple[int, int],
    workspace: Workspace,
    drops: list[Drop],
) -> int | None:
    """Return the side of the scene around a POI in native pixels, or None when it cannot have one; the reason is recorded."""
    col, row = pixel
    here = Window(col_off=col, row_off=row, width=1, height=1)
    if not read_window(source, here).valid[0, 0]:
        why = f"lies on an invalid pixel (column {col}, row {row})"
        drops.append(_drop(config.name, poi.poi_id, "poi_on_invalid_pixel", why, "use imagery that shows it"))
        return None
    gsd_m = fit_frame(source.crs, transform_of_window(source.transform, here), 1, 1).gsd_m
    wanted = [category for category in poi.categories if category in asked.wanted]
    limit = _coarsest(wanted, workspace) if asked.check_gsd else None
    if limit is not None and gsd_m > limit:
        why = f"a pixel of {gsd_m:.3g} m is too coarse for {', '.join(wanted)}, which need {limit:g} m or finer"
        drops.append(_drop(config.name, poi.poi_id, "gsd_too_coarse_for_category", why, "use finer imagery, or check_gsd: false"))
        return None
    size = asked.size_px if asked.size_px is not None else math.ceil(round((asked.size_m or 0.0) / gsd_m, 6))
    if size > min(source.width, source.height):
        why = f"a scene of {size} px around it does not fit a raster of {source.width} × {source.height}"
        drops.append(_drop(config.name, poi.poi_id, "raster_too_small", why, "lower size_px or size_m"))
        return None
    return size


def _sampling(asked: AroundPoisConfig) -> Sampling:
    limit = 1 if asked.limit is None and not asked.quota else asked.limit
    unlimited = sys.maxsize if limit is None else limit
    return Sampling(
        quota={category: asked.quota.get(category, unlimited) for category in asked.wanted},
        limit=limit,
        min_spacing_m=asked.min_spacing_m,
        per_region=asked.per_region,
        region_km=asked.region_km,
    )


def _coarsest(categories: list[str], workspace: Workspace) -> float | None:
    """Return the coarsest pixel, m, at which any of the categories can be told; None when one of them says nothing."""
    limits = [workspace.taxonomy.get(category).coarsest_gsd_m for category in categories]
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


class _Cut(NamedTuple):
    scene: Scene
    image: ArtefactRef
    grid: NDArray[np.float64]


def _cut(
    config: SourceConfig,
    acquired: str | None,
    source: RasterSource,
    clouds: RasterSource | None,
    wanted: _Wanted,
    workspace: Workspace,
    drops: list[Drop],
) -> _Cut | None:
    window = wanted.window
    scene_id = make_id("s", source.sha256, list(window.as_tuple()))
    patch = read_window(source, window)
    if patch.valid_share < config.scenes.min_valid_share:
        why = f"{patch.valid_share:.1%} of window {window.as_tuple()} is valid, fewer than {config.scenes.min_valid_share:.0%}"
        drops.append(_drop(config.name, scene_id, "too_little_valid_area", why, "lower scenes.min_valid_share or choose another window"))
        return None
    frame = fit_frame(source.crs, patch.transform, window.width, window.height)
    shares = _shares(config, patch, clouds)
    fault = _fault_of(config.scenes, frame.gsd_m, shares)
    if fault is not None:
        reason, why, remedy = fault
        drops.append(_drop(config.name, scene_id, reason, f"{why} in window {window.as_tuple()}", remedy))
        return None
    grid = grey_grid(rgb_of_patch(patch).array, patch.valid)
    scene = Scene(
        scene_id=scene_id,
        source=config.name,
        source_sha256=source.sha256,
        window=window,
        crs=source.crs,
        transform=patch.transform,
        frame=frame,
        valid_share=patch.valid_share,
        shorter_side_m=SceneFrame(source.crs, patch.transform, frame).shorter_side_m(patch.valid),
        licence=config.imagery.licence,
        attribution=config.imagery.attribution,
        acquired=acquired,
        how=wanted.how,
        phash=tuple(hash_text(value) for value in variant_hashes(grid)),
        grey_sd=float(grid.std()),
        poi_id=wanted.poi_id,
        crs_overridden=source.crs_overridden,
        series_id=wanted.series_id,
        **shares,
    )
    return _Cut(scene, workspace.store.put_bytes(write_scene_tif(patch), ".tif"), grid)


def _shares(config: SourceConfig, patch: Patch, clouds: RasterSource | None) -> dict[str, float]:
    """Measure what the configuration limits."""
    scenes, shares = config.scenes, dict[str, float]()
    if scenes.max_blank_share < 1:
        shares["blank_share"] = blank_share(patch)
    if scenes.max_bright_share < 1:
        shares["bright_share"] = bright_share(patch)
    if clouds is not None and config.imagery.clouds is not None:
        mask = read_window(clouds, patch.window).pixels[config.imagery.clouds.band - 1]
        shares["cloud_share"] = cloud_share(mask, config.imagery.clouds.values, patch.valid)
    return shares


def _fault_of(scenes: ScenesConfig, gsd_m: float, shares: dict[str, float]) -> tuple[str, str, str] | None:
    """Return reason code, what was found and the remedy when a scene is outside the limits of the configuration."""
    if scenes.max_gsd_m is not None and gsd_m > scenes.max_gsd_m:
        return "gsd_too_coarse", f"a pixel is {gsd_m:.4g} m, more than {scenes.max_gsd_m:g} m,", "raise scenes.max_gsd_m"
    if scenes.min_gsd_m is not None and gsd_m < scenes.min_gsd_m:
        return "gsd_too_fine", f"a pixel is {gsd_m:.4g} m, less than {scenes.min_gsd_m:g} m,", "lower scenes.min_gsd_m"
    for name, what, limit in (
        ("blank_share", "have one and the same value", scenes.max_blank_share),
        ("bright_share", "are saturated", scenes.max_bright_share),
        ("cloud_share", "are clouds by the mask", scenes.max_cloud_share),
    ):
        if name in shares and limit is not None and shares[name] > limit:
            reason = f"too_{name.removesuffix('_share')}"
            return reason, f"{shares[name]:.1%} of the valid pixels {what}, more than {limit:.0%},", f"raise scenes.max_{name}"
    return None


def _drop(source: str, item_id: str, reason_code: str, detail: str, remedy: str, *, is_quarantined: bool = False, n: int = 1) -> Drop:
    return Drop(
        stage="collect",
        scope_id=source,
        item_id=item_id,
        reason_code=reason_code,
        detail=detail,
        remedy=remedy,
        is_quarantined=is_quarantined,
        n=n,
    )


def poi_row(poi: Poi) -> dict[str, Any]:
    """Return a POI as a row of `POI_SCHEMA`."""
    return {**poi.model_dump(), "tags": json.dumps(poi.tags, sort_keys=True, ensure_ascii=False)}


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
        "series_id": scene.series_id,
        "blank_share": scene.blank_share,
        "bright_share": scene.bright_share,
        "cloud_share": scene.cloud_share,
        "phash": list(scene.phash),
        "grey_sd": scene.grey_sd,
        "outside": [],
        "geometry": shapely.to_wkb(footprint),
    }
