"""Negatives held against instances, taxonomies and what is mapped: shown to be absent, present, or neither."""

from pathlib import Path

import pytest

from tests.unit.language._scene import ground_scene, target_of
from trigpoint.categories import load_taxonomy
from trigpoint.language.grounding import GroundedCheck

OVEARTH = load_taxonomy(Path(__file__).parents[3] / "taxonomy" / "ovearth.v1.yaml")
MAPPED = [{"amenity": "cinema;cafe", "name": "Laxmi Picture Palace"}, {"leisure": "swimming_pool"}, {"building": "yes"}]


def check_with(mapped: list[dict[str, str]], *, is_wide: bool = True, is_complete: bool = True) -> GroundedCheck:
    scene = ground_scene(mapped_tags=mapped, is_map_complete=is_complete, vocabularies=(OVEARTH,) if is_wide else ())
    return GroundedCheck(scene, target_of(scene, "school"))


@pytest.mark.parametrize(
    ("text", "verdict", "why"),
    [
        ("hospital", "supported", "no instance and no tag"),
        ("helipad", "supported", "helipad (ovearth)"),
        ("outdoor tennis court", "supported", "tennis_court (ovearth)"),
        ("cinema", "contradicted", "amenity=cinema"),
        ("cafe", "contradicted", "amenity=cafe"),
        ("old cinema", "contradicted", "amenity=cinema"),
        ("picture palace", "contradicted", "Laxmi"),
        ("Swimming Pools", "contradicted", "leisure=swimming_pool"),
        ("outdoor swimming pool", "contradicted", "swimming_pool"),
        ("cottage", "contradicted", "'house'"),  # a kind of house, by the wider vocabulary
        ("dwelling", "contradicted", "'house'"),  # broader
        ("car", "undecidable", "neither annotated nor mapped"),
        ("zorb", "undecidable", "'zorb' is no name of any taxonomy"),
    ],
)
def test_a_negative_is_held_against_every_taxonomy_and_what_is_mapped(text: str, verdict: str, why: str) -> None:
    checked = check_with(MAPPED).check_negative(text)

    assert checked.verdict == verdict, checked
    assert any(why in claim.measured for claim in checked.claims), checked


def test_without_a_complete_map_only_what_is_annotated_can_be_shown_to_be_absent() -> None:
    check = check_with(MAPPED, is_complete=False)

    assert check.check_negative("hospital").verdict == "supported"
    assert check.check_negative("helipad").verdict == "undecidable"
    assert "no complete map" in check.check_negative("helipad").claims[0].measured
    assert check.check_negative("cottage").verdict == "contradicted"
    assert check.check_negative("cinema").verdict == "contradicted"


def test_without_a_wider_vocabulary_an_unknown_word_goes_to_a_person() -> None:
    checked = check_with(MAPPED, is_wide=False).check_negative("helipad")

    assert checked.verdict == "undecidable"
    assert "helipad" in checked.claims[0].measured


@pytest.mark.parametrize("value", ["yes", "no", "unknown"])
def test_values_that_name_nothing_contradict_nothing(value: str) -> None:
    assert check_with([{"helipad": value}]).check_negative(f"{value} hospital").verdict != "contradicted"
