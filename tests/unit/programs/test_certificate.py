"""The certificate: answers that hang on a few pixels are dropped, others stay, and both are counted."""

import numpy as np
import pytest
import shapely

from tests.unit.programs._town import TAXONOMY
from trigpoint.geometry.frames import SceneFrame, fit_frame
from trigpoint.geometry.outlines import measuring_outlines, polygons_from_labels
from trigpoint.masks.jitter import windows_of
from trigpoint.programs.certificate import MeasuredScene, certify, measure_jittered
from trigpoint.programs.generate import generate_candidates
from trigpoint.programs.language import parse
from trigpoint.programs.resolver import Resolver
from trigpoint.rules import Rules
from trigpoint.scene_graph.build import SceneMasks, build_graph
from trigpoint.scene_graph.graph import Nodes, SceneGraph

SIZE = 200
TRANSFORM = (0.5, 0.0, 354000.0, 0.0, -0.5, 3057000.0)


def scene(boxes: list[tuple[int, int, int, int]], kinds: list[str]) -> tuple[MeasuredScene, Nodes]:
    """Buildings as boxes (col, row, width, height), all countable and uncut."""
    labels = np.zeros((SIZE, SIZE), dtype=np.uint16)
    for k, (col, row, width, height) in enumerate(boxes, start=1):
        labels[row : row + height, col : col + width] = k
    frame = SceneFrame("EPSG:32645", TRANSFORM, fit_frame("EPSG:32645", TRANSFORM, SIZE, SIZE))
    n = len(boxes)
    traced = polygons_from_labels(labels)
    outlines = shapely.transform(measuring_outlines([traced[k + 1] for k in range(n)]), frame.ground_from_image)
    areas = np.array([width * height for *_, width, height in boxes], dtype=np.float64)
    nodes = Nodes(
        instance_ids=tuple(f"i-{k}" for k in range(n)),
        categories=tuple((kind,) for kind in kinds),
        countable=np.ones(n, dtype=bool),
        cut=np.zeros(n, dtype=bool),
        area_m2=areas * frame.record.pixel_area_m2,
        area_px=areas,
        perimeter_m=np.asarray(shapely.length(outlines)),
        length_m=np.array([0.5 * max(width, height) for *_, width, height in boxes]),
        centroid_m=shapely.get_coordinates(shapely.centroid(outlines)),
    )
    masks = SceneMasks(labels, np.arange(1, n + 1), {})
    return MeasuredScene("s-1", nodes, masks, np.ones((SIZE, SIZE), dtype=bool), frame, 0.5 * SIZE), nodes


def graph_of(measured: MeasuredScene, rules: Rules) -> SceneGraph:
    traced = polygons_from_labels(measured.masks.labels)
    outlines = measuring_outlines([traced[int(k)] for k in measured.masks.label_of_node])
    ground = shapely.transform(outlines, measured.frame.ground_from_image)
    return build_graph(
        measured.scene_id, measured.nodes, ground, measured.masks, measured.frame, measured.shorter_side_m, SIZE * SIZE, rules
    )


BOXES = [(20, 20, 20, 20), (80, 20, 20, 20), (140, 24, 26, 26), (20, 120, 20, 20), (90, 110, 21, 20), (150, 150, 20, 20)]
KINDS = ["building", "school", "building", "building", "school", "building"]


def test_answers_within_the_margins_survive_and_the_rate_is_told_per_level() -> None:
    measured, _ = scene(BOXES, KINDS)
    resolver = Resolver(graph_of(measured, Rules()), TAXONOMY, Rules(), {"kind"})
    made = generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1).candidates

    certified = certify(made, resolver, measured, seed=3, n_jitters=6)

    assert certified.candidates == made
    assert sum(tried.programs for tried in certified.levels.values()) == len(made)
    for tried in certified.levels.values():
        assert (tried.programs_changed, tried.answers_changed, tried.answers) == (0, 0, 6 * tried.programs)


def test_without_margins_answers_change_are_dropped_and_counted() -> None:
    careless = Rules(
        outline_tolerance_px=0, direction_margin_deg=0, near_margin_share=0, area_margin_share=0, nearest_margin_share=0,
        farthest_margin_share=0, position_margin_px=0,
    )  # fmt: skip
    # two of nearly one size, two rows nearly level, a distance of near (20 px) give or take a pixel
    boxes = [(20, 20, 20, 20), (80, 21, 21, 20), (120, 20, 20, 20), (20, 60, 20, 20), (80, 120, 20, 20), (140, 121, 20, 21)]
    measured, _ = scene(boxes, KINDS)
    resolver = Resolver(graph_of(measured, careless), TAXONOMY, careless, {"kind"})
    made = generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1).candidates

    certified = certify(made, resolver, measured, seed=3, n_jitters=8)

    dropped = {c.query_id for c in made} - {c.query_id for c in certified.candidates}
    assert dropped
    assert len(dropped) == sum(tried.programs_changed for tried in certified.levels.values())
    assert sum(tried.answers_changed for tried in certified.levels.values()) >= len(dropped)
    for candidate in certified.candidates:
        assert not dropped & set(candidate.flips)


@pytest.mark.parametrize("jitter", range(4))
def test_a_jittered_graph_leaves_no_relation_undecided(jitter: int) -> None:
    measured, nodes = scene(BOXES, KINDS)

    windows = windows_of(measured.masks.labels, measured.masks.label_of_node, {})
    graph = measure_jittered(measured, windows, Rules(), range(len(BOXES)), seed=3, jitter=jitter)

    assert all(set(np.unique(matrix)) <= {0, 1} for matrix in graph.verdicts.values())
    assert graph.nodes.instance_ids == nodes.instance_ids
    assert not np.array_equal(graph.nodes.area_px, nodes.area_px)
    near = Resolver(graph, TAXONOMY, Rules(), {"kind"}, is_sharp=True).answer(
        parse("(rel (cat building) near (attr (cat school) area most))")
    )
    assert near.undecided == ()
