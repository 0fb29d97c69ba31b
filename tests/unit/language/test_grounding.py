"""The grounded check on a measured scene: what is true is supported, what is false is contradicted, the rest goes to a person."""

import pytest

from tests.unit.language._scene import TAXONOMY, check_of, ground_scene
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
    ],
)
def test_referring_expressions_are_held_against_the_ground(target: str, text: str, verdict: str) -> None:
    checked = check_of(target).check("referring", text)

    assert checked.verdict == verdict, checked


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
