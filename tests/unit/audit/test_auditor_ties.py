"""Directions where an anchor is as near at one place as at another: either choice passes, every other verdict is found."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

from tests.unit.audit import _tiny_release as tiny
from trigpoint.audit import audit_release
from trigpoint.audit.findings import Notebook
from trigpoint.audit.georeferencing import build_frame
from trigpoint.audit.outline import pixel_edge_parts
from trigpoint.audit.ownership import Masks
from trigpoint.audit.reading import Edges, Instance, Release, Scene
from trigpoint.audit.relations import CARDINAL, TRUE, UNDECIDED, Limits, check_relations, expect_relations, measure, near_places

SIZE = 200


@pytest.fixture(scope="session", params=["west", "east"])
def twin(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    tiny.build(root / "release", root / "sources", request.param)
    return request.param, root / "release"


def twin_edges(folder):
    """Directions of B5 from B13 in s-utm: relation → verdict."""
    rows = pq.read_table(folder / "relations.parquet").to_pylist()
    pair = [row for row in rows if (row["subject_id"], row["anchor_id"]) == ("s-utm/B5", "s-utm/B13")]
    return {row["relation"]: row["verdict"] for row in pair if row["unit"] == "deg"}


def test_a_release_passes_whichever_of_two_equally_near_parts_it_measured_from(twin):
    choice, folder = twin

    assert twin_edges(folder) == {"west": {"east_of": "TRUE"}, "east": {"east_of": "UNDECIDED", "west_of": "UNDECIDED"}}[choice]
    assert audit_release(folder).findings == ()


@pytest.mark.parametrize(
    ("verdicts", "codes"),
    [
        ({"west_of": "TRUE"}, {"edge_missing", "edge_opposite", "edge_extra", "edge_verdict"}),
        ({}, {"edge_missing", "edge_opposite"}),
        ({"east_of": "UNDECIDED"}, {"edge_missing", "edge_verdict"}),  # half of what the eastern part gives
        ({"east_of": "TRUE", "west_of": "UNDECIDED"}, {"edge_extra", "edge_verdict"}),  # one from each part
        ({"east_of": "TRUE", "south_of": "UNDECIDED"}, {"edge_extra"}),
    ],
)
def test_a_verdict_that_neither_part_gives_is_found(twin, tmp_path, verdicts, codes):
    folder = Path(tiny.shutil.copytree(twin[1], tmp_path / "release"))
    rows = pq.read_table(folder / "relations.parquet").to_pylist()
    others = [row for row in rows if (row["subject_id"], row["anchor_id"], row["unit"]) != ("s-utm/B5", "s-utm/B13", "deg")]
    (model,) = [row for row in rows if row not in others and row["relation"] == "east_of"]
    changed = others + [model | {"relation": name, "verdict": verdict} for name, verdict in verdicts.items()]
    tiny.write_table(
        folder / "relations.parquet", sorted(changed, key=lambda r: (r["scene_id"], r["subject_id"], r["anchor_id"], r["relation"]))
    )
    tiny.seal(folder)

    found = {f.code for f in audit_release(folder).findings if f.item.split()[::2] == ["s-utm/B5", "s-utm/B13"]}

    assert {code for code in found if code.startswith("edge_")}
    assert {code for code in found if code.startswith("edge_")} <= codes


def objections(subject, region, stored):
    """Codes said of `stored` ({relation: (code, azimuth, margin)}) of a rectangle from a region of rectangles, pixels of 1 m."""
    fields = dict.fromkeys(Scene.__dataclass_fields__)
    transform = (1.0, 0.0, 500000.0 - SIZE / 2, 0.0, -1.0, 3060000.0)  # on the central meridian: no convergence
    scene = Scene(**(fields | {"scene_id": "s", "crs": "EPSG:32645", "transform": transform, "width": SIZE, "height": SIZE}))
    frame = build_frame(scene, pyproj.CRS.from_epsg(32645))
    index, plane = np.zeros((SIZE, SIZE), dtype=np.uint16), np.zeros((SIZE, SIZE), dtype=bool)
    windows = {"i": (slice(subject[1], subject[3]), slice(subject[0], subject[2]))}
    index[windows["i"]] = 1
    for x0, y0, x1, y1 in region:
        plane[y0:y1, x0:x1] = True
    windows["r"] = (slice(0, SIZE), slice(0, SIZE))
    masks = Masks(index, {0: plane}, np.ones((SIZE, SIZE), dtype=bool), windows=windows)
    masks.parts = {"i": pixel_edge_parts(index)[1], "r": pixel_edge_parts(plane.astype(np.uint8))[1]}
    empty = dict.fromkeys(Instance.__dataclass_fields__) | {"cut": False, "length_m": 1.0}
    instances = [
        Instance(**(empty | {"instance_id": "i", "label": 1, "countable": True})),
        Instance(**(empty | {"instance_id": "r", "plane": 0, "countable": False})),
    ]
    m = measure(instances, masks, frame, Limits.of(Release(Path(), {}), frame, float(SIZE)))
    expected = expect_relations(m, masks, list(CARDINAL))
    codes = {name: np.zeros((2, 2), dtype=np.int8) for name in CARDINAL}
    for name, right in expected.items():  # the region's own directions are not disputed
        codes[name][1, 0] = right.own[1, 0]
    for name, (code, _, _) in stored.items():
        codes[name][0, 1] = code
    n = len(stored)
    edges = Edges(
        np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.int64), np.array(list(stored)), *np.array(list(stored.values())).T[:2],
        np.full(n, "deg"), np.array([margin for *_, margin in stored.values()]),
    )  # fmt: skip
    notes = Notebook()
    check_relations(expected, codes, edges, m, notes)
    return {finding.code for finding in notes.report("", ()).findings}


MARGIN = float(np.degrees(np.arctan2(6, 20)))
WEST, EAST = (40, 80, 80, 120), (120, 80, 160, 120)


@pytest.mark.parametrize(
    ("stored", "codes"),
    [
        ({"east_of": (TRUE, 90.0, MARGIN)}, set()),
        ({"west_of": (TRUE, 270.0, MARGIN)}, set()),
        ({"east_of": (TRUE, 270.0, MARGIN)}, {"edge_value"}),  # the verdict of one part, the value of the other
        ({"east_of": (TRUE, 90.0, 2 * MARGIN)}, {"edge_margin"}),
        ({"east_of": (TRUE, 110.0, MARGIN)}, {"edge_value"}),  # from the edge of the western part, but not from its nearest point
        ({"east_of": (UNDECIDED, 90.0, MARGIN)}, {"edge_verdict"}),
        ({"east_of": (TRUE, 90.0, MARGIN), "west_of": (TRUE, 270.0, MARGIN)}, {"edge_opposite", "edge_value"}),
    ],
)
def test_a_region_in_two_parts_may_be_nearest_in_either(stored, codes):
    assert objections((95, 95, 105, 105), [WEST, EAST], stored) == codes


@pytest.mark.parametrize(("farther", "passes"), [(0, True), (1, True), (3, False)])
def test_a_place_more_than_two_pixels_farther_is_not_the_nearest(farther, passes):
    east = (120 + farther, 80, 160, 120)
    margin = float(np.degrees(np.arctan2(6, 20 + farther)))

    found = objections((95, 95, 105, 105), [WEST, east], {"west_of": (TRUE, 270.0, margin)})

    assert (not found) == passes
    assert passes or "edge_opposite" in found


def test_nearest_places_are_those_with_no_nearer_one_beside_them():
    arms = shapely.Polygon([(0, 0), (40, 0), (40, 30), (30, 30), (20, 10), (10, 10), (10, 18), (0, 18)])

    places = near_places(arms, np.array([18.0, 20.0]), 12.0)

    # feet of the slanting side, 32/5 along it, and of the floor, and the corner of the western arm; no other corner
    np.testing.assert_allclose(places, [[23.6, 17.2], [10, 18], [18, 10]])
    np.testing.assert_allclose(near_places(arms, np.array([18.0, 20.0]), 9.0), [[23.6, 17.2], [10, 18]])
