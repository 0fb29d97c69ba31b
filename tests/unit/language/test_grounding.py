"""The grounded check on a measured scene: what is true is supported, what is false is contradicted, the rest goes to a person."""

import pytest

from tests.unit.language._scene import TAXONOMY, check_of, ground_scene, rich_check_of
from trigpoint.language.grounding import GroundedCheck
from trigpoint.language.offline import write_offline
from trigpoint.language.targets import targets_of


@pytest.mark.parametrize(
    ("target", "text", "verdict"),
    [
        ("school", "the school north of the road", "supported"),
        ("school", "The school located directly to the north of the road.", "supported"),
        ("school", "the school south of the road", "contradicted"),
        ("school", "The school to the west of the temple, on the northern side of the road", "supported"),
        ("school", "The school to the east of the temple, on the northern side of the road", "contradicted"),
        ("school", "the school in the upper left part of the image", "supported"),
        ("school", "the school in the lower right corner of the image", "contradicted"),
        ("school", "the school in the northwestern corner of the scene", "supported"),
        ("school", "the school in the center of the image", "undecidable"),
        ("school", "the school in the north", "supported"),
        ("school", "the school in the south", "contradicted"),
        ("temple", "the temple in the center of the image", "undecidable"),
        ("house", "the houses far from the temple", "supported"),
        ("school", "the school next to the temple", "contradicted"),
        ("school", "the school near the temple", "contradicted"),
        ("school", "the school between the road and the temple", "undecidable"),
        ("school", "the red school north of the road", "undecidable"),
        ("school", "the school that is not south of the road", "undecidable"),
        ("school", "the school close to the river", "undecidable"),
        ("school", "the building north of the road", "contradicted"),  # does not name the category
        ("school", "a schoolhouse north of a road", "supported"),
        ("school", "the school north of a house", "supported"),
        ("school", "the school north of the house", "undecidable"),  # which of three
        ("school", "the school east of the house", "contradicted"),  # of none of them
        ("school", "the school south of the house", "contradicted"),  # of none of them
        ("house", "the three houses south of the road", "supported"),
        ("house", "the two houses south of the road", "contradicted"),
        ("house", "the easternmost house", "contradicted"),  # one of three
        ("house", "the houses within 60 metres of the road", "supported"),
        ("house", "all houses that are south of the road", "supported"),
        ("road", "the road north of the school", "contradicted"),
        ("school", "the school north of the street", "supported"),  # another name of the road
    ],
)
def test_referring_expressions_are_held_against_the_ground(target: str, text: str, verdict: str) -> None:
    checked = check_of(target).check("referring", text)

    assert checked.verdict == verdict, checked


@pytest.mark.parametrize(
    ("target", "text", "verdict"),
    [
        ("shed", "the shed between the school and the temple", "supported"),
        ("shed", "The shed, halfway between the temple and a school", "supported"),
        ("temple", "the temple between the school and the shed", "contradicted"),
        ("school", "the school between the road and the house", "contradicted"),  # north of both, whichever house
        ("shed", "the shed between the temple and the house", "undecidable"),  # which of three
        ("shed", "the shed between the road and the river", "undecidable"),
        ("shrine", "the shrine surrounded by trees", "supported"),
        ("shrine", "the shrine amid trees", "supported"),
        ("school", "the school surrounded by trees", "contradicted"),
        ("school", "the school enclosed by the road", "contradicted"),
        ("school", "the school in the northwestern corner of the image", "supported"),
        ("school", "the school in a corner of the scene", "supported"),
        ("shrine", "the shrine in a corner of the scene", "contradicted"),
        ("shrine", "the shrine at the edge of the image", "contradicted"),
        ("pond", "the pond at the eastern edge of the image", "supported"),
        ("pond", "the pond on the left edge of the picture", "contradicted"),
        ("house", "the houses along the border of the image", "undecidable"),
        ("shrine", "the shrine near the centre of the image", "supported"),
        ("shrine", "the shrine in the central part of the image", "supported"),
        ("pond", "the pond in the middle of the image", "contradicted"),
    ],
)
def test_between_surrounded_corners_edges_and_the_centre_are_measured(target: str, text: str, verdict: str) -> None:
    checked = rich_check_of(target).check("referring", text)

    assert checked.verdict == verdict, checked


@pytest.mark.parametrize(
    ("target", "text", "verdict"),
    [
        ("school", "the large school north of the road", "supported"),
        ("school", "the small school north of the road", "contradicted"),
        ("tree", "the small trees of the scene", "supported"),
        ("house", "the large houses south of the road", "undecidable"),
        ("road", "the long road south of the school", "undecidable"),
        ("pond", "the elongated pond north of the road", "supported"),
        ("pond", "the round pond north of the road", "contradicted"),
        ("school", "the school larger than the shed", "supported"),
        ("shed", "the shed bigger than the school", "contradicted"),
        ("shed", "the shed smaller than a school", "supported"),
        ("shed", "the shed larger than the temple", "undecidable"),  # nearly as large
        ("temple", "the temple with a tin roof north of the road", "supported"),
        ("temple", "the tin-roofed temple north of the road", "supported"),
        ("school", "the school with a tin roof, north of the road", "contradicted"),
        ("shed", "the tin roofed shed north of the road", "undecidable"),  # nobody knows its roof
    ],
)
def test_sizes_shapes_and_known_traits_are_measured(target: str, text: str, verdict: str) -> None:
    checked = rich_check_of(target).check("referring", text)

    assert checked.verdict == verdict, checked


@pytest.mark.parametrize(
    ("word", "why"), [("red", "colour"), ("red-roofed", "colour"), ("wooden", "material"), ("old", "style"), ("winding", "this word")]
)
def test_what_is_not_measured_goes_to_a_person_with_its_word(word: str, why: str) -> None:
    checked = check_of("school").check("referring", f"the {word} school north of the road")
    open_claims = [claim for claim in checked.claims if claim.verdict != "supported"]

    assert checked.verdict == "undecidable"
    assert [claim.text for claim in open_claims] == [word]
    assert why in open_claims[0].measured


def test_words_about_the_other_thing_are_not_taken_on_trust() -> None:
    checked = check_of("school").check("referring", "the school north of the busy road")

    assert checked.verdict == "undecidable"
    assert "'busy'" in checked.claims[-1].measured


@pytest.mark.parametrize(
    ("target", "text", "verdict"),
    [
        ("house", "the house south of the road", "contradicted"),
        ("house", "A house south of the road", "contradicted"),
        ("house", "the house that is south of the road", "contradicted"),
        ("house", "every house south of the road", "supported"),
        ("house", "each house that lies south of the road", "supported"),
        ("house", "the houses south of the road", "supported"),
        ("house", "a group of three houses south of the road", "supported"),
        ("house", "several houses south of the road", "supported"),
        ("house", "numerous houses south of the road", "contradicted"),
        ("house", "a pair of houses south of the road", "contradicted"),
        ("house", "both houses south of the road", "contradicted"),
        ("house", "one of the houses south of the road", "contradicted"),
        ("house", "most of the houses south of the road", "contradicted"),
        ("house", "some houses south of the road", "undecidable"),
        ("house", "the twenty-one houses south of the road", "contradicted"),
        ("house", "3 houses south of the road", "supported"),
        ("school", "the only school north of the road", "supported"),
        ("school", "the schools that are north of the road", "supported"),  # a plural leaves the number open
        ("school", "two schools north of the road", "contradicted"),
        ("road", "the road south of a school", "undecidable"),
    ],
)
def test_a_sentence_is_about_all_of_the_target_and_nothing_else(target: str, text: str, verdict: str) -> None:
    checked = check_of(target).check("referring", text)

    assert checked.verdict == verdict, checked


@pytest.mark.parametrize(
    ("target", "text", "corrected"),
    [
        ("house", "the house south of the road", "the houses south of the road"),
        ("house", "The house that lies north of the road.", "The houses that lie south of the road."),
        ("house", "A house south of the road", None),
        ("house", "one of the houses south of the road", None),
    ],
)
def test_a_singular_for_several_is_put_right(target: str, text: str, corrected: str | None) -> None:
    checked = check_of(target).check("referring", text)

    assert checked.verdict == "contradicted"
    assert checked.correction == corrected


@pytest.mark.parametrize(
    ("target", "text", "corrected"),
    [
        ("school", "The school located directly to the south of the road.", "The school located directly to the north of the road."),
        (
            "school",
            "the school to the east of the temple and north of the road",
            "the school to the west of the temple and north of the road",
        ),
        ("school", "the school in the southern part of the image", "the school in the northern part of the image"),
        ("house", "the three houses on the northern side of the road", "the three houses on the southern side of the road"),
        ("school", "the school in the south", "the school in the north"),
        ("school", "the school next to the temple", None),
        ("house", "the two houses north of the road", None),
    ],
)
def test_wrong_directions_are_put_right_from_the_graph(target: str, text: str, corrected: str | None) -> None:
    checked = check_of(target).check("referring", text)

    assert checked.verdict == "contradicted"
    assert checked.correction == corrected


@pytest.mark.parametrize("word", ["to the left of", "above"])
def test_words_of_the_screen_need_a_north_up_image(word: str) -> None:
    text = f"the school {word} the {'temple' if 'left' in word else 'road'}"

    assert check_of("school").check("referring", text).verdict == "supported"
    assert check_of("school", is_north_up=False).check("referring", text).verdict != "supported"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("the place where children are taught", "supported"),
        ("the school where children are taught", "contradicted"),
        ("Schools are for learning", "contradicted"),
        ("the old schoolhouse of the village", "contradicted"),
        ("the place south of the road where children are taught", "contradicted"),
    ],
)
def test_reasoning_does_not_name_its_category_and_is_not_wrong_about_places(text: str, verdict: str) -> None:
    assert check_of("school").check("reasoning", text).verdict == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("hospital", "supported"),
        ("warehouses", "supported"),
        ("temple", "contradicted"),  # there is one
        ("Schoolhouse", "contradicted"),
        ("public building", "contradicted"),  # broader than what is there
        ("helipad", "undecidable"),  # no word of the taxonomy
        ("a very long phrase that names nothing short at all", "contradicted"),
    ],
)
def test_negatives_are_held_against_instances_and_taxonomy(text: str, verdict: str) -> None:
    assert check_of("school").check_negative(text).verdict == verdict


def test_negatives_are_held_against_the_tags_of_the_scene_too() -> None:
    assert check_of("school", pois=frozenset({"hospital"})).check_negative("hospital").verdict == "contradicted"


@pytest.mark.parametrize(
    ("text", "verdict"), [("schools", "supported"), ("schoolhouse", "supported"), ("temple", "contradicted"), ("helipad", "undecidable")]
)
def test_vocabulary_names_the_target_and_nothing_else(text: str, verdict: str) -> None:
    assert check_of("school").check("vocabulary", text).verdict == verdict


def test_the_offline_writer_writes_only_what_the_check_supports() -> None:
    scene = ground_scene()
    n = 0
    for target in targets_of(scene.resolver, [True] * 6):
        check = GroundedCheck(scene, target)
        for written in write_offline(check):
            n += 1
            checked = check.check_negative(written.text) if written.polarity == "negative" else check.check(written.form, written.text)
            assert checked.verdict == "supported"
    assert n > 15


def test_targets_are_all_of_a_category_and_say_why_they_have_no_boxes() -> None:
    scene = ground_scene()
    found = {t.name: t for t in targets_of(scene.resolver, [True, False, True, True, True, False])}

    assert {name: len(t.instance_ids) for name, t in found.items()} == {"school": 1, "temple": 1, "house": 3, "road": 1}
    assert {name: t.why_no_boxes for name, t in found.items()} == {
        "school": None,
        "temple": "annotation",
        "house": None,
        "road": "category",
    }
    assert TAXONOMY.axes[0].id == "kind"
