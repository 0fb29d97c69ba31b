"""What names a category, and the rates of the two checks, by hand."""

import pytest

from trigpoint.audit.language import rates_of
from trigpoint.audit.phrases import Lexicon, holds, is_same
from trigpoint.audit.reading import Category, Item, Taxonomy


def category(name, **words):
    return Category(name, "kind", None, True, name.replace("_", " "), f"{name.replace('_', ' ')}s", None, **words)


OF_HOUSES = {"narrower": ("villa",), "parts": ("chimney",), "look_alikes": ("green house",)}
TAXONOMY = Taxonomy(
    {"kind": None, "roof": "house"},
    {
        one.category_id: one
        for one in (
            category("house", synonyms=("dwelling",), broader=("building",), **OF_HOUSES),
            category("boat", vocabulary=("ship", "vessel", "mast"), parts=("mast",)),
            category("swimming_pool"),
            category("marina", parts=("boat",)),
            category("canoe", broader=("boat",)),
            Category("tin_roof", "roof", None, True, None, None, "with a tin roof"),
        )
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("the Houses", "house", True),
        ("churches", "church", True),
        ("bus", "buses", True),
        ("wharves", "wharf", True),
        ("quarry", "quarries", True),
        ("fishermen", "fisherman", True),
        ("tower-block", "tower blocks", True),
        ("green-house", "greenhouse", True),
        ("green house", "greenhouse", False),
        ("houseboat", "house", False),
        ("glass", "glas", False),
        ("", "the", False),
        ("", "", False),
    ],
)
def test_phrases_are_the_same_but_for_case_number_articles_and_hyphens(one, other, same):
    assert is_same(one, other) is same
    assert is_same(other, one) is same


@pytest.mark.parametrize(
    ("text", "name", "held"),
    [
        ("all swimming-pools, that are near it", "swimming pool", True),
        ("the pool where swimming is taught", "swimming pool", False),
        ("where the house's people live", "houses", True),
        ("greenhouses", "house", False),
        ("anything", "", False),
    ],
)
def test_a_text_holds_a_name_word_after_word(text, name, held):
    assert holds(text, name) is held


@pytest.mark.parametrize(
    ("text", "present", "what"),
    [
        ("A Dwelling", "house", "a name"),
        ("swimming pools", "swimming_pool", "a name"),
        ("vessel", "boat", "a name"),
        ("building", "house", "a broader word"),
        ("villas", "house", "a kind"),
        ("chimney", "house", "a part"),
        ("mast", "boat", "a part"),
        ("marina", "boat", "a whole"),
        ("canoe", "boat", "a kind"),
        ("old fishing boats", "boat", "a kind"),
        ("pool", "swimming_pool", "a broader word"),
        ("green house", "house", None),  # listed as what it is taken for
        ("swimming pool", "house", None),
        ("swimming pool", "boat", None),
        ("anything", "tin_roof", None),
    ],
)
def test_what_a_phrase_is_to_a_category_that_is_there(text, present, what):
    assert Lexicon(TAXONOMY).relation(text, present) == what


def test_names_of_several_categories_end_with_their_phrases():
    lexicon = Lexicon(TAXONOMY)

    assert lexicon.names_of_all(("tin_roof", "house")) == ["house with a tin roof", "houses with a tin roof", "dwelling with a tin roof"]
    assert lexicon.names_of_all(("house",)) == ["house", "houses", "dwelling"]
    assert lexicon.names_of_all(("tin_roof",)) == []


def item(form, polarity="positive", verdict="supported", state="accepted", stage2=None):
    return Item("t", "a", "s", form, polarity, "x", "x", "somebody", stage2, verdict, (), state, "", 0, None)


def test_rates_are_shares_of_what_was_looked_at():
    items = [
        item("vocabulary", verdict="contradicted", state="dropped"),
        item("vocabulary", "negative", stage2="PRESENT", state="dropped"),
        item("vocabulary", "negative", stage2="ABSENT", verdict="contradicted", state="dropped"),
        item("vocabulary", "negative", stage2="ABSENT"),
        item("vocabulary", "negative"),
        item("referring", stage2="corrected", verdict="contradicted", state="dropped"),
        item("referring", state="corrected"),
        item("referring"),
        item("referring"),
    ]

    assert rates_of(items) == {
        "negatives_present_stage2": 1 / 3,
        "negatives_present_check": 1 / 4,
        "referring_corrected_stage2": 1.0,
        "referring_contradicted_check": 2 / 4,
        "referring_corrected_check": 1 / 4,
    }
    assert set(rates_of([item("reasoning")]).values()) == {None}
