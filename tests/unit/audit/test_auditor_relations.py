"""The auditor's verdicts where two readings meet: bands, shares, thin and deep subjects; masks drawn by hand."""

import numpy as np
import pyproj
import pytest

from trigpoint.audit.georeferencing import build_frame
from trigpoint.audit.outline import pixel_edge_parts
from trigpoint.audit.ownership import Masks
from trigpoint.audit.reading import Instance, Release, Scene
from trigpoint.audit.relations import FALSE, TRUE, UNDECIDED, UNITS, Limits, are_disjoint, expect_relations, measure

SIZE = 200


def frame_of():
    fields = dict.fromkeys(Scene.__dataclass_fields__)
    transform = (1.0, 0.0, 330000.0, 0.0, -1.0, 3060000.0)
    scene = Scene(**(fields | {"scene_id": "s", "crs": "EPSG:32645", "transform": transform, "width": SIZE, "height": SIZE}))
    return build_frame(scene, pyproj.CRS.from_epsg(32645))


def world(things, region):
    """Measure rectangles (x0, y0, x1, y1) and one region of rectangles in a scene of 200 x 200 pixels of 1 m."""
    frame = frame_of()
    index, plane = np.zeros((SIZE, SIZE), dtype=np.uint16), np.zeros((SIZE, SIZE), dtype=bool)
    for x0, y0, x1, y1 in region:
        plane[y0:y1, x0:x1] ^= True
    masks = Masks(index, {0: plane}, np.ones((SIZE, SIZE), dtype=bool))
    empty = dict.fromkeys(Instance.__dataclass_fields__)
    instances = []
    for label, (x0, y0, x1, y1) in enumerate(things, start=1):
        index[y0:y1, x0:x1] = label
        masks.windows[f"i{label}"] = (slice(y0, y1), slice(x0, x1))
        instances.append(
            Instance(**(empty | {"instance_id": f"i{label}", "label": label, "countable": True, "cut": False, "length_m": 1.0}))
        )
    rows, cols = np.flatnonzero(plane.any(axis=1)), np.flatnonzero(plane.any(axis=0))
    masks.windows["r"] = (slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1))
    instances.append(Instance(**(empty | {"instance_id": "r", "plane": 0, "countable": False, "cut": False, "length_m": 1.0})))
    parts = pixel_edge_parts(index)
    masks.parts = {i.instance_id: parts[i.label] if i.countable else pixel_edge_parts(plane.astype(np.uint8))[1] for i in instances}
    limits = Limits.of(Release(None, {}), frame, float(SIZE))
    return expect_relations(measure(instances, masks, frame, limits), masks, [*UNITS, "within_25m"])


def accepted(expected, s, a):
    return {code for code, ok in expected.accepts.items() if ok[s, a]}


@pytest.mark.parametrize(
    ("thing", "own", "allowed"),
    [
        ((60, 60, 90, 90), TRUE, {TRUE}),  # thick and inside
        ((60, 60, 68, 68), TRUE, {TRUE}),  # thin (4 of 64 pixels are left), but 10 pixels deep
        ((51, 60, 59, 68), UNDECIDED, {UNDECIDED}),  # thin, and one pixel from the edge
        ((56, 60, 64, 68), TRUE, {TRUE, UNDECIDED}),  # thin, 7 pixels deep: within the band of 6
        ((45, 60, 75, 90), UNDECIDED, {UNDECIDED}),  # 25 of 30 columns: 83 %
        ((40, 60, 70, 90), FALSE, {FALSE}),  # two thirds
        ((10, 10, 30, 30), FALSE, {FALSE}),
        ((100, 100, 120, 120), TRUE, {TRUE}),  # in the region's hole, which is filled
    ],
)
def test_inside_follows_share_thinness_and_depth(thing, own, allowed):
    expected = world([thing], [(50, 50, 150, 150), (95, 95, 125, 125)])

    assert expected["inside"].own[0, 1] == own
    assert accepted(expected["inside"], 0, 1) == allowed
    assert expected["contains"].own[1, 0] == own


@pytest.mark.parametrize(
    ("gap", "own", "allowed"),
    [(5, TRUE, {TRUE}), (13, TRUE, {TRUE, UNDECIDED}), (20, UNDECIDED, {UNDECIDED}), (27, FALSE, {UNDECIDED, FALSE}), (40, FALSE, {FALSE})],
)
def test_near_is_decided_outside_six_pixels_of_its_threshold(gap, own, allowed):
    expected = world([(10, 10, 30, 30), (30 + gap, 10, 50 + gap, 30)], [(150, 150, 160, 160)])

    assert expected["near"].own[0, 1] == own  # threshold: a tenth of 200 m
    assert accepted(expected["near"], 0, 1) == allowed
    assert expected["near"].value[0, 1] == pytest.approx(gap, rel=1e-3)


def test_things_in_a_region_have_no_direction_from_it_and_are_not_near_it():
    expected = world([(60, 60, 90, 90)], [(50, 50, 150, 150)])

    for name in ("north_of", "east_of", "south_of", "west_of", "near"):
        assert accepted(expected[name], 0, 1) == {FALSE}


def test_things_that_share_a_little_with_a_region_are_undecided():
    expected = world([(45, 20, 75, 54)], [(50, 50, 150, 150)])  # 25 x 4 of 30 x 34 pixels: 9.8 %

    for name in ("north_of", "east_of", "south_of", "west_of", "near", "outside", "overlaps"):
        assert accepted(expected[name], 0, 1) == {UNDECIDED}
    assert expected["overlaps"].value[0, 1] == pytest.approx(100 / 1020)


@pytest.mark.parametrize(("gap", "own", "allowed"), [(3, UNDECIDED, {UNDECIDED}), (7, TRUE, {TRUE, UNDECIDED}), (12, TRUE, {TRUE})])
def test_outside_needs_six_pixels_of_air(gap, own, allowed):
    expected = world([(20, 60, 50 - gap, 90)], [(50, 50, 150, 150)])

    assert expected["outside"].own[0, 1] == own
    assert accepted(expected["outside"], 0, 1) == allowed


def test_topology_is_asked_of_region_anchors_alone():
    expected = world([(60, 60, 90, 90), (95, 60, 120, 90)], [(50, 50, 150, 150)])

    for name in ("inside", "outside", "overlaps"):
        assert accepted(expected[name], 0, 1) == {FALSE}
        assert accepted(expected[name], 2, 0) == {FALSE}


def test_a_direction_needs_both_rays_of_a_countable_anchor():
    # The subject lies straight east of the anchor's south end, but 60 degrees south of east of its centroid.
    expected = world([(60, 150, 70, 160), (30, 20, 40, 170)], [(190, 190, 199, 199)])

    assert expected["east_of"].own[0, 1] == UNDECIDED
    assert accepted(expected["north_of"], 0, 1) == {FALSE}
    assert expected["east_of"].value[0, 1] == pytest.approx(90 + np.degrees(np.arctan2(60, 30)), abs=1.5)  # 1.2 degrees off grid north


@pytest.mark.parametrize(
    ("gap", "own", "allowed"),
    [(0, TRUE, {TRUE}), (15, TRUE, {TRUE}), (18, TRUE, {TRUE, UNDECIDED}), (25, UNDECIDED, {UNDECIDED}), (34, FALSE, {FALSE})],
)
def test_within_is_a_plain_distance_undecided_by_two_tau(gap, own, allowed):
    expected = world([(10, 10, 30, 30), (30 + gap, 10, 50 + gap, 30)], [(150, 150, 160, 160)])["within_25m"]

    assert expected.own[0, 1] == expected.own[1, 0] == own
    assert accepted(expected, 0, 1) == accepted(expected, 1, 0) == allowed


def test_what_shares_pixels_is_within_any_distance():
    expected = world([(45, 60, 75, 90)], [(50, 50, 150, 150)])

    assert accepted(expected["within_25m"], 0, 1) == {TRUE}


@pytest.mark.parametrize(
    ("row", "wind", "allowed"),
    [
        (20, "northeast_of", {TRUE}),  # 45 degrees
        (20, "north_of", {UNDECIDED}),
        (20, "southwest_of", {FALSE}),
        (72, "northeast_of", {UNDECIDED}),  # 69 degrees: the sector ends at 67.5
        (100, "northeast_of", {FALSE}),
        (100, "east_of", {TRUE}),
    ],
)
def test_winds_have_half_the_sector_and_half_the_margin(row, wind, allowed):
    expected = world([(96, row - 4, 104, row + 4), (16, 96, 24, 104)], [(190, 190, 199, 199)])

    assert accepted(expected[wind], 0, 1) == allowed


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("north_of", "northeast_of", False),
        ("north_of", "east_of", True),
        ("northeast_of", "northwest_of", True),
        ("northeast_of", "south_of", True),
        ("near", "far", True),
        ("within_25m", "far", True),
        ("within_200m", "far", False),
        ("within_25m", "near", False),
        ("inside", "overlaps", False),  # over the edge of a hole: holes are filled for one and not for the other
        ("outside", "overlaps", True),
    ],
)
def test_relations_that_exclude_each_other(one, other, apart):
    limits = Limits.of(Release(None, {}), frame_of(), 200.0)

    assert are_disjoint(one, other, limits) == are_disjoint(other, one, limits) == apart
