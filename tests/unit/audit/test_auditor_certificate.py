"""Jitters by the document's letter: masks moved one pixel at a time by hand, sharp verdicts at the middle of every zone."""

import hashlib
import itertools

import numpy as np
import pytest

from tests.unit.audit.test_auditor_relations import frame_of
from trigpoint.audit.certificate import Certificate, SharpWorld, check_stability, jitter_mask, jitter_masks
from trigpoint.audit.findings import Notebook
from trigpoint.audit.outline import pixel_edge_parts
from trigpoint.audit.ownership import Masks
from trigpoint.audit.programs import World, both, cat, parse_canonical
from trigpoint.audit.reading import Category, Instance, Query, Release, Taxonomy
from trigpoint.audit.relations import TRUE, UNITS, Limits, measure

SIZE = 200
EMPTY = dict.fromkeys(Instance.__dataclass_fields__)


def jittered_by_hand(mask, window, valid, digest):
    """The set of pixels of a jittered mask, pixel by pixel."""
    height, width = valid.shape
    old = {(int(r) + window[0].start, int(c) + window[1].start) for r, c in np.argwhere(mask)}

    def neighbours(pixel):
        return [(pixel[0] + r, pixel[1] + c) for r, c in ((0, 1), (0, -1), (1, 0), (-1, 0))]

    def in_scene(pixel):
        return 0 <= pixel[0] < height and 0 <= pixel[1] < width

    new = set(old)
    if digest[2] % 3 == 2:
        new |= {n for pixel in old for n in neighbours(pixel) if in_scene(n)}
    elif digest[2] % 3 == 0:
        new -= {pixel for pixel in old if any(in_scene(n) and n not in old for n in neighbours(pixel))}
    new = {(r + digest[1] % 3 - 1, c + digest[0] % 3 - 1) for r, c in new}
    return {pixel for pixel in new if in_scene(pixel) and valid[pixel]} or old


@pytest.mark.parametrize("digest", list(itertools.product(range(3), repeat=3)))
@pytest.mark.parametrize("corner", [(0, 0), (0, 6), (3, 2), (5, 7)])
def test_a_jittered_mask_is_the_one_made_by_hand(digest, corner):
    rng = np.random.Generator(np.random.PCG64(sum(digest) + 10 * corner[0] + corner[1]))
    valid = rng.random((11, 13)) < 0.9
    mask = rng.random((6, 6)) < 0.7
    window = (slice(corner[0], corner[0] + 6), slice(corner[1], corner[1] + 6))

    moved, wide = jitter_mask(mask, window, valid, bytes(digest))

    found = {(int(r) + wide[0].start, int(c) + wide[1].start) for r, c in np.argwhere(moved)}
    assert found == jittered_by_hand(mask, window, valid, digest)


def test_a_mask_that_is_empty_now_stays_as_it_was():
    mask = np.ones((2, 2), dtype=bool)

    moved, wide = jitter_mask(mask, (slice(4, 6), slice(4, 6)), np.ones((9, 9), dtype=bool), bytes([1, 1, 0]))

    assert wide == (slice(2, 8), slice(2, 8))
    assert np.argwhere(moved).tolist() == [[2, 2], [2, 3], [3, 2], [3, 3]]


def scene_of(things, regions, valid=None):
    """Masks and instances of rectangles (x0, y0, x1, y1); a region is a list of them, each second one a hole."""
    masks = Masks(np.zeros((SIZE, SIZE), dtype=np.uint16), {}, np.ones((SIZE, SIZE), dtype=bool) if valid is None else valid)
    instances = []
    for label, (name, (x0, y0, x1, y1)) in enumerate(things.items(), start=1):
        masks.index[y0:y1, x0:x1] = label
        masks.windows[name] = (slice(y0, y1), slice(x0, x1))
        instances.append(
            Instance(**(EMPTY | {
                "instance_id": name, "label": label, "countable": True, "cut": False, "length_m": 1.0, "category": ("tree",),
                "area_px": (x1 - x0) * (y1 - y0),
            }))
        )  # fmt: skip
    for number, (name, rectangles) in enumerate(regions.items()):
        plane = np.zeros((SIZE, SIZE), dtype=bool)
        for x0, y0, x1, y1 in rectangles:
            plane[y0:y1, x0:x1] ^= True
        masks.planes[number] = plane
        rows, cols = np.flatnonzero(plane.any(axis=1)), np.flatnonzero(plane.any(axis=0))
        masks.windows[name] = (slice(rows[0], rows[-1] + 1), slice(cols[0], cols[-1] + 1))
        instances.append(
            Instance(**(EMPTY | {
                "instance_id": name, "plane": number, "countable": False, "cut": False, "length_m": 1.0, "category": (name,),
                "area_px": int(plane.sum()),
            }))
        )  # fmt: skip
    parts = pixel_edge_parts(masks.index)
    masks.parts = {
        i.instance_id: parts[i.label] if i.countable else pixel_edge_parts(masks.planes[i.plane].astype(np.uint8))[1] for i in instances
    }
    return masks, instances


def worlds(things, regions, codes=None):
    """The scene as released and the same scene unmoved with sharp verdicts; every thing is a tree, every region its own category."""
    masks, instances = scene_of(things, regions)
    frame = frame_of()
    release = Release(None, {})
    names = ["tree", *regions, *(i.instance_id for i in instances if i.countable)]
    taxonomy = Taxonomy(
        {"kind": None},
        {name: Category(name, "kind", None, countable=True, noun=name, plural=None, phrase=None) for name in names},
    )
    m = measure(instances, masks, frame, Limits.of(release, frame, float(SIZE)))
    n = len(instances)
    known = {name: np.zeros((n, n), dtype=np.int8) for name in (*UNITS, "within_25m")} | (codes or {})
    calm = World(m, known, taxonomy, frozenset(), release)
    return calm, SharpWorld.of(calm, masks, np.arange(n)), masks


def holds(sharp, relation, anchor=1):
    return bool(sharp.edges_to(relation, anchor)[0] == TRUE)


@pytest.mark.parametrize(("gap", "near"), [(19, True), (21, False)])
def test_near_and_far_and_within_are_decided_at_their_thresholds(gap, near):
    _, sharp, _ = worlds({"a": (10, 10, 30, 30), "b": (30 + gap, 10, 50 + gap, 30)}, {})
    _, wider, _ = worlds({"a": (10, 10, 30, 30), "b": (35 + gap, 10, 55 + gap, 30)}, {})
    _, widest, _ = worlds({"a": (10, 10, 20, 20), "b": (100 + gap, 10, 150 + gap, 30)}, {})

    assert holds(sharp, "near") == near
    assert holds(wider, "within_25m") == near
    assert holds(widest, "far") != near


@pytest.mark.parametrize(("gap", "touches"), [(0, True), (3, True), (4, False)])
def test_things_touch_up_to_three_and_a_half_pixels(gap, touches):
    _, sharp, _ = worlds({"a": (10, 10, 30, 30), "b": (30 + gap, 10, 50 + gap, 30)}, {})

    assert holds(sharp, "touches") == touches


@pytest.mark.parametrize(
    ("x0", "inside", "outside", "overlaps", "directed"),
    [
        (60, True, False, False, False),
        (48, True, False, False, False),  # 18 of 20 columns
        (47, False, False, True, False),  # 85 %
        (33, False, False, True, False),  # 15 %
        (32, False, True, True, False),  # 10 %: both included
        (31, False, True, False, True),  # 5 %
        (29, False, True, False, True),  # a pixel away
    ],
)
def test_shares_are_decided_in_the_middle_of_their_zones(x0, inside, outside, overlaps, directed):
    _, sharp, _ = worlds({"a": (x0, 90, x0 + 20, 110)}, {"field": [(50, 50, 150, 150), (90, 120, 110, 130)]})

    found = {name: holds(sharp, name) for name in ("inside", "outside", "overlaps", "west_of")}
    assert found == {"inside": inside, "outside": outside, "overlaps": overlaps, "west_of": directed}
    assert holds(sharp, "near") == directed
    assert bool(sharp.edges_to("contains", 0)[1] == TRUE) == inside


def test_the_centroid_decides_the_direction_of_a_countable_anchor_and_the_nearest_point_that_of_a_region():
    _, things, _ = worlds({"a": (60, 150, 70, 160), "b": (30, 20, 40, 170)}, {})
    _, region, _ = worlds({"a": (60, 150, 70, 160)}, {"b": [(30, 20, 40, 170)]})

    assert [holds(things, name) for name in ("east_of", "south_of", "southeast_of")] == [False, True, True]
    assert [holds(region, name) for name in ("east_of", "south_of", "southeast_of")] == [True, False, False]


def test_the_smaller_owns_shared_pixels_and_who_owns_none_is_painted_last():
    things = {"large": (20, 20, 60, 60), "pixel": (60, 30, 61, 31)}
    masks, instances = scene_of(things, {})
    for jitter in range(40):
        digests = {name: hashlib.sha256(f"7/s/{jitter}/{name}".encode()).digest() for name in things}

        moved = jitter_masks(masks, instances, f"7/s/{jitter}/")

        right = np.zeros((SIZE, SIZE), dtype=np.uint16)
        for label, name in enumerate(things, start=1):
            for pixel in jittered_by_hand(masks.index[masks.windows[name]] == label, masks.windows[name], masks.valid, digests[name]):
                right[pixel] = label
        np.testing.assert_array_equal(moved.index, right)


def test_one_that_another_hides_is_painted_again_with_its_mask_of_the_release():
    masks, instances = scene_of({"a": (20, 20, 21, 21), "b": (21, 20, 22, 21)}, {})
    hidden = 0
    for jitter in range(60):
        moved = jitter_masks(masks, instances, f"7/s/{jitter}/")

        hidden += bool(moved.index[20, 20] == 1 and moved.index[20, 21] == 0)
        assert set(np.unique(moved.index)) == {0, 1, 2}
        assert {i: moved.window_of(instance).any() for i, instance in enumerate(instances)} == {0: True, 1: True}
    assert hidden


def test_margins_are_zero_and_equals_are_undecided():
    _, sharp, _ = worlds({"a": (10, 10, 30, 30), "b": (50, 10, 71, 30), "c": (90, 10, 111, 30)}, {})

    assert sharp.execute(parse_canonical("(attr (cat tree) area most)")).tolist() == [0, 1, 1]
    assert sharp.execute(parse_canonical("(attr (cat tree) east most)")).tolist() == [0, 0, 2]
    assert sharp.execute(parse_canonical("(nearest (cat tree) (attr (cat tree) east most))")).tolist() == [0, 2, 0]


def test_lengths_are_measured_again():
    _, sharp, _ = worlds({"a": (10, 10, 30, 30), "b": (50, 10, 75, 15)}, {"field": [(100, 100, 140, 110)]})

    np.testing.assert_allclose(sharp.lengths, [20, 25, 40], rtol=1e-3)


def query(canonical, *answers):
    fields = dict.fromkeys(Query.__dataclass_fields__) | {"query_id": "q", "answer_ids": answers, "canonical": canonical}
    return Query(**fields), parse_canonical(canonical)


def findings_of(calm, masks, asked, jitters=20):
    notes = Notebook()
    check_stability(calm, masks, "s", [asked], Certificate(jitters, "7", jitters), notes)
    return [(finding.code, finding.expected.split(":")[0], finding.found) for finding in notes.findings]


def test_an_answer_that_hangs_on_a_pixel_breaks_and_a_clear_one_does_not():
    def near(gap):
        codes = {"near": np.array([[0, TRUE], [0, 0]], dtype=np.int8)}
        calm, _, masks = worlds({"a": (60 - gap, 60, 80 - gap, 90)}, {"field": [(80, 40, 120, 140)]}, codes)
        return findings_of(calm, masks, query("(rel (cat tree) near (cat field))", "a"))

    assert near(12) == []
    assert {(code, found) for code, _, found in near(20)} == {("certificate_broken", "[]")}
    assert 1 < len(near(20)) < 20


def test_an_anchor_that_denotes_another_thing_breaks_the_certificate_though_the_answer_stays():
    things = {"a": (20, 20, 40, 40), "b": (60, 20, 80, 41), "c": (20, 150, 40, 170)}
    calm, _, masks = worlds(things, {}, {"far": np.array([[0] * 3, [0] * 3, [TRUE, TRUE, 0]], dtype=np.int8)})
    largest = calm.execute(parse_canonical("(attr (cat tree) area most)"))
    calm.known["(attr (cat tree) area most)"] = np.where(largest > 0, [0, TRUE, 0], 0).astype(np.int8)

    found = findings_of(calm, masks, query("(rel (cat tree) far (attr (cat tree) area most))", "c"))

    assert found
    assert any("denotes a, not b" in text for _, _, text in found)


def test_both_halves_of_an_and_are_repeated():
    codes = {name: np.array([[0, TRUE], [0, 0]], dtype=np.int8) for name in ("near", "west_of")}
    calm, _, masks = worlds({"a": (50, 60, 70, 90)}, {"field": [(80, 40, 120, 140)]}, codes)
    node = both(parse_canonical("(rel (cat tree) near (cat field))"), parse_canonical("(rel (cat tree) west_of (cat field))"))

    assert findings_of(calm, masks, query(node.canonical(), "a")) == []
    assert len(findings_of(calm, masks, query(node.canonical()))) == 20
    assert cat("tree").canonical() in node.canonical()
