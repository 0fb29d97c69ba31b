"""A complete little project on disk: two rasters, footprints, drawn regions, a configuration. Built in a few seconds."""

import json
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pyogrio
import rasterio
import shapely
import yaml
from pyproj import Transformer

ROOT = Path(__file__).parents[1]
LEFT, TOP, PIXEL = 354000.0, 3057000.0, 0.5


def make_raster(path: Path, left: float, top: float, seed: int) -> None:
    """Write 480 × 300 pixels of noise in UTM 45 N."""
    random = np.random.default_rng(seed)
    pixels = random.integers(1, 255, (3, 300, 480), dtype=np.uint8)
    with rasterio.open(
        path, "w", driver="GTiff", width=480, height=300, count=3, dtype="uint8", crs="EPSG:32645",
        transform=rasterio.Affine(PIXEL, 0, left, 0, -PIXEL, top), photometric="RGB",
    ) as target:  # fmt: skip
        target.write(pixels)


def _box(left: float, top: float, x: int, y: int, w: int, h: int) -> shapely.Polygon:
    return shapely.box(left + x * PIXEL, top - (y + h) * PIXEL, left + (x + w) * PIXEL, top - y * PIXEL)


def _footprints(path: Path, left: float, top: float, seed: int) -> None:
    """Buildings on a loose grid; some schools and temples, roofs of three kinds and unknown."""
    to_lonlat = Transformer.from_crs(32645, 4326, always_xy=True)
    random = np.random.default_rng(seed)
    features = []
    for row in range(6):
        for col in range(10):
            x, y = 48 * col + int(random.integers(2, 18)), 48 * row + int(random.integers(2, 16))
            w, h = int(random.integers(14, 26)), int(random.integers(14, 26))
            ring = [list(to_lonlat.transform(*p)) for p in _box(left, top, x, y, w, h).exterior.coords]
            kind = {7: "school", 23: "school", 31: "temple", 44: "commercial"}.get(10 * row + col, "yes")
            tags: dict[str, Any] = {"osm_id": 1000 + 10 * row + col, "building": kind}
            roof = ("concrete", "tin", "clay_tiles", None)[int(random.integers(0, 4))] if (row + col) % 3 else "tin"
            if roof:
                tags["roof:material"] = roof
            features.append({"type": "Feature", "properties": tags, "geometry": {"type": "Polygon", "coordinates": [ring]}})
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def make_project(folder: Path, **changes: Any) -> Path:
    """Write the project; returns its configuration file. `changes` replace top-level keys of the configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settlement.v1.yaml").write_bytes((ROOT / "taxonomy" / "settlement.v1.yaml").read_bytes())
    for name, left, seed in (("a", LEFT, 1), ("b", LEFT + 5000, 2)):
        make_raster(folder / f"{name}.tif", left, TOP, seed)
        _footprints(folder / f"{name}.geojson", left, TOP, seed)
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": "2026-01-01T00:00:00.000Z"})  # a GeoPackage holds when it was written
    drawn = [("road", _box(LEFT, TOP, 0, 140, 480, 8)), ("open_ground", _box(LEFT, TOP, 30, 60, 60, 40))]
    gpd.GeoDataFrame({"category": [c for c, _ in drawn]}, geometry=[g for _, g in drawn], crs=32645).to_file(
        folder / "drawn.gpkg", layer="regions"
    )
    own = {"licence": "CC0-1.0", "attribution": "made for the tests"}
    footprints = {**own, "id_property": "osm_id", "id_prefix": "osm/way/"}
    config = {
        "name": "tiny",
        "version": "0.1.0",
        "title": "A tiny release",
        "seed": 7,
        "taxonomy": "settlement.v1.yaml",
        "unknown_is_other": {"kind": "made up, so it is known"},
        "sources": [
            {
                "name": "a",
                "imagery": {"path": "a.tif", "acquired": "2025-06-01", **own},
                "pois": [{"path": "a.geojson", **footprints}],
                "footprints": [{"path": "a.geojson", **footprints}],
                "annotations": [{"path": "drawn.gpkg", "layer": "regions", **own}],
                "scenes": {"grid": {"sizes_px": [240]}, "around_pois": {"categories": ["school"], "size_px": 160, "limit": 1}},
            },
            {
                "name": "b",
                "imagery": {"path": "b.tif", **own, "licence": "CC-BY-4.0"},
                "footprints": [{"path": "b.geojson", **footprints}],
                "scenes": {"windows": [[0, 0, 240, 300], [240, 0, 240, 300]]},
            },
        ],
        "query": {"per_scene": {1: 2, 2: 3, 3: 6, 4: 4, 5: 3}, "certificate_jitters": 3},
        "rules": {"min_instance_px": 60},
        "run": {"work": "work", "output": "release", "workers": 1, "chunk_size": 2},
        **changes,
    }
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def tree_digest(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its relative path."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
