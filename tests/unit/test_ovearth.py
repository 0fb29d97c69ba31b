"""The taxonomy of OVEarth-Bench: what the paper counts, and that every category says what the generator needs."""

from pathlib import Path

import pytest

from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.language.parser import SentenceParser
from trigpoint.language.sentences import sentences
from trigpoint.names import key_of
from trigpoint.programs.language import Cat, Rel

OVEARTH = load_taxonomy(Path(__file__).parents[2] / "taxonomy" / "ovearth.v1.yaml")


def test_counts_are_those_of_the_paper() -> None:
    positive = {text for c in OVEARTH.categories for text in c.vocabulary}
    negative = {text for c in OVEARTH.categories for text in c.negatives}

    assert len(OVEARTH.categories) == 172
    assert len({c.domain for c in OVEARTH.categories}) == 7
    assert (len(positive), len(negative), len(positive & negative), len(positive | negative)) == (
        425,
        1028,
        108,
        1345,
    )  # printed: 1,029 and 1,346; see the note of c_47
    assert sum(not c.instanceable for c in OVEARTH.categories) == 12


def test_every_category_says_what_is_needed_and_where_it_comes_from() -> None:
    for c in OVEARTH.categories:
        assert len(c.functions) >= 2, c.id
        assert len(c.look_alikes) >= 3, c.id
        assert c.vocabulary and c.negatives and c.coarsest_gsd_m and c.typical_size_m, c.id
        assert c.countable is c.instanceable, c.id
        assert c.typical_size_m[1] >= 3 * c.coarsest_gsd_m, f"{c.id}: cannot be told at that pixel"
    filled = OVEARTH.filled_by_basis()
    assert {field: set(by_basis) for field, by_basis in filled.items() if field in ("vocabulary", "negatives")} == {
        "vocabulary": {"paper"},
        "negatives": {"paper"},
    }
    assert set(OVEARTH.basis) == set(filled)


def test_functions_are_those_of_one_category() -> None:
    said = [text for c in OVEARTH.categories for text in c.functions]

    assert len(set(said)) == len(said)


def test_a_parent_is_broader_and_its_children_narrower() -> None:
    for c in OVEARTH.categories:
        if c.parent is not None:
            assert OVEARTH.name_relation(OVEARTH.get(c.parent).noun or "", c.id) == "broader"
            assert OVEARTH.name_relation(c.noun or "", c.parent) == "narrower"


def test_every_category_is_found_by_its_names_alone() -> None:
    for c in OVEARTH.categories:
        assert {OVEARTH.name_relation(name, c.id) for name in c.names} == {"same"}
        assert all(c.id in OVEARTH.categories_named(name) for name in (*c.names, *c.synonyms))
        assert [d.id for d in OVEARTH.categories if d.noun and key_of(d.noun) == key_of(c.noun or "")] == [c.id]


def test_doubtful_rows_of_the_print_are_noted() -> None:
    both = {c.id for c in OVEARTH.categories if set(c.vocabulary) & set(c.negatives)}

    assert both == {"helipad", "train", "volcanic_vent", "bridge", "stupa"}
    assert all(OVEARTH.get(name).note for name in (*both, "lighthouse", "heliostat", "c_47", "uh60", "pickup", "compass_rose", "hangar"))


@pytest.mark.parametrize(
    ("phrase", "category", "relation"),
    [
        ("airport", "car", "other"),
        ("ship", "car", "other"),
        ("parking lot", "soccer_field", "other"),
        ("automobile", "car", "synonym"),
        ("vehicle", "car", "broader"),
        ("water body", "lake", "broader"),
        ("pond", "lake", "synonym"),
        ("sports field", "soccer_field", "broader"),
        ("football pitch", "soccer_field", "synonym"),
        ("sedan", "car", "narrower"),
        ("an old fishing boat", "ship", "narrower"),
        ("pool", "swimming_pool", "broader"),
        ("Ferris-wheel shadows", "ferris_wheel", "part"),
        ("golf course", "putting_green", "part"),
        ("wind turbine", "chimney", "look_alike"),
        ("roundhouse", "house", "other"),
        ("greenhouse", "house", "look_alike"),
        ("truss bridge", "bridge", "narrower"),
        ("aircraft carrier", "ship", "narrower"),
        ("causeway", "bridge", "synonym"),
        ("fishpond", "lake", "narrower"),
        ("sea", "river", "other"),
        ("zeppelin mast", "car", "unknown"),
    ],
)
def test_relations_of_names(phrase: str, category: str, relation: str) -> None:
    assert OVEARTH.name_relation(phrase, category) == relation


def test_published_negatives_that_are_kinds_or_names_are_known_as_such() -> None:
    found = [
        (c.id, text) for c in OVEARTH.categories for text in c.negatives if OVEARTH.name_relation(text, c.id) not in ("look_alike", "other")
    ]

    assert ("ship", "oil tanker") in found
    assert ("stupa", "pagoda") in found
    assert len(found) == 73


def test_every_noun_is_read_back_in_sentences() -> None:
    parser = SentenceParser(OVEARTH)
    counted = [c.id for c in OVEARTH.categories if c.countable]
    for k, name in enumerate(counted):
        program = Rel(Cat(name), "north_of", Cat(counted[k - 1]))
        assert all(parser.readings(text) == [program] for text in sentences(program, OVEARTH)), name


def test_a_file_of_its_own_reads_back() -> None:
    assert Taxonomy.model_validate(OVEARTH.to_json()) == OVEARTH
