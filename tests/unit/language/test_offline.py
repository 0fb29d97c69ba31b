"""What is written without a language model: true, varied, in English, and never the name of what it is for."""

from pathlib import Path

import pytest

from tests.unit.language._scene import RICH_THINGS, ROOFS, ground_scene, rich_check_of
from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.language.grounding import GroundedCheck
from trigpoint.language.offline import purpose, write_offline
from trigpoint.language.referring import referring_candidates
from trigpoint.language.targets import targets_of
from trigpoint.names import contains_name, plural_of

TAXONOMIES = [
    load_taxonomy(path) for name in ("settlement", "ovearth") for path in (Path(__file__).parents[3] / "taxonomy").glob(f"{name}.v1.yaml")
]
CHECKS = [
    GroundedCheck(scene, target)
    for scene in [ground_scene(things=RICH_THINGS, roofs=ROOFS)]
    for target in targets_of(scene.resolver, [True] * len(scene.resolver.graph.nodes))
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.target.name)
def test_two_different_things_are_said_of_where_a_target_is(check: GroundedCheck) -> None:
    said = [written.text for written in write_offline(check) if written.form == "referring"]

    assert 1 <= len(said) <= 2
    assert len(set(said)) == len(said)
    name = check.target.name if len(check.target.instance_ids) == 1 else plural_of(check.target.name)
    assert all(contains_name(text, name) for text in said)
    assert said == [written.text for written in write_offline(check) if written.form == "referring"]


def test_other_names_have_the_number_of_the_target() -> None:
    said = {
        check.target.name: [w.text for w in write_offline(check) if w.form == "vocabulary" and w.polarity == "positive"] for check in CHECKS
    }

    assert said["school"] == ["school", "schoolhouse"]
    assert said["house"] == ["houses"]


def test_wordings_differ_from_annotation_to_annotation() -> None:
    scene = ground_scene(things=RICH_THINGS)
    target = next(t for t in targets_of(scene.resolver, [True] * len(scene.resolver.graph.nodes)) if t.name == "school")
    others = [target.model_copy(update={"annotation_id": f"a-{k}"}) for k in range(12)]
    bits = GroundedCheck(scene, target).bits
    said = {referring_candidates(scene, other, bits)[0].text for other in others}

    assert len(said) > 3


def test_things_between_and_all_round_are_said() -> None:
    texts = {c.text for c in referring_candidates(rich_check_of("shed").scene, rich_check_of("shed").target, rich_check_of("shed").bits)}
    shrine = rich_check_of("shrine")
    round_it = {c.text for c in referring_candidates(shrine.scene, shrine.target, shrine.bits) if c.kind == "surrounded"}

    assert {"the shed between the school and the temple"} <= texts
    assert any("trees" in text and shrine.check("referring", text).verdict == "supported" for text in round_it)


@pytest.mark.parametrize("taxonomy", TAXONOMIES, ids=lambda taxonomy: taxonomy.name)
def test_every_function_makes_a_phrase_that_names_nothing(taxonomy: Taxonomy) -> None:
    for category in taxonomy.categories:
        for function in category.functions:
            for is_one in (True, False):
                for draw in range(4):
                    text = purpose(function, is_one, draw)
                    assert text.split()[0] in ("the", "what", "everything", "all", "every", "each"), text
                    assert not any(contains_name(text, name) for name in (*category.names, *category.other_names)), text


@pytest.mark.parametrize(
    ("function", "one", "many"),
    [
        (
            "turns red and green over a junction",
            "what turns red and green over a junction",
            "everything that turns red and green over a junction",
        ),
        ("rows of large fans", "the rows of large fans", "the rows of large fans"),
        ("rings or squares on floats", "the rings or squares on floats", "the rings or squares on floats"),
        ("slopes planted for wine making", "the slopes planted for wine making", "the slopes planted for wine making"),
        ("from where people leap", "the place from which people leap", "the places from which people leap"),
        ("ground where nothing grows", "the ground where nothing grows", "the ground where nothing grows"),
    ],
)
def test_what_a_thing_does_is_told_from_what_it_is(function: str, one: str, many: str) -> None:
    assert (purpose(function, True), purpose(function, False)) == (one, many)
