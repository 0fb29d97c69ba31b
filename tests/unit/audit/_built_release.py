"""The tiny project with more to split: a third, coarser source 40 km away, all five protocols, and screening."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import shapely
import yaml
from pyproj import Transformer
from rasterio.transform import Affine

from tests.tiny_project import LEFT, TOP, make_project

PIXEL = 1.0
FAR = 40_000.0
PROTOCOLS = ["scene-disjoint", "geographic", "cross-scale", "depth", "unseen-pair"]


def _coarse_source(folder: Path) -> None:
    """A raster of 480 x 240 pixels of 1 m with buildings on a loose grid, schools and temples among them."""
    random = np.random.default_rng(3)
    left = LEFT + FAR
    pixels = random.integers(1, 255, (3, 240, 480), dtype=np.uint8)
    with rasterio.open(
        folder / "c.tif", "w", driver="GTiff", width=480, height=240, count=3, dtype="uint8", crs="EPSG:32645",
        transform=Affine(PIXEL, 0, left, 0, -PIXEL, TOP), photometric="RGB",
    ) as target:  # fmt: skip
        target.write(pixels)
    to_lonlat = Transformer.from_crs(32645, 4326, always_xy=True)
    features = []
    for number in range(50):
        row, col = divmod(number, 10)
        x, y = 48 * col + int(random.integers(2, 18)), 48 * row + int(random.integers(2, 16))
        w, h = int(random.integers(14, 26)), int(random.integers(14, 26))
        box = shapely.box(left + x * PIXEL, TOP - (y + h) * PIXEL, left + (x + w) * PIXEL, TOP - y * PIXEL)
        ring = [list(to_lonlat.transform(*p)) for p in box.exterior.coords]
        kind = {7: "school", 23: "school", 31: "temple", 44: "commercial"}.get(number, "yes")
        tags: dict[str, Any] = {"osm_id": 5000 + number, "building": kind, "roof:material": ("concrete", "tin", "clay_tiles")[number % 3]}
        features.append({"type": "Feature", "properties": tags, "geometry": {"type": "Polygon", "coordinates": [ring]}})
    (folder / "c.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def make_split_project(folder: Path, geographic: dict[str, Any] | None = None, policy: str = "mark", **changes: Any) -> Path:
    """Write the project; returns its configuration.

    Args:
        folder: Where to.
        geographic: Configuration of the geographic protocol; by region, 3 km, when it is left out.
        policy: What screening does with the scenes at the eastern end of source b.
        **changes: Of top-level keys of the configuration.
    """
    split = {
        "protocols": PROTOCOLS,
        "geographic": geographic or {"by": "region", "region_km": 3.0},
        "screen": [{"name": "seen", "footprints": "seen.geojson"}],
        "screen_policy": policy,
    }
    path = make_project(folder, split=split, **changes)
    _coarse_source(folder)
    to_lonlat = Transformer.from_crs(32645, 4326, always_xy=True)
    seen = shapely.box(LEFT + 5200, TOP - 40, LEFT + 5230, TOP - 20)
    ring = [list(to_lonlat.transform(*p)) for p in seen.exterior.coords]
    shape = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (folder / "seen.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [shape]}), encoding="utf-8")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    own = {"licence": "CC0-1.0", "attribution": "made for the tests"}
    content["sources"].append(
        {
            "name": "c",
            "imagery": {"path": "c.tif", **own},
            "footprints": [{"path": "c.geojson", **own, "id_property": "osm_id", "id_prefix": "osm/way/"}],
            "scenes": {"windows": [[0, 0, 240, 240], [240, 0, 240, 240]]},
        }
    )
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path
