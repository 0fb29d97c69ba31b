import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.programs._town import TAXONOMY
from trigpoint.geometry.frames import SceneFrame, fit_frame
from trigpoint.masks.annotate import Proposal, annotate_scene
from trigpoint.masks.ownership import Claim, decide_ownership
from trigpoint.masks.rasterise import crop_mask
from trigpoint.rules import Rules

TRANSFORM = (1.0, 0.0, 500000.0, 0.0, -1.0, 5500100.0)
FRAME = SceneFrame("EPSG:32633", TRANSFORM, fit_frame("EPSG:32633", TRANSFORM, 120, 100))
ALL = np.ones((100, 120), dtype=bool)
RULES = Rules(min_instance_px=20)


def proposal(name: str, x0: float, y0: float, x1: float, y1: float, category: str = "building", origin: str = "vector") -> Proposal:
    """A rectangle in image coordinates, as map coordinates."""
    return Proposal(name, shapely.box(500000 + x0, 5500100 - y1, 500000 + x1, 5500100 - y0), "EPSG:32633", (category,), origin)  # type: ignore[arg-type]


def test_the_smaller_whole_polygon_owns_what_two_share() -> None:
    made = annotate_scene("s", [proposal("big", 10, 10, 50, 50), proposal("small", 40, 40, 60, 60)], FRAME, ALL, TAXONOMY, RULES)
    rows = {row["source_ids"][0]: row for row in made.rows}

    assert made.labels[45, 45] == rows["small"]["label"]
    assert (rows["big"]["area_px"], rows["big"]["moved_px"]) == (1500, 100)
    assert (rows["small"]["area_px"], rows["small"]["moved_px"]) == (400, 0)


def test_ownership_goes_by_the_whole_polygon_even_where_it_is_cut() -> None:
    # the long one reaches out of the scene: larger as a whole, smaller in here
    made = annotate_scene("s", [proposal("long", 100, 10, 400, 30), proposal("square", 90, 5, 115, 35)], FRAME, ALL, TAXONOMY, RULES)
    rows = {row["source_ids"][0]: row for row in made.rows}

    assert made.labels[20, 105] == rows["square"]["label"]


def test_footprints_on_both_sides_of_the_antimeridian_are_found_in_a_scene_over_it() -> None:
    transform = (1e-5, 0.0, 179.999, 0.0, -1e-5, -17.0)  # from 179.999° E to 179.998° W
    frame = SceneFrame("EPSG:4326", transform, fit_frame("EPSG:4326", transform, 300, 200))
    east = Proposal("east", shapely.box(179.9992, -17.0006, 179.9994, -17.0004), "OGC:CRS84", ("building",), "vector")
    west = Proposal("west", shapely.box(-179.9990, -17.0006, -179.9988, -17.0003), "OGC:CRS84", ("building",), "vector")
    made = annotate_scene("s", [east, west], frame, np.ones((200, 300), dtype=bool), TAXONOMY, RULES)
    label = {row["source_ids"][0]: row["label"] for row in made.rows}

    assert (made.labels[50, 30], made.labels[45, 210]) == (label["east"], label["west"])
    assert {row["source_ids"][0]: row["area_px"] for row in made.rows} == {"east": 400, "west": 600}


def test_what_is_too_small_or_covers_no_centre_is_dropped_with_its_reason() -> None:
    made = annotate_scene(
        "s",
        [proposal("speck", 5.6, 5.6, 6.4, 6.4), proposal("small", 20, 20, 24, 24), proposal("drawn", 30, 20, 34, 24, origin="annotator")],
        FRAME,
        ALL,
        TAXONOMY,
        RULES,
    )

    assert {drop.item_id: drop.reason_code for drop in made.drops} == {"speck": "below_one_pixel", "small": "below_min_pixels"}
    assert [row["source_ids"] for row in made.rows] == [["drawn"]]
    assert made.n_in == 3


def test_an_instance_that_others_bury_is_dropped_and_its_pixels_stay_theirs() -> None:
    parts = [proposal(f"p{k}", 10 + 10 * k, 10, 20 + 10 * k, 20) for k in range(3)]

    made = annotate_scene("s", [proposal("under", 10, 10, 40, 20.4), *parts], FRAME, ALL, TAXONOMY, RULES)

    assert {drop.item_id: drop.reason_code for drop in made.drops} == {"under": "below_min_pixels_owned"}
    assert sorted(row["area_px"] for row in made.rows) == [100, 100, 100]


def test_what_a_dropped_instance_frees_may_save_another() -> None:
    def claim(name: str, x0: int, x1: int) -> Claim:
        return Claim(name, float(10 * (x1 - x0)), crop_mask(shapely.box(x0, 0, x1, 10), 10, 40), 100)

    made = decide_ownership([claim("c", 0, 10), claim("a", 7, 19), claim("b", 14, 28)], np.ones((10, 40), dtype=bool))

    # "a" keeps 90 of its 120 px beside "c" and goes; "b", left with 90 while "a" was there, has all its 140 px again
    assert made.dropped == {"a": 90}
    assert made.owned_px == {"b": 140, "c": 100}


def test_a_footprint_without_area_is_dropped_with_its_reason() -> None:
    line = Proposal(
        "line", shapely.Polygon([(500010, 5500050), (500020, 5500050), (500030, 5500050)]), "EPSG:32633", ("building",), "vector"
    )

    made = annotate_scene("s", [line], FRAME, ALL, TAXONOMY, RULES)

    assert [(d.item_id, d.reason_code) for d in made.drops] == [("line", "no_area")]
    assert made.n_in == 1


def test_regions_overlap_on_their_own_planes_and_get_no_box() -> None:
    regions = [proposal("r1", 10, 10, 60, 60, "road", "annotator"), proposal("r2", 40, 40, 90, 90, "road", "annotator")]

    made = annotate_scene("s", [*regions, proposal("b", 45, 45, 55, 55)], FRAME, ALL, TAXONOMY, RULES)

    assert made.n_planes == 2
    assert made.planes[50, 50] == 3
    assert made.labels[50, 50] != 0
    assert {row["boxable"] for row in made.rows if row["plane"] is not None} == {False}


def test_invalid_pixels_belong_to_nobody() -> None:
    valid = ALL.copy()
    valid[:, :20] = False

    made = annotate_scene("s", [proposal("b", 10, 10, 40, 40)], FRAME, valid, TAXONOMY, RULES)

    assert not made.labels[:, :20].any()
    assert made.rows[0]["area_px"] == 20 * 30


def test_the_same_feature_twice_is_one_instance_and_is_said() -> None:
    made = annotate_scene("s", [proposal("b", 10, 10, 40, 40), proposal("b", 10, 10, 40, 40)], FRAME, ALL, TAXONOMY, RULES)

    assert len(made.rows) == 1
    assert [drop.reason_code for drop in made.drops] == ["duplicate"]


def test_two_outlines_under_one_id_are_two_instances() -> None:
    made = annotate_scene("s", [proposal("b", 10, 10, 40, 40), proposal("b", 60, 10, 90, 40)], FRAME, ALL, TAXONOMY, RULES)

    assert len({row["instance_id"] for row in made.rows}) == 2


def test_footprints_in_degrees_land_on_the_same_pixels() -> None:
    here = proposal("b", 10, 10, 40, 40)
    corners = FRAME.lonlat_from_image(np.array([[10.0, 10], [40, 10], [40, 40], [10, 40]]))
    there = Proposal("b", shapely.Polygon(corners), "OGC:CRS84", ("building",), "vector")

    one, other = (annotate_scene("s", [p], FRAME, ALL, TAXONOMY, RULES) for p in (here, there))

    assert np.array_equal(one.labels, other.labels)


@given(
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25), st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=8),
    st.randoms(),
)
def test_ownership_is_exclusive_complete_and_independent_of_order(boxes: list[tuple[int, int, int, int]], random: object) -> None:
    valid = np.ones((40, 40), dtype=bool)
    claims = [Claim(f"i-{k}", float(w * h), crop_mask(shapely.box(x, y, x + w, y + h), 40, 40), 1) for k, (x, y, w, h) in enumerate(boxes)]
    shuffled = list(claims)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    one, other = decide_ownership(claims, valid), decide_ownership(shuffled, valid)
    union = np.zeros((40, 40), dtype=bool)
    for claim in claims:
        union[claim.crop.slices] |= claim.crop.mask

    assert np.array_equal(one.labels, other.labels)
    assert np.array_equal(one.labels > 0, union)
    assert sum(one.owned_px.values()) == union.sum()
    assert all(
        one.owned_px[k] + one.moved_px[k] == int(w * h)
        for k, (_, _, w, h) in ((f"i-{j}", b) for j, b in enumerate(boxes))
        if k in one.owned_px
    )


def test_too_many_instances_are_refused() -> None:
    with pytest.raises(ValueError, match="65536 discrete instances"):
        decide_ownership(
            [Claim(str(k), 1.0, crop_mask(shapely.box(0, 0, 1, 1), 2, 2), 1) for k in range(65_536)], np.ones((2, 2), dtype=bool)
        )


def test_what_cannot_be_told_apart_gets_no_boxes() -> None:
    near, far = proposal("near", 10, 10, 40, 40), proposal("far", 60, 10, 90, 40)
    made = annotate_scene("s", [near._replace(separable=False), far], FRAME, ALL, TAXONOMY, RULES)
    assert {row["source_ids"][0]: row["boxable"] for row in made.rows} == {"near": False, "far": True}
