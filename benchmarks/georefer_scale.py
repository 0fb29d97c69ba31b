"""Scenes of a whole benchmark through the product's own code: CPU seconds per stage, peak memory, ratios to plain libraries.

The size is that of GeoRefer-Bench: 700 scenes of 2048 × 2048 pixels with 26,217 instances and 20,916 programs (arXiv 2609.29541).
Everything is made up from a seed. In process by default: outlines, graph and resolver, scene by scene, against shapely over all pairs and
networkx. With `--project DIR` a project is written there and built stage by stage with `trigpoint stage`, each in its own process.

    python benchmarks/georefer_scale.py --scenes 700
    python benchmarks/georefer_scale.py --scenes 70 --project build/scale
"""

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rasterio
import rasterio.features
import rasterio.windows
import shapely
import yaml
from numpy.typing import NDArray
from pyproj import Transformer

from tasks.graph import nodes_from_rows
from trigpoint.boxes.measure import measure_instances, plane_mask
from trigpoint.categories import TRUE, UNDECIDED, load_taxonomy
from trigpoint.errors import ProgramError
from trigpoint.geometry.frames import SceneFrame, fit_frame
from trigpoint.programs.language import And, Attr, Cat, Node, Rel
from trigpoint.programs.resolver import Members, Resolver
from trigpoint.rules import RELATIONS, Rules
from trigpoint.scene_graph.build import SceneMasks, build_graph, outlines_to_ground
from trigpoint.scene_graph.graph import SceneGraph, algebra_violations
from trigpoint.scene_graph.network import to_networkx

ROOT = Path(__file__).parents[1]
SIDE_PX, PIXEL_M, CRS = 2048, 0.3, "EPSG:32645"
LEFT_M, TOP_M = 354_000.0, 3_057_000.0
INSTANCES_PER_SCENE = 26_217 / 700
PROGRAMS_PER_SCENE = 20_916 / 700
DENSE_EVERY, DENSE = 350, 240
"""One scene of so many has this many instances in one block, so that the tail is there."""
SCENES_PER_RASTER = 10
STAGES = ("collect", "annotate", "boxes", "graph", "query", "split", "publish", "audit")


class Shape(NamedTuple):
    """One made-up thing: its outline in pixels of its scene, and its tags."""

    polygon: shapely.Polygon
    kind: str
    roof: str | None
    countable: bool


def instance_counts(n_scenes: int, seed: int) -> NDArray[np.int64]:
    """Instances of each scene: skewed, the mean that of GeoRefer-Bench, a dense scene now and then."""
    random = np.random.default_rng(seed)
    total = round(INSTANCES_PER_SCENE * n_scenes)
    dense = np.arange(n_scenes) % DENSE_EVERY == 35
    weight = np.where(dense, 0.0, random.gamma(2.5, size=n_scenes))
    rest = total - DENSE * int(dense.sum()) - 4 * n_scenes
    counts = 4 + random.multinomial(rest, weight / weight.sum())
    counts[dense] += DENSE
    return counts


def make_shapes(k: int, n: int, seed: int) -> list[Shape]:
    """The things of scene k: n - 2 buildings, trees and temples on a loose grid (a block of 60 px cells when dense), a road and a field."""
    random = np.random.default_rng([seed, k])
    road_y, slope = random.uniform(300, 1700), random.uniform(-0.2, 0.2)
    road = shapely.Polygon([(0, road_y), (SIDE_PX, road_y + slope * SIDE_PX), (SIDE_PX, road_y + slope * SIDE_PX + 26), (0, road_y + 26)])
    centre, radius = random.uniform(400, 1600, 2), random.uniform(180, 380)
    shapes = [Shape(road, "road", None, False), Shape(_blob(random, centre, radius, 60), "open_ground", None, False)]
    columns = math.ceil(math.sqrt(n)) + 1
    cell, corner = (60.0, random.uniform(100, 700, 2)) if n > 200 else ((SIDE_PX - 80) / columns, np.array([40.0, 40.0]))
    places = random.permutation(columns * columns)[: n - 2]
    for number, place in enumerate(places):
        half = min(cell * 0.45, random.uniform(16, 60))
        middle = corner + cell * (np.array(divmod(int(place), columns)) + 0.5) + random.uniform(-1, 1, 2) * (cell * 0.48 - half)
        kind = ("temple", "school")[number] if number < 2 else str(random.choice(["building", "apartment_house", "shop_building", "tree"]))
        roof = None if kind == "tree" else str(random.choice(["concrete", "tin", "clay_tiles"]))
        polygon = _blob(random, middle, half * 0.7, 24) if kind == "tree" else _house(random, middle, half)
        shapes.append(Shape(polygon, kind, roof, True))
    return shapes


def _blob(random: np.random.Generator, centre: NDArray[np.float64], radius: float, n: int) -> shapely.Polygon:
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    r = radius * (0.85 + 0.15 * np.sin(random.integers(2, 6) * angle + random.uniform(0, 6)))
    return shapely.Polygon(centre + np.column_stack([r * np.cos(angle), r * np.sin(angle) * random.uniform(0.6, 1.0)]))


def _house(random: np.random.Generator, centre: NDArray[np.float64], half: float) -> shapely.Polygon:
    """A turned rectangle, every third one an L."""
    w, h = half * random.uniform(0.5, 0.7), half * random.uniform(0.4, 0.7)
    ring = [(-w, -h), (w, -h), (w, h), (-w, h)]
    if random.random() < 1 / 3:
        ring = [(-w, -h), (w, -h), (w, 0), (0, 0), (0, h), (-w, h)]
    turn = random.uniform(0, np.pi)
    rotation = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    return shapely.Polygon(centre + np.array(ring) @ rotation)


class Clock:
    """CPU seconds of this process by name, one number per scene."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Time what is done inside."""
        began = time.process_time()
        yield
        self.seconds.setdefault(name, []).append(time.process_time() - began)

    def total(self, name: str, first: int | None = None) -> float:
        """Seconds over all scenes, or over the first few."""
        return sum(self.seconds.get(name, [])[:first])


class Inputs(NamedTuple):
    """What the graph stage has of a scene."""

    rows: list[dict[str, Any]]
    outlines: NDArray[np.object_]
    labels: NDArray[np.uint16]
    planes: NDArray[np.uint8]


def make_inputs(k: int, n: int, seed: int, frame: SceneFrame, clock: Clock, rules: Rules) -> Inputs:
    """Rasterise a scene and measure its instances, as annotate and boxes do."""
    shapes = make_shapes(k, n, seed)
    size = (SIDE_PX, SIDE_PX)
    discrete, regions = ([s for s in shapes if s.countable is wanted] for wanted in (True, False))
    labels = rasterio.features.rasterize([(s.polygon, i + 1) for i, s in enumerate(discrete)], out_shape=size, dtype="uint16")
    planes = np.zeros(size, dtype=np.uint8)
    for bit, s in enumerate(regions):
        planes |= rasterio.features.rasterize([(s.polygon, 1 << bit)], out_shape=size, dtype="uint8")
    rows: list[dict[str, Any]] = []
    for i, s in enumerate([*discrete, *regions]):
        category = [s.kind] + ([{"concrete": "concrete_roof", "tin": "tin_roof", "clay_tiles": "tile_roof"}[s.roof]] if s.roof else [])
        place = {"label": i + 1, "plane": None} if s.countable else {"label": None, "plane": i - len(discrete)}
        what = {"instance_id": f"i-{k:04d}-{i:03d}", "scene_id": f"s-{k:04d}", "category": category, "countable": s.countable}
        rest = {"boxable": s.countable, "moved_px": 0, "source_ids": [], "proposal": "vector", "review_state": "unreviewed"}
        rows.append(what | place | rest)
    with clock.measure("boxes"):
        measured = measure_instances(rows, labels, planes, np.ones(size, dtype=bool), frame, rules)
    return Inputs(measured.rows, measured.outlines, labels, planes)


def build(scene_id: str, inputs: Inputs, frame: SceneFrame, rules: Rules) -> SceneGraph:
    """The graph stage without its files."""
    masks = SceneMasks(
        labels=inputs.labels,
        label_of_node=np.array([row["label"] or 0 for row in inputs.rows], dtype=np.int64),
        planes={k: plane_mask(inputs.planes, row["plane"]) for k, row in enumerate(inputs.rows) if row["plane"] is not None},
    )
    outlines = outlines_to_ground(inputs.outlines, frame)
    nodes = nodes_from_rows(inputs.rows)
    graph = build_graph(scene_id, nodes, outlines, masks, frame, SIDE_PX * PIXEL_M, SIDE_PX * SIDE_PX, rules)
    if violations := algebra_violations(graph):
        raise AssertionError(violations[0])
    return graph


def plain_shapely(outlines: NDArray[np.object_]) -> tuple[NDArray[Any], ...]:
    """What a user would write today: distance, cover and azimuth of all pairs, vectorised; two-valued, grid north, no shares."""
    upper = np.triu_indices(len(outlines), 1)
    one, other = outlines[upper[0]], outlines[upper[1]]
    shapely.prepare(outlines)
    centre = shapely.get_coordinates(shapely.centroid(outlines))
    delta = centre[upper[1]] - centre[upper[0]]
    azimuth = np.degrees(np.arctan2(delta[:, 0], delta[:, 1])) % 360
    return shapely.distance(one, other), shapely.covers(one, other), shapely.covers(other, one), shapely.intersects(one, other), azimuth


def make_programs(n: int, seed: int) -> list[Node]:
    """Programs of all levels whose anchors can be named: a unique category, or a superlative."""
    random = np.random.default_rng(seed)
    sets: list[Node] = [Cat(name) for name in ("building", "apartment_house", "shop_building", "tree")]
    sets += [And((Cat("building"), Cat(roof))) for roof in ("concrete_roof", "tin_roof", "tile_roof")]
    named: list[Node] = [Cat("road"), Cat("temple"), Cat("school"), Cat("open_ground")]
    named += [Attr(Cat(name), key, "most") for name in ("building", "tree") for key in ("area", "north", "east")]  # pyright: ignore[reportArgumentType]

    def pick(options: Any) -> Any:
        return options[int(random.integers(len(options)))]

    made: list[Node] = []
    for number in range(n):
        match number % 5:
            case 0:
                made.append(pick(sets))
            case 1:
                made.append(Attr(pick(sets), pick(("area", "length", "north", "east")), "most"))
            case 2:
                made.append(Rel(pick(sets), pick(RELATIONS), pick(named)))
            case 3:
                of = pick(sets)
                made.append(And((Rel(of, pick(RELATIONS), pick(named)), Rel(of, pick(RELATIONS), pick(named)))))
            case _:
                made.append(Rel(pick(sets), pick(RELATIONS), Rel(Cat("temple"), pick(RELATIONS), pick(named))))
    return made


class PlainNetwork:
    """The same programs over a networkx graph, edge by edge, as a user would write them; three-valued too."""

    def __init__(self, network: Any, resolver: Resolver) -> None:
        self.network = network
        self.resolver = resolver  # its margins of superlatives, and category membership: not what is compared
        self.ids = resolver.graph.nodes.instance_ids

    def execute(self, node: Node) -> dict[str, int]:
        """Instance id → verdict, FALSE left out."""
        match node:
            case And(args):
                parts = [self.execute(arg) for arg in args]
                return {
                    name: UNDECIDED if any(part[name] == UNDECIDED for part in parts) else TRUE
                    for name in parts[0]
                    if all(name in part for part in parts)
                }
            case Rel(of, relation, anchor):
                denoted = self.execute(anchor)
                if list(denoted.values()) != [TRUE]:
                    raise ProgramError("anchor")
                (name,) = denoted
                members = self.execute(of)
                edges = {s: data["verdict"] for s, _, key, data in self.network.in_edges(name, keys=True, data=True) if key == relation}
                return {s: TRUE if edges[s] == "TRUE" and v == TRUE else UNDECIDED for s, v in members.items() if s in edges and s != name}
            case _:
                answer = self.resolver.answer(node)
                return dict.fromkeys(answer.members, TRUE) | dict.fromkeys(answer.undecided, UNDECIDED)


def run_in_process(n_scenes: int, seed: int, n_peer: int) -> None:
    """Graph and resolver over all scenes; the plain alternatives on the first `n_peer` of them."""
    rules, clock = Rules(), Clock()
    taxonomy = load_taxonomy(ROOT / "taxonomy" / "settlement.v1.yaml")
    counts = instance_counts(n_scenes, seed)
    transform = (PIXEL_M, 0.0, LEFT_M, 0.0, -PIXEL_M, TOP_M)
    frame = SceneFrame(CRS, transform, fit_frame(CRS, transform, SIDE_PX, SIDE_PX))
    n_programs = n_answered = n_edges = 0
    peaks: list[int] = []
    for k, n in enumerate(counts.tolist()):
        inputs = make_inputs(k, n, seed, frame, clock, rules)
        with clock.measure("graph"):
            graph = build(f"s-{k:04d}", inputs, frame, rules)
        with clock.measure("edge table"):
            n_edges += graph.to_edges().num_rows
        programs = make_programs(round(PROGRAMS_PER_SCENE * (k + 1)) - n_programs, seed + k)
        n_programs += len(programs)
        with clock.measure("resolver"):
            resolver = Resolver(graph, taxonomy, rules)
            answers = [_executed(resolver, program) for program in programs]
        n_answered += sum(answer is not None for answer in answers)
        if k < n_peer:
            ground = outlines_to_ground(inputs.outlines, frame)
            with clock.measure("shapely"):
                plain_shapely(ground)
            with clock.measure("networkx graph"):
                network = to_networkx(graph)
            plain = PlainNetwork(network, Resolver(graph, taxonomy, rules))
            with clock.measure("networkx"):
                others = [_executed(plain, program) for program in programs]
            for program, answer, other in zip(programs, answers, others, strict=True):
                if (answer is None) != (other is None) or (answer is not None and as_dict(resolver, answer) != other):
                    raise AssertionError(f"scene {k}: {program.canonical()} differs from networkx")
        if k % max(1, n_scenes // 4) == 0 or k == n_scenes - 1:
            peaks.append(peak_mib(resource.RUSAGE_SELF))
    first = min(n_peer, n_scenes)
    pairs = int((counts * (counts - 1)).sum())
    print(f"{n_scenes} scenes, {int(counts.sum())} instances (largest scene {int(counts.max())}), {pairs} directed pairs, {n_edges} edges")
    for name, what in (
        ("boxes", "outlines, boxes, attributes"),
        ("graph", "relations of all pairs, and their algebra"),
        ("edge table", "TRUE and UNDECIDED edges as an Arrow table"),
        ("resolver", f"{n_programs} programs, {n_answered} with anchors that denote one instance"),
    ):
        print(f"{name:<11} {clock.total(name):8.2f} CPU s   {1000 * clock.total(name) / n_scenes:7.2f} ms/scene   {what}")
    print(f"peak memory at scene 0, a quarter, half, three quarters and the end: {peaks} MiB")
    print(f"the first {first} scenes, against plain libraries:")
    for name, peer in (("graph", "shapely"), ("resolver", "networkx")):
        ours, theirs = clock.total(name, first), clock.total(peer)
        print(f"{name:<11} {ours:8.2f} CPU s, {peer} {theirs:.2f} CPU s: {theirs / ours:.2f} times ours")
    print(f"(networkx spent {clock.total('networkx graph'):.2f} CPU s on its graph besides; the answers are the same)")


def _executed(resolver: Any, program: Node) -> Any:
    try:
        return resolver.execute(program)
    except ProgramError:
        return None


def as_dict(resolver: Resolver, members: Members) -> dict[str, int]:
    """Instance id → verdict, FALSE left out."""
    undecided = resolver.ids_of(members.possible & ~members.sure)
    return dict.fromkeys(resolver.ids_of(members.sure), TRUE) | dict.fromkeys(undecided, UNDECIDED)


def peak_mib(who: int) -> int:
    """Largest resident size so far of this process or of its children, MiB."""
    return resource.getrusage(who).ru_maxrss // 1024


def make_project(folder: Path, n_scenes: int, seed: int) -> Path:
    """Write rasters of up to ten scenes in a row, footprints, drawn regions and the configuration; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "taxonomy" / "settlement.v1.yaml", folder)
    counts = instance_counts(n_scenes, seed)
    own = {"licence": "CC0-1.0", "attribution": "made up by benchmarks/georefer_scale.py"}
    sources: list[dict[str, Any]] = []
    for number, first in enumerate(range(0, n_scenes, SCENES_PER_RASTER)):
        scenes = range(first, min(first + SCENES_PER_RASTER, n_scenes))
        left, top = LEFT_M + number % 10 * 8_000, TOP_M - number // 10 * 2_000
        _write_source(folder / f"r{number:03d}", scenes, counts, seed, left, top)
        files = [{"path": f"r{number:03d}.geojson", **own, "id_property": "osm_id", "id_prefix": "osm/way/"}]
        sources.append(
            {
                "name": f"r{number:03d}",
                "imagery": {"path": f"r{number:03d}.tif", **own},
                "footprints": files,
                "annotations": [{"path": f"r{number:03d}-drawn.geojson", **own}],
                "scenes": {"grid": {"sizes_px": [SIDE_PX]}},
            }
        )
    config = {
        "name": "scale",
        "version": "0.1.0",
        "title": "As large as GeoRefer-Bench",
        "seed": seed,
        "taxonomy": "settlement.v1.yaml",
        "unknown_is_other": {"kind": "made up, so it is known", "roof": "made up, so it is known"},
        "sources": sources,
        "run": {"work": "work", "output": "release", "workers": 1},
    }
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def _write_source(base: Path, scenes: range, counts: NDArray[np.int64], seed: int, left_m: float, top_m: float) -> None:
    """Write one raster with its GeoJSON files: coarse noise that compresses well, flat colours on things."""
    place = rasterio.Affine(PIXEL_M, 0, left_m, 0, -PIXEL_M, top_m)
    to_lonlat = Transformer.from_crs(CRS, "OGC:CRS84", always_xy=True)
    footprints: list[dict[str, Any]] = []
    drawn: list[dict[str, Any]] = []
    profile = {"driver": "GTiff", "count": 3, "dtype": "uint8", "crs": CRS, "transform": place, "photometric": "RGB"}
    layout = {"tiled": True, "blockxsize": 512, "blockysize": 512, "compress": "deflate", "zlevel": 1}
    size = (SIDE_PX, SIDE_PX)
    with rasterio.open(base.with_suffix(".tif"), "w", width=SIDE_PX * len(scenes), height=SIDE_PX, **profile, **layout) as target:
        for column, k in enumerate(scenes):
            random = np.random.default_rng([seed, k, 1])
            shapes = make_shapes(k, int(counts[k]), seed)
            burnt = rasterio.features.rasterize([(s.polygon, i + 1) for i, s in enumerate(shapes)], out_shape=size, dtype="uint16")
            colours = random.integers(40, 255, (len(shapes) + 1, 3), dtype=np.uint8)
            noise = random.integers(40, 120, (64, 64, 3), dtype=np.uint8).repeat(32, axis=0).repeat(32, axis=1)
            pixels = np.where(burnt[..., None] > 0, colours[burnt], noise)
            target.write(np.moveaxis(pixels, 2, 0), window=rasterio.windows.Window(column * SIDE_PX, 0, SIDE_PX, SIDE_PX))
            for i, shape in enumerate(shapes):
                ring = shapely.get_coordinates(shape.polygon) + np.array([column * SIDE_PX, 0])
                lonlat = np.column_stack(to_lonlat.transform(left_m + ring[:, 0] * PIXEL_M, top_m - ring[:, 1] * PIXEL_M))
                geometry = {"type": "Polygon", "coordinates": [lonlat.tolist()]}
                tags = {"osm_id": 1000 * k + i + 1} | _tags(shape) if shape.countable else {"category": shape.kind}
                (footprints if shape.countable else drawn).append({"type": "Feature", "properties": tags, "geometry": geometry})
    for path, features in ((base.with_suffix(".geojson"), footprints), (base.with_name(f"{base.name}-drawn.geojson"), drawn)):
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")


def _tags(shape: Shape) -> dict[str, str]:
    if shape.kind == "tree":
        return {"natural": "tree"}
    kind = {"apartment_house": "apartments", "shop_building": "commercial", "building": "yes"}.get(shape.kind, shape.kind)
    return {"building": kind, "roof:material": str(shape.roof)}


def run_project(folder: Path, n_scenes: int, seed: int, until: str) -> None:
    """Write the project and build it stage by stage, each in its own process; print CPU seconds and peak memory of each."""
    config = make_project(folder, n_scenes, seed)
    print(f"{n_scenes} scenes, {int(instance_counts(n_scenes, seed).sum())} instances in {folder}")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for stage in STAGES[: STAGES.index(until) + 1]:
        with (folder / f"{stage}.log").open("w", encoding="utf-8") as log:
            call = [sys.executable, "-m", "trigpoint", "stage", stage, str(config)]
            process = subprocess.Popen(call, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu_s, peak = used.ru_utime + used.ru_stime, used.ru_maxrss // 1024
        ended = f"peak {peak} MiB   exit {process.returncode}"
        print(f"{stage:<9} {cpu_s:8.1f} CPU s   {1000 * cpu_s / n_scenes:7.1f} ms/scene   {ended}", flush=True)
        if process.returncode not in (0, 1):
            raise SystemExit(process.returncode)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Scenes of a whole benchmark through the product's own code.")
    parser.add_argument("--scenes", type=int, default=700)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--peer-scenes", type=int, default=70, help="scenes on which the plain libraries run too")
    parser.add_argument("--project", type=Path, help="write a project here and build it stage by stage")
    parser.add_argument("--until", choices=STAGES, default=STAGES[-1], help="last stage of the project to run")
    asked = parser.parse_args()
    if asked.project is None:
        run_in_process(asked.scenes, asked.seed, asked.peer_scenes)
    else:
        run_project(asked.project, asked.scenes, asked.seed, asked.until)


if __name__ == "__main__":
    main()
