"""How well masks without weights find things from each kind of prompt, beside the trivial baselines: IoU of masks with known outlines.

    python benchmarks/proposals.py [--limit 60]

The outlines are those of the sample: OpenStreetMap buildings of Banepa (0.13 m; some are off their roofs by a metre), and tree crowns drawn
on two NEON tiles (0.1 m). A box is given sloppily, as people draw it: each edge moved outwards by 15 % of the side, plus up to 15 % either
way. A
point is the middle of the outline, with the median size of the set.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import geopandas as gpd
import numpy as np
import rasterio
import shapely
from numpy.typing import NDArray
from rasterio.windows import Window
from shapely.geometry.base import BaseGeometry

from trigpoint.boxes.calipers import min_area_rectangles
from trigpoint.masks.rasterise import CropMask, crop_mask
from trigpoint.proposals.classical import ClassicalProposer
from trigpoint.proposals.masks import crop_iou
from trigpoint.proposals.prompts import points_of_obb
from trigpoint.records.proposal import BoxPrompt, ClassicalMethod, PointsPrompt, Prompt

DATA = Path(__file__).parents[1] / "examples" / "banepa" / "data"
SLOPPY = 0.15
SHRUNK = 1 / (1 + 2 * SLOPPY)


class Site(NamedTuple):
    """A picture and outlines in its image coordinates."""

    name: str
    rgb: NDArray[np.uint8]
    outlines: list[BaseGeometry]


def read_site(name: str, image: str, vectors: str, layer: str | None, window: Window | None, limit: int) -> Site:
    """Read a picture and the outlines that lie wholly in it and measure 10 to 400 pixels."""
    with rasterio.open(DATA / image) as source:
        rgb = source.read([1, 2, 3], window=window).transpose(1, 2, 0)
        transform = source.transform if window is None else source.window_transform(window)
        frame = gpd.read_file(DATA / vectors, layer=layer) if layer else gpd.read_file(DATA / vectors)
        frame = frame[frame.geometry.geom_type.isin(["Polygon", "MultiPolygon"])].to_crs(source.crs)
    inverse = ~transform
    height, width = rgb.shape[:2]
    found: list[BaseGeometry] = []
    for geometry in frame.geometry:
        polygon = shapely.transform(geometry, lambda p: np.column_stack(inverse * (p[:, 0], p[:, 1])))
        left, top, right, bottom = polygon.bounds
        if left >= 0 and top >= 0 and right <= width and bottom <= height and 10 <= max(right - left, bottom - top) <= 400:
            found.append(polygon)
    if len(found) > limit:
        found = [found[k] for k in sorted(np.random.default_rng(0).choice(len(found), limit, replace=False))]
    return Site(name, np.ascontiguousarray(rgb), found)


def resized(corners: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Corners (n, 2) moved from their middle."""
    return corners.mean(axis=0) + share * (corners - corners.mean(axis=0))


def measure(site: Site) -> None:
    """Print one line per method and kind of prompt."""
    height, width = site.rgb.shape[:2]
    random = np.random.default_rng(0)
    truth = [crop_mask(polygon, height, width) for polygon in site.outlines]
    bounds = np.array([polygon.bounds for polygon in site.outlines])
    sides = bounds[:, 2:] - bounds[:, :2]
    moved = np.hstack([-sides, sides]) * SLOPPY + np.hstack([sides, sides]) * random.uniform(-SLOPPY, SLOPPY, (len(bounds), 4))
    sloppy = np.clip(bounds + moved, 0, [width, height, width, height])
    obbs = min_area_rectangles(np.array(site.outlines, dtype=object)).corners
    loose = np.array([resized(corners, 1 + 2 * SLOPPY) for corners in obbs])
    middles = (bounds[:, :2] + bounds[:, 2:]) / 2
    size = float(np.median(sides.max(axis=1)))

    def drawn(shape_of: Callable[[int], BaseGeometry]) -> list[CropMask | None]:
        return [crop_mask(shape_of(k), height, width) for k in range(len(bounds))]

    def asked(method: ClassicalMethod, shape_of: Callable[[int], BoxPrompt | PointsPrompt]) -> list[CropMask | None]:
        prompts = [Prompt(shape=shape_of(k), origin="drawn", source_id=str(k)) for k in range(len(bounds))]
        found: dict[int, CropMask] = {a.prompt: a.crop for a in ClassicalProposer(method).propose(site.rgb, prompts)}
        return [found.get(k) for k in range(len(bounds))]

    def box(k: int) -> BoxPrompt:
        left, top, right, bottom = (float(v) for v in sloppy[k])
        return BoxPrompt(box_px=(left, top, right, bottom))

    def point(k: int) -> PointsPrompt:
        return PointsPrompt(points_px=((float(middles[k, 0]), float(middles[k, 1])),), labels=(1,), size_px=size)

    def square(k: int) -> BaseGeometry:
        return shapely.box(*(middles[k] - size / 2), *(middles[k] + size / 2))

    def shrunk(k: int) -> BaseGeometry:
        left, top, right, bottom = sloppy[k]
        return shapely.Polygon(resized(np.array([[left, top], [right, top], [right, bottom], [left, bottom]]), SHRUNK))

    rows: list[tuple[str, str, list[CropMask | None]]] = [
        ("sloppy box", "the box itself", drawn(lambda k: shapely.box(*sloppy[k]))),
        ("sloppy box", "the box shrunk", drawn(shrunk)),
        ("sloppy box", "classical, watershed", asked("watershed", box)),
        ("sloppy box", "classical, random walker", asked("random_walker", box)),
        ("loose oriented box", "the box itself", drawn(lambda k: shapely.Polygon(loose[k]))),
        ("loose oriented box", "the box shrunk", drawn(lambda k: shapely.Polygon(resized(loose[k], SHRUNK)))),
        ("loose oriented box", "classical, watershed", asked("watershed", lambda k: points_of_obb(loose[k], height, width))),
        ("loose oriented box", "classical, random walker", asked("random_walker", lambda k: points_of_obb(loose[k], height, width))),
        ("point and size", "a square", drawn(square)),
        ("point and size", "classical, watershed", asked("watershed", point)),
        ("point and size", "classical, random walker", asked("random_walker", point)),
    ]
    print(f"\n{site.name}: {len(bounds)} outlines, median side {size:.0f} px\n\n| prompt | mask | mean IoU | share ≥ 0.5 | share ≥ 0.75 |")
    print("|---|---|---|---|---|")
    for prompt, name, masks in rows:
        iou = np.array([0.0 if mask is None else crop_iou(mask, wanted) for mask, wanted in zip(masks, truth, strict=True)])
        print(f"| {prompt} | {name} | {iou.mean():.2f} | {np.mean(iou >= 0.5):.2f} | {np.mean(iou >= 0.75):.2f} |", flush=True)


def main() -> None:
    """Measure every set of outlines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=60, help="outlines per set at most")
    limit = parser.parse_args().limit
    measure(read_site("Buildings, Banepa", "banepa.tif", "banepa_buildings.geojson", None, None, limit))
    measure(read_site("Tree crowns, NEON OSBS", "OSBS_029.tif", "neon_crowns.gpkg", "crowns_osbs", None, limit))
    measure(read_site("Tree crowns, NEON SJER", "SJER_008_2018.tif", "neon_crowns.gpkg", "crowns_sjer", None, limit))


if __name__ == "__main__":
    main()
