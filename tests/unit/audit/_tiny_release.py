"""A tiny, complete release made by hand: rectangles only, so that every value follows from simple formulas.

Two scenes of 160 x 128 pixels with the same layout: `s-utm` (EPSG:32645, 0.5 m) and `s-merc` (EPSG:3857, nominal 0.15 m). Nothing here
imports trigpoint: outlines of rectangles are the rectangles, distances come from plain shapely, verdicts from scalar arithmetic, and
answers are written down by hand.
"""

import hashlib
import json
import math
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import rasterio
import shapely
from pycocotools import mask as coco_mask
from rasterio.transform import Affine

WIDTH, HEIGHT = 160, 128
LICENCES = Path(__file__).parents[3] / "taxonomy" / "licences.v1.yaml"
TAU = 3.0
CRS84 = pyproj.CRS.from_user_input("OGC:CRS84")

BUILDINGS = {
    # name: (x0, y0, x1, y1), categories
    "B1": ((10, 10, 34, 24), ["school", "tin_roof"]),
    "B2": ((60, 8, 80, 20), ["shop_building", "tin_roof"]),
    "B3": ((12, 74, 40, 90), ["apartment_house", "tile_roof"]),
    "B4": ((108, 78, 118, 88), ["apartment_house", "tile_roof"]),
    "B5": ((60, 60, 82, 80), ["temple", "tin_roof"]),
    "B6": ((0, 96, 20, 112), ["apartment_house"]),  # cut by the left border, roof unknown
    "B7": ((36, 11, 50, 23), ["apartment_house", "tile_roof"]),
    "B8": ((130, 10, 150, 24), ["tree"]),
    "B9": ((130, 98, 142, 108), ["temple", "tile_roof"]),
    "B10": ((14, 40, 30, 50), ["temple", "tile_roof"]),
    "B11": ((20, 1, 36, 8), ["apartment_house", "tin_roof"]),
    "B12": ((112, 92, 124, 104), ["apartment_house"]),
}
TWIN = {"B13": ((42, 64, 88, 76), ["pond"])}
"""Of a release with `twin`: two parts to both sides of B5, the edges of both 13 pixels from its centroid, the western one larger."""

GAPS = {"B13": (58, 64, 84, 76)}
TWIN_TAXONOMY = "  - {id: pond, axis: kind, parent: null, countable: true, noun: pond, plural: ponds}\n"
REGION = (100, 70, 150, 120)
HOLE = (104, 108, 110, 114)
INSIDE = ("B4", "B9", "B12")  # wholly in the region, at least 8 pixels from its edge; nothing else shares a pixel with it

SCENES = {
    "s-utm": ("EPSG:32645", (0.5, 0.0, 330000.0, 0.0, -0.5, 3060000.0), "EPSG:32645", "drone"),
    "s-merc": ("EPSG:3857", (0.15, 0.0, 9520300.0, 0.0, -0.15, 3203400.0), "EPSG:32645", "mosaic"),
}
WINDOWS = {"s-utm": (20, 10, WIDTH, HEIGHT), "s-merc": (5, 30, WIDTH, HEIGHT)}

TAXONOMY = """
axes: [{id: kind, of: null}, {id: roof, of: building}]
categories:
  - {id: building, axis: kind, parent: null, countable: true, noun: building, plural: buildings}
  - {id: school, axis: kind, parent: building, countable: true, noun: school, plural: schools}
  - {id: temple, axis: kind, parent: building, countable: true, noun: temple, plural: temples}
  - {id: apartment_house, axis: kind, parent: building, countable: true, noun: residential building, plural: residential buildings}
  - {id: shop_building, axis: kind, parent: building, countable: true, noun: shop building, plural: shop buildings}
  - {id: tree, axis: kind, parent: null, countable: true, noun: tree, plural: trees}
  - {id: open_ground, axis: kind, parent: null, countable: false, noun: open ground, plural: open grounds}
  - {id: tin_roof, axis: roof, parent: null, phrase: with a tin roof}
  - {id: tile_roof, axis: roof, parent: null, phrase: with a tile roof}
  - {id: concrete_roof, axis: roof, parent: null, phrase: with a concrete roof}
"""


def cat(name):
    return {"op": "cat", "category": name}


def rel(of, relation, anchor):
    return {"op": "rel", "of": of, "relation": relation, "anchor": anchor}


TILED = {"op": "and", "args": [cat("building"), cat("tile_roof")]}
HOMES, SCHOOL, SHOP = cat("apartment_house"), cat("school"), cat("shop_building")
QUERIES = [
    # key, level, program, canonical, sentences, answers, difficulty, counterfactual key, category
    ("homes", 1, HOMES, "(cat apartment_house)", "all residential buildings | all of the residential buildings | "
     "every residential building", "B11 B12 B3 B4 B6 B7", "easy", None, "apartment_house"),
    ("concrete", 1, {"op": "and", "args": [cat("building"), cat("concrete_roof")]}, "(and (cat building) (cat concrete_roof))",
     "all buildings with a concrete roof | all of the buildings with a concrete roof | "
     "every building with a concrete roof", "", "medium", None, "building concrete_roof"),
    ("east", 2, {"op": "attr", "of": cat("building"), "key": "east", "extreme": "most"}, "(attr (cat building) east most)",
     "the easternmost building | the building that lies farthest east | "
     "the most easterly of all buildings", "B9", "easy", None, "building"),
    ("near", 3, rel(HOMES, "near", SCHOOL), "(rel (cat apartment_house) near (cat school))",
     "all residential buildings that are near the school | the residential buildings that lie close to the school | "
     "any residential buildings located in the vicinity of the school", "B7 B11", "easy", "far", "apartment_house"),
    ("far", 3, rel(HOMES, "far", SCHOOL), "(rel (cat apartment_house) far (cat school))",
     "all residential buildings that are far from the school | the residential buildings that lie far away from the school | "
     "any residential buildings located a long way from the school", "B4 B6 B12", "medium", "near", "apartment_house"),
    ("none", 3, rel(HOMES, "east_of", SHOP), "(rel (cat apartment_house) east_of (cat shop_building))",
     "all residential buildings that are east of the shop building | "
     "the residential buildings that lie to the east of the shop building | "
     "any residential buildings located east of the shop building", "", "hard", "west", "apartment_house"),
    ("west", 3, rel(HOMES, "west_of", SHOP), "(rel (cat apartment_house) west_of (cat shop_building))",
     "all residential buildings that are west of the shop building | "
     "the residential buildings that lie to the west of the shop building | "
     "any residential buildings located west of the shop building", "B7 B11", "easy", "none", "apartment_house"),
    ("both", 4, {"op": "and", "args": [rel(HOMES, "south_of", SHOP), rel(HOMES, "west_of", cat("tree"))]},
     "(and (rel (cat apartment_house) south_of (cat shop_building)) (rel (cat apartment_house) west_of (cat tree)))",
     "all residential buildings that are south of the shop building and are west of the tree | "
     "the residential buildings that lie to the south of the shop building and lie to the west of the tree | "
     "any residential buildings located south of the shop building and also west of the tree", "B3 B6", "easy", None, "apartment_house"),
    ("hops", 5, rel(TILED, "west_of", {"op": "nearest", "of": cat("temple"), "anchor": cat("tree")}),
     "(rel (and (cat building) (cat tile_roof)) west_of (nearest (cat temple) (cat tree)))",
     "all buildings with a tile roof that are west of the temple closest to the tree | "
     "the buildings with a tile roof that lie to the west of the temple nearest to the tree | "
     "any buildings with a tile roof located west of the temple closest to the tree", "B3 B10", "easy", None, "building tile_roof"),
    ("inside", 3, rel(HOMES, "inside", cat("open_ground")), "(rel (cat apartment_house) inside (cat open_ground))",
     "all residential buildings that are inside the open ground | the residential buildings that lie within the open ground | "
     "any residential buildings located in the open ground", "B4 B12", "easy", "outside", "apartment_house"),
    ("outside", 3, rel(HOMES, "outside", cat("open_ground")), "(rel (cat apartment_house) outside (cat open_ground))",
     "all residential buildings that are outside the open ground | the residential buildings that lie outside of the open ground | "
     "any residential buildings located outside the open ground", "B3 B6 B7 B11", "medium", "inside", "apartment_house"),
    ("closest", 3, {"op": "nearest", "of": HOMES, "anchor": cat("tree")}, "(nearest (cat apartment_house) (cat tree))",
     "the residential building closest to the tree | the residential building that is nearest to the tree | "
     "out of all residential buildings, the one closest to the tree", "B4", "easy", None, "apartment_house"),
    ("tin", 3, rel({"op": "and", "args": [cat("tin_roof"), cat("building")]}, "far", cat("open_ground")),
     "(rel (and (cat building) (cat tin_roof)) far (cat open_ground))",
     "all buildings with a tin roof that are far from the open ground | "
     "the buildings with a tin roof that lie far away from the open ground | "
     "any buildings with a tin roof located a long way from the open ground", "B1 B11", "easy", None, "building tin_roof"),
]  # fmt: skip

RULES = {
    "outline_tolerance_px": 3.0, "near_share": 0.1, "near_max_px": 128.0, "far_share": 0.5, "direction_half_angle_deg": 45.0,
    "direction_margin_deg": 10.0, "near_margin_share": 0.05, "inside_share": 0.95, "inside_undecided_share": 0.8,
    "outside_undecided_share": 0.2, "direction_shared_share": 0.2, "area_margin_share": 0.05, "nearest_margin_share": 0.1,
    "farthest_margin_share": 0.03, "position_margin_px": 5.0, "anchor_max_scene_share": 0.4, "min_instance_px": 100,
    "unanswerable_share": 0.15, "share_floor": 1e-6, "answer_max_share": 0.8, "sector_min_share": 0.05, "max_scale_spread": 0.001,
    "min_drawn_instance_px": 1, "wind_half_angle_deg": 22.5, "wind_margin_deg": 5.0, "within_m": [],
    "eqs_iou": 0.5, "coverage_share": 0.5,
    "outline": {"algorithm": "douglas-peucker", "tolerance_px": 1.0, "start_vertex": "smallest y, then smallest x", "library": "none"},
    "relations": ["north_of", "east_of", "south_of", "west_of", "near", "far", "inside", "contains", "outside", "overlaps"],
    "difficulty": {"candidates": 20, "level": 3, "area_share": 0.0033, "cardinality": 2, "medium_from": 2, "hard_from": 3},
}  # fmt: skip


class Ground:
    """The local ground frame of a scene by the document's formulas."""

    def __init__(self, scene_id):
        self.crs, self.t, self.metric, self.source = SCENES[scene_id]
        self.move = pyproj.Transformer.from_crs(self.crs, self.metric, always_xy=True)
        self.home = self.move.transform(*self.to_crs(WIDTH / 2, HEIGHT / 2))
        self.back = pyproj.Transformer.from_crs(self.metric, CRS84, always_xy=True)
        self.proj = pyproj.Proj(self.metric)
        factors = self.proj.get_factors(*self.back.transform(*self.home))
        self.k, self.convergence = math.sqrt(factors.areal_scale), factors.meridian_convergence
        cx, cy = WIDTH / 2, HEIGHT / 2
        right, left, down, up = (self.at(cx + i, cy + j) for i, j in ((8, 0), (-8, 0), (0, 8), (0, -8)))
        jacobian = [[(right[n] - left[n]) / 16, (down[n] - up[n]) / 16] for n in (0, 1)]
        self.pixel_area = abs(jacobian[0][0] * jacobian[1][1] - jacobian[0][1] * jacobian[1][0])
        self.gsd = math.sqrt(self.pixel_area)
        self.image_up = (math.degrees(math.atan2(up[0] - down[0], up[1] - down[1])) + self.convergence) % 360
        self.side = math.dist(self.at(80, 0), self.at(80, HEIGHT))

    def to_crs(self, x, y):
        a, b, c, d, e, f = self.t
        return a * x + b * y + c, d * x + e * y + f

    def at(self, x, y):
        u, v = self.move.transform(*self.to_crs(x, y))
        return (u - self.home[0]) / self.k, (v - self.home[1]) / self.k

    def convergence_at(self, x_m, y_m):
        lonlat = self.back.transform(x_m * self.k + self.home[0], y_m * self.k + self.home[1])
        return self.proj.get_factors(*lonlat).meridian_convergence

    def polygon(self, rect, hole=None):
        return polygon_through(self.at, rect, hole)

    def lonlat(self, rect, hole=None):
        move = pyproj.Transformer.from_crs(self.crs, CRS84, always_xy=True)
        return polygon_through(lambda x, y: move.transform(*self.to_crs(x, y)), rect, hole)


def polygon_through(move, rect, hole):
    """A rectangle with its hole; a hole from its top to its bottom leaves two parts."""
    if hole and (hole[1], hole[3]) == (rect[1], rect[3]):
        parts = (rect[0], rect[1], hole[0], rect[3]), (hole[2], rect[1], rect[2], rect[3])
        return shapely.MultiPolygon([polygon_through(move, part, None) for part in parts])
    return shapely.Polygon([move(*p) for p in corners(rect)], [[move(*p) for p in corners(hole)]] if hole else [])


def corners(rect):
    x0, y0, x1, y1 = rect
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def dump(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def query_id(scene_id, canonical):
    return "q-" + sha256(json.dumps([scene_id, canonical], separators=(",", ":"), ensure_ascii=False).encode())[:16]


def write_tif(path, array, transform, crs):
    path.parent.mkdir(parents=True, exist_ok=True)
    array = array if array.ndim == 3 else array[None]
    with rasterio.open(
        path, "w", driver="GTiff", width=array.shape[2], height=array.shape[1], count=array.shape[0], dtype=array.dtype.name,
        transform=Affine(*transform), crs=crs, compress="zstd",
    ) as target:  # fmt: skip
        target.write(array)


def instance_id(scene_id, name):
    return f"{scene_id}/{name}"


def rle_of(mask):
    return coco_mask.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()


def instance_row(scene_id, ground, name, rect, category, label, plane, hole=None):
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    x0, y0, x1, y1 = rect
    mask[y0:y1, x0:x1] = True
    if hole:
        mask[hole[1] : hole[3], hole[0] : hole[2]] = False
    polygon = ground.polygon(rect, hole)
    a, b, _, d = (ground.at(*p) for p in corners(rect))
    wide, high = math.dist(a, b), math.dist(a, d)
    end = b if wide >= high else d
    orientation = (math.degrees(math.atan2(end[0] - a[0], end[1] - a[1])) + ground.convergence) % 180
    area_px = int(mask.sum())
    row = {
        "instance_id": instance_id(scene_id, name), "scene_id": scene_id, "label": label, "plane": plane, "category": category,
        "countable": label is not None, "boxable": label is not None, "cut": x0 == 0, "area_px": area_px,
        "area_m2": area_px * ground.pixel_area, "perimeter_m": polygon.length, "length_m": max(wide, high), "width_m": min(wide, high),
        "orientation_deg": orientation, "elongation": max(wide, high) / min(wide, high),
        "compactness": 4 * math.pi * polygon.area / polygon.length**2, "centroid_x_m": polygon.centroid.x,
        "centroid_y_m": polygon.centroid.y, "point_x_px": x0 + 1.5, "point_y_px": y0 + 1.5,
        "hbb_px": [float(v) for v in rect] if label else None,
        "obb_px": [float(v) for p in corners(rect) for v in p] if label else None, "rle": rle_of(mask), "moved_px": 0,
        "source_ids": [f"osm/way/{label or 99}"], "proposal": "vector", "review_state": "unreviewed",
        "geometry": shapely.to_wkb(ground.lonlat(rect, hole)),
    }  # fmt: skip
    return row, mask


def nearest_place(shape, point, twin):
    """Where a shape is nearest to a point; of parts that are equally near the western or the eastern one, as `twin` says."""
    parts = sorted(shapely.get_parts(shape), key=lambda part: part.centroid.x, reverse=twin == "east")
    part = min(parts, key=lambda part: round(part.distance(point), 6))
    return shapely.Point(shapely.shortest_line(part, point).coords[0])


def graph_rows(scene_id, ground, buildings, twin):
    """Every TRUE and UNDECIDED edge, pair by pair, with scalar arithmetic."""
    shapes = {name: (ground.polygon(rect, GAPS.get(name)), True) for name, (rect, _) in buildings.items()}
    shapes["R"] = (ground.polygon(REGION, HOLE), False)
    two_tau = 2 * TAU * ground.gsd
    near, far = min(0.1 * ground.side, 128 * ground.gsd), 0.5 * ground.side
    rows = []

    def add(s, a, relation, verdict, value, unit, margin):
        if verdict != "FALSE":
            rows.append(
                {
                    "scene_id": scene_id,
                    "subject_id": instance_id(scene_id, s),
                    "anchor_id": instance_id(scene_id, a),
                    "relation": relation,
                    "verdict": verdict,
                    "value": value,
                    "unit": unit,
                    "margin": margin,
                }
            )

    def decide(depth, margin):
        return "TRUE" if depth >= margin else "FALSE" if depth <= -margin else "UNDECIDED"

    for s, (subject, _) in shapes.items():
        for a, (anchor, countable) in shapes.items():
            if s == a:
                continue
            sharing = "R" in (s, a) and (s in INSIDE or a in INSIDE)
            distance = subject.distance(anchor)
            target, turn = subject.centroid, ground.convergence_at(anchor.centroid.x, anchor.centroid.y)
            rays = []
            for start in (anchor.centroid, nearest_place(anchor, target, twin)):
                x, y = target.x - start.x, target.y - start.y
                length = math.hypot(x, y)
                rays.append(((math.degrees(math.atan2(x, y)) + turn) % 360, max(10.0, math.degrees(math.atan2(two_tau, length)))))
            deciding = rays[0] if countable else rays[1]
            for relation, middle in (("north_of", 0), ("east_of", 90), ("south_of", 180), ("west_of", 270)):
                verdicts = {
                    decide(45 - abs((azimuth - middle + 180) % 360 - 180), margin) for azimuth, margin in (rays if countable else rays[1:])
                }
                verdict = verdicts.pop() if len(verdicts) == 1 else "UNDECIDED"
                add(s, a, relation, "FALSE" if sharing else verdict, deciding[0], "deg", deciding[1])
            margin = max(0.05 * near, two_tau)
            add(s, a, "near", "FALSE" if sharing else decide(near - distance, margin), distance, "m", margin)
            margin = max(0.05 * far, two_tau)
            add(s, a, "far", decide(distance - far, margin), distance, "m", margin)
    for s in buildings:
        if s in INSIDE:
            add(s, "R", "inside", "TRUE", 1.0, "share", 0.15)
            add("R", s, "contains", "TRUE", 1.0, "share", 0.15)
        else:
            add(s, "R", "outside", "TRUE", 0.0, "share", 0.2)
    return sorted(rows, key=lambda r: (r["scene_id"], r["subject_id"], r["anchor_id"], r["relation"]))


def hashes(bands):
    """`phash` and `grey_sd` of a picture of 128 x 160 pixels: every cell of the grid is 4 x 5 whole pixels."""
    grey = np.tensordot([0.299, 0.587, 0.114], bands.astype(float), axes=1)
    grid = grey.reshape(32, HEIGHT // 32, 32, WIDTH // 32).mean(axis=(1, 3))
    found = []
    for turned in [np.rot90(grid, k) for k in range(4)] + [np.rot90(grid.T, k) for k in range(4)]:
        low = dct_matrix() @ turned @ dct_matrix().T
        bits = "".join("1" if low[u, v] > 1e-6 and u + v else "0" for u in range(8) for v in range(8))
        found.append(f"{int(bits, 2):016x}")
    return {"phash": found, "grey_sd": float(grid.std())}


def dct_matrix():
    """The first eight rows of the orthonormal DCT-II of 32 values, from its formula."""
    u, x = np.arange(8)[:, None], np.arange(32)[None, :]
    return np.cos(np.pi * (2 * x + 1) * u / 64) * np.where(u == 0, math.sqrt(1 / 32), math.sqrt(2 / 32))


def quality(pixels):
    """Shares of the commonest colour and of pixels of 250 and more, counted one pixel after the other."""
    colours = [tuple(colour) for colour in pixels.reshape(3, -1).T.tolist()]
    most = max(Counter(colours).values())
    return {"blank_share": most / len(colours), "bright_share": sum(min(colour) >= 250 for colour in colours) / len(colours)}


def build_scene(folder, sources, scene_id, twin):
    buildings = BUILDINGS | (TWIN if twin else {})
    ground = Ground(scene_id)
    crs, t, metric, source = SCENES[scene_id]
    col, row, width, height = WINDOWS[scene_id]
    noise = np.random.Generator(np.random.PCG64(len(scene_id))).integers(1, 255, (3, 200, 220), dtype=np.uint8)
    origin = (t[0], t[1], t[2] - col * t[0], t[3], t[4], t[5] - row * t[4])
    write_tif(sources / f"{source} ä.tif", noise, origin, crs)
    write_tif(folder / f"scenes/{scene_id}.tif", noise[:, row : row + height, col : col + width], t, crs)
    index = np.zeros((HEIGHT, WIDTH), dtype=np.uint16)
    instances = []
    for label, (name, (rect, category)) in enumerate(buildings.items(), start=1):
        entry, mask = instance_row(scene_id, ground, name, rect, category, label, None, GAPS.get(name))
        index[mask] = label
        instances.append(entry)
    entry, mask = instance_row(scene_id, ground, "R", REGION, ["open_ground"], None, 0, HOLE)
    instances.append(entry)
    write_tif(folder / f"masks/{scene_id}.tif", index, t, crs)
    write_tif(folder / f"regions/{scene_id}.tif", mask.astype(np.uint8), t, crs)
    scene = {
        "scene_id": scene_id, "path": f"scenes/{scene_id}.tif", "mask_path": f"masks/{scene_id}.tif",
        "region_path": f"regions/{scene_id}.tif", "crs": crs, "transform": list(t), "width": WIDTH, "height": HEIGHT, "gsd_m": ground.gsd,
        "pixel_area_m2": ground.pixel_area, "metric_crs": metric, "scale_k": ground.k, "convergence_deg": ground.convergence,
        "image_up_deg": ground.image_up, "north_up": True, "valid_share": 1.0, "shorter_side_m": ground.side, "source": source,
        "source_sha256": sha256((sources / f"{source} ä.tif").read_bytes()), "window": [col, row, width, height], "licence": "CC0-1.0",
        "attribution": "nobody", "acquired": None, "how": "window", "poi_id": None, "outside": [],
        "series_id": None, "cloud_share": None, **quality(noise[:, row : row + height, col : col + width]),
        **hashes(noise[:, row : row + height, col : col + width]),
        "geometry": shapely.to_wkb(ground.lonlat((0, 0, WIDTH, HEIGHT))),
    }  # fmt: skip
    return scene, instances, graph_rows(scene_id, ground, buildings, twin)


def query_rows(scene_id):
    ids = {entry[0]: query_id(scene_id, entry[3]) for entry in QUERIES}
    rows = []
    for key, level, program, canonical, sentences, answers, difficulty, counterfactual, category in QUERIES:
        found = sorted(instance_id(scene_id, name) for name in answers.split())
        kind = "answerable" if found else "category_absent" if level == 1 else "relation_unsatisfied"
        rows.append(
            {
                "query_id": ids[key],
                "scene_id": scene_id,
                "form": "program",
                "level": level,
                "program": program,
                "canonical": canonical,
                "answer_ids": found,
                "answerable": bool(found),
                "kind": kind,
                "polarity": "positive" if found else "negative",
                "sentences": sentences.split(" | "),
                "counterfactual_of": ids.get(counterfactual),
                "difficulty": difficulty,
                "annotation_id": None,
                "category": category.split(),
            }
        )
    return sorted(rows, key=lambda r: r["query_id"])


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(dump(row) + "\n" for row in rows), encoding="utf-8")


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_exports(folder, scenes, instances):
    names = sorted({i["category"][0] for i in instances if i["countable"]})
    annotations = [
        {
            "id": n, "image_id": 1 + [s["scene_id"] for s in scenes].index(i["scene_id"]), "category_id": 1 + names.index(i["category"][0]),
            "segmentation": {"size": [HEIGHT, WIDTH], "counts": i["rle"]}, "area": i["area_px"], "iscrowd": 0,
            "bbox": [i["hbb_px"][0], i["hbb_px"][1], i["hbb_px"][2] - i["hbb_px"][0], i["hbb_px"][3] - i["hbb_px"][1]],
            "instance_id": i["instance_id"],
        }
        for n, i in enumerate((i for i in instances if i["countable"]), start=1)
    ]  # fmt: skip
    images = [{"id": n, "file_name": s["path"], "width": WIDTH, "height": HEIGHT} for n, s in enumerate(scenes, start=1)]
    coco = {"images": images, "annotations": annotations, "categories": [{"id": n, "name": c} for n, c in enumerate(names, start=1)]}
    (folder / "exports/dota").mkdir(parents=True, exist_ok=True)
    (folder / "exports/coco.json").write_text(dump(coco))
    for scene in scenes:
        boxed = [i for i in instances if i["scene_id"] == scene["scene_id"] and i["obb_px"]]
        lines = [f"{' '.join(str(v) for v in i['obb_px'])} {i['category'][0]} {int(i['cut'])}\n" for i in boxed]
        (folder / f"exports/dota/{scene['scene_id']}.txt").write_text("".join(lines))


def smallest_distance(one, other):
    """Geodesic metres between two far-apart footprints: the smallest over densely sampled boundaries."""
    a, b = (np.asarray(shapely.segmentize(shapely.from_wkb(s["geometry"]), 1e-4).exterior.coords) for s in (one, other))
    i, j = (v.ravel() for v in np.meshgrid(np.arange(len(a)), np.arange(len(b))))
    return float(pyproj.Geod(ellps="WGS84").inv(a[i, 0], a[i, 1], b[j, 0], b[j, 1])[2].min())


def split_file(scenes, per_split):
    """splits/scene-disjoint.json: nothing is close to anything."""
    no_pair = {"train-val": None, "val-test": None}
    bits = [int(scenes[0]["phash"][0], 16) ^ int(found, 16) for found in scenes[1]["phash"]]
    shares = {name: len(QUERIES) / (2 * len(QUERIES)) * len(ids) for name, ids in per_split.items()}
    buffer_m = {"same_source": 0, "other_source": 100}
    n_answerable = sum(1 for entry in QUERIES if entry[5])
    answerable = round(n_answerable / len(QUERIES), 6)
    levels = {str(level): sum(1 for entry in QUERIES if entry[1] == level) for level in range(1, 6)}
    return {
        "protocol": "scene-disjoint", "version": 1, "seed": 7, "assignment": per_split, "left_out": {}, "rule": {}, "screening": None,
        "grouping": {
            "buffer_m": buffer_m, "same_place_share": 0.001,
            "near_duplicate": {"max_bits": 10, "min_correlation": 0.9, "low_information_sd": 2.0},
        },
        "groups": [{"group_id": f"g-{s}", "scenes": [s], "reasons": []} for s in sorted(SCENES)],
        "proof": {
            "shared_pixels_between_splits": 0, "smallest_distance_m": {"train-test": smallest_distance(*scenes), **no_pair},
            "smallest_hash_bits": {"train-test": min(b.bit_count() for b in bits), **no_pair},
            "scenes": {"train": 1, "test": 1, "val": 0}, "queries": {"train": len(QUERIES), "test": len(QUERIES), "val": 0},
            "levels": {"train": levels, "test": levels, "val": {}},
            "answerable_share": {"train": answerable, "test": answerable, "val": None},
            "target_share": {"train": 0.7, "test": 0.2, "val": 0.1}, "reached_share": shares, "buffer_m": buffer_m,
        },
    }  # fmt: skip


def build(folder: Path, sources: Path, twin: str | None = None) -> None:
    """Write the whole release and its source rasters; with `twin` (`west` or `east`) `TWIN` is there, and is nearest to B5 there."""
    folder.mkdir(parents=True)
    scenes, instances, relations, queries = [], [], [], []
    for scene_id in sorted(SCENES):
        scene, found, edges = build_scene(folder, sources, scene_id, twin)
        scenes.append(scene)
        instances += found
        relations += edges
        queries += query_rows(scene_id)
    write_table(folder / "scenes.parquet", scenes)
    write_table(folder / "instances.parquet", instances)
    write_table(folder / "relations.parquet", relations)
    write_lines(folder / "queries.jsonl", queries)
    write_exports(folder, scenes, instances)
    per_split = {"train": ["s-utm"], "test": ["s-merc"], "val": []}
    (folder / "splits").mkdir()
    (folder / "splits/scene-disjoint.json").write_text(dump(split_file(scenes, per_split)))
    by_id = {s["scene_id"]: s for s in scenes}
    for name, ids in per_split.items():
        rows = [
            {
                "query_id": q["query_id"], "sentence": q["sentences"][0], "image": by_id[q["scene_id"]]["path"],
                "gsd_m": by_id[q["scene_id"]]["gsd_m"], "crs": by_id[q["scene_id"]]["crs"], "north": by_id[q["scene_id"]]["image_up_deg"],
            }
            for q in queries
            if q["scene_id"] in ids
        ]  # fmt: skip
        write_lines(folder / f"inputs/scene-disjoint-{name}.jsonl", sorted(rows, key=lambda r: r["query_id"]))
    (folder / "taxonomy").mkdir()
    (folder / "taxonomy/tiny.v1.yaml").write_text(TAXONOMY + (TWIN_TAXONOMY if twin else ""))
    (folder / "stac").mkdir()
    links = [{"href": f"./{scene_id}.json", "rel": "item"} for scene_id in sorted(SCENES)]
    (folder / "stac/catalog.json").write_text(dump({"id": "tiny", "type": "Catalog", "links": links}))
    for scene in scenes:
        footprint = shapely.from_wkb(scene["geometry"])
        item = {
            "id": scene["scene_id"], "type": "Feature", "geometry": shapely.geometry.mapping(footprint), "bbox": list(footprint.bounds),
            "assets": {"image": {"href": f"../{scene['path']}"}, "masks": {"href": f"../{scene['mask_path']}"}},
        }  # fmt: skip
        (folder / f"stac/{scene['scene_id']}.json").write_text(dump(item))
    shutil.copyfile(LICENCES, folder / "taxonomy/licences.v1.yaml")
    (folder / "schemas").mkdir()
    defined = {op: {"type": "object"} for op in ("cat", "and", "attr", "rel", "nearest", "farthest")}
    (folder / "schemas/program.v1.schema.json").write_text(dump({"$defs": defined}))
    (folder / "README.md").write_text("# tiny\n")
    (folder / "sample.png").write_bytes(b"a picture")
    manifest = {
        "name": "tiny", "version": "1", "title": "Tiny", "description": "made by hand", "format_version": 1, "rules": RULES,
        "protocols_left_out": {"geographic": "all is in one place"},
        "config_sha256": "0" * 64, "versions": {}, "files": [], "unknown_is_other": {"roof": "every roof was looked at"}, "language": None,
        "proposers": [],
        "declared_licences": {"annotations": "ODbL-1.0"},
        "sources": [
            {
                "source": scene["source"], "kind": "imagery", "origin": f"{scene['source']} ä.tif", "date": None,
                "sha256": scene["source_sha256"],
            }
            for scene in sorted(scenes, key=lambda scene: scene["source"])
        ] + [{"source": "osm", "kind": "footprints", "origin": "https://osm.example/town.gpkg", "date": "2026-01", "sha256": "1" * 64}],
        "licences": [
            {"source": "drone", "layer": "pixels", "licence": "CC0-1.0", "attribution": "nobody", "url": None},
            {"source": "mosaic", "layer": "pixels", "licence": "CC0-1.0", "attribution": "nobody", "url": None},
            {"source": "osm", "layer": "annotations", "licence": "ODbL-1.0", "attribution": "contributors", "url": None},
        ],
        "certificate": {
            "jitters": 20, "seed": 8,
            "levels": {
                level: {"programs": n, "programs_changed": 1, "answers": 20 * n, "answers_changed": 3}
                for level, n in (("1", 9), ("2", 9), ("3", 40), ("4", 9), ("5", 9))
            },
        },
        "review": {
            "policy": "none", "groups": [], "rounds": 0, "sample_share": 1.0, "note": "unreviewed",
            "sentences": {"policy": "none", "groups": [], "rounds": 0, "sample_share": 1.0},
            "states": {"unreviewed": len(instances)}, "changed": {}, "spot_check": {},
            "agreement": {"items": 0, "cohen": [], "fleiss": None, "mask_iou_mean": None, "mask_pairs": 0},
        },
        "counts": {
            "scenes": 2, "instances": 24 + (2 if twin else 0), "regions": 2, "relations": len(relations), "queries": 26,
            "answerable": 22, "unanswerable": 4, "counterfactual_pairs": 6,
            "drops": {}, "levels": {"1": 4, "2": 2, "3": 16, "4": 2, "5": 2},
        },
    }  # fmt: skip
    (folder / "manifest.json").write_text(dump(manifest))
    seal(folder)


def write_table(path, rows):
    table = pa.Table.from_pylist(rows)
    if "geometry" in table.column_names:
        column = {"encoding": "WKB", "geometry_types": [], "crs": CRS84.to_json_dict()}
        geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
        table = table.replace_schema_metadata({b"geo": json.dumps(geo).encode()})
    pq.write_table(table, path)


def seal(folder: Path) -> None:
    """Write the manifest's list of files anew, so that a planted fault is found by what it means and not by its digest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in ("manifest.json", "audit.json")]
    manifest["files"] = sorted(
        ({"path": p.relative_to(folder).as_posix(), "bytes": p.stat().st_size, "sha256": sha256(p.read_bytes())} for p in files),
        key=lambda f: f["path"],
    )
    (folder / "manifest.json").write_text(dump(manifest))
