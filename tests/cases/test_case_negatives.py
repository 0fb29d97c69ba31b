"""Case Q06: what is absent by the annotation is absent by the words too: no synonym, kind or part of what is there."""

import pytest

from trigpoint.categories import Taxonomy

TAXONOMY = Taxonomy.model_validate(
    {
        "name": "outdoors",
        "version": 1,
        "axes": [{"id": "kind"}],
        "categories": [
            {
                "id": "car",
                "axis": "kind",
                "noun": "car",
                "plural": "cars",
                "synonyms": ["automobile"],
                "broader": ["vehicle"],
                "narrower": ["sedan"],
            },
            {"id": "lake", "axis": "kind", "noun": "lake", "plural": "lakes", "synonyms": ["pond"], "broader": ["water body"]},
            {
                "id": "football_pitch",
                "axis": "kind",
                "noun": "football pitch",
                "plural": "football pitches",
                "synonyms": ["soccer field"],
                "broader": ["sports field"],
                "look_alikes": ["parking lot"],
            },
            {"id": "ship", "axis": "kind", "noun": "ship", "plural": "ships"},
            {"id": "airport", "axis": "kind", "noun": "airport", "plural": "airports"},
        ],
    }
)
PRESENT = ("car", "lake", "football_pitch")


def relations(phrase: str) -> set[str]:
    return {TAXONOMY.name_relation(phrase, category) for category in PRESENT}


@pytest.mark.parametrize("phrase", ["airport", "ship", "parking lot"])
def test_what_is_known_and_unrelated_is_absent(phrase: str) -> None:
    assert relations(phrase) <= {"other", "look_alike"}


@pytest.mark.parametrize(
    ("phrase", "category", "why"),
    [
        ("automobile", "car", "synonym"),
        ("vehicle", "car", "broader"),
        ("water body", "lake", "broader"),
        ("pond", "lake", "synonym"),
        ("sports field", "football_pitch", "broader"),
        ("soccer field", "football_pitch", "synonym"),
        ("Car", "car", "same"),
        ("cars", "car", "same"),
        ("sedan", "car", "narrower"),
    ],
)
def test_what_a_present_category_may_be_called_is_never_absent(phrase: str, category: str, why: str) -> None:
    assert TAXONOMY.name_relation(phrase, category) == why


def test_an_unknown_word_is_unknown_to_every_category() -> None:
    assert relations("flibbertigibbet") == {"unknown"}
