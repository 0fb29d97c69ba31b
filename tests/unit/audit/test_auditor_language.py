"""The auditor's program and sentence readers."""

import pytest

from trigpoint.audit.programs import ProgramError, count_differences, level_of, parse_canonical, parse_json
from trigpoint.audit.reading import Category, Taxonomy
from trigpoint.audit.sentences import SentenceParser


def taxonomy(*extra):
    rows = [
        ("building", "kind", None, "building", "buildings", None),
        ("temple", "kind", "building", "temple", "temples", None),
        ("house", "kind", "building", "residential building", "residential buildings", None),
        ("tin_roof", "roof", None, None, None, "with a tin roof"),
        *extra,
    ]
    return Taxonomy(
        {"kind": None, "roof": "building"},
        {r[0]: Category(r[0], r[1], r[2], countable=True, noun=r[3], plural=r[4], phrase=r[5]) for r in rows},
    )


@pytest.mark.parametrize(
    ("sentence", "canonical"),
    [
        ("all buildings", "(cat building)"),
        ("all of the buildings", "(cat building)"),
        ("every residential building", "(cat house)"),
        ("all buildings with a tin roof that are north of the temple", "(rel (and (cat building) (cat tin_roof)) north_of (cat temple))"),
        ("the largest building with a tin roof", "(attr (and (cat building) (cat tin_roof)) area most)"),
        ("the building with a tin roof that has the largest area", "(attr (and (cat building) (cat tin_roof)) area most)"),
        ("the biggest of all temples", "(attr (cat temple) area most)"),
        ("the longest of all temples", "(attr (cat temple) length most)"),
        ("the temple that has the greatest length", "(attr (cat temple) length most)"),
        ("the westernmost temple", "(attr (cat temple) east least)"),
        ("the temple that lies farthest west", "(attr (cat temple) east least)"),
        ("the most westerly of all temples", "(attr (cat temple) east least)"),
        ("the residential building closest to the largest temple", "(nearest (cat house) (attr (cat temple) area most))"),
        ("the temple that is nearest to the longest temple", "(nearest (cat temple) (attr (cat temple) length most))"),
        ("out of all temples, the one closest to the most northerly temple", "(nearest (cat temple) (attr (cat temple) north most))"),
        ("out of all temples, the one farthest from the temple", "(farthest (cat temple) (cat temple))"),
        ("the temple farthest from the building that is near the temple", "(farthest (cat temple) (rel (cat building) near (cat temple)))"),
        ("the temple that is most distant from the temple", "(farthest (cat temple) (cat temple))"),
        ("the temple farthest away from the temple", "(farthest (cat temple) (cat temple))"),
        (
            "all buildings that are far from the residential building that is inside the temple and are west of the temple",
            "(and (rel (cat building) far (rel (cat house) inside (cat temple))) (rel (cat building) west_of (cat temple)))",
        ),
        (
            "the buildings that lie to the northeast of the residential building that lies far away from the temple and lie in the temple",
            "(and (rel (cat building) inside (cat temple)) (rel (cat building) northeast_of (rel (cat house) far (cat temple))))",
        ),
        (
            "any buildings located in the vicinity of the temple and also in the residential building",
            "(and (rel (cat building) inside (cat house)) (rel (cat building) near (cat temple)))",
        ),
        ("all temples that are partly inside the building", "(rel (cat temple) overlaps (cat building))"),
        ("the temples that lie partly within the building", "(rel (cat temple) overlaps (cat building))"),
        ("any temples located in contact with the building", "(rel (cat temple) touches (cat building))"),
        ("the temples that lie outside of the building", "(rel (cat temple) outside (cat building))"),
        ("all temples that are within 25 metres of the building", "(rel (cat temple) within_25m (cat building))"),
        ("the temples which lie no more than 7.5 meters from the building", "(rel (cat temple) within_7.5m (cat building))"),
        ("any temples situated at most 25 metres from the building", "(rel (cat temple) within_25m (cat building))"),
        (
            "the buildings that lie close to the biggest temple found within the residential building",
            "(rel (cat building) near (attr (rel (cat temple) inside (cat house)) area most))",
        ),
        ("all buildings near the temple in the building", "(rel (cat building) near (rel (cat temple) inside (cat building)))"),
        (
            "the building closest to the largest temple near the building",
            "(nearest (cat building) (attr (rel (cat temple) near (cat building)) area most))",
        ),
        ("out of all temples the one closest to the temple", "(nearest (cat temple) (cat temple))"),
        ("All  Temples found A LONG WAY from the temple.", "(rel (cat temple) far (cat temple))"),
    ],
)
def test_a_sentence_has_exactly_its_meaning(sentence, canonical):
    assert [node.canonical() for node in SentenceParser(taxonomy()).parse(sentence)] == [canonical]


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "all building",
        "every buildings",
        "the temple",
        "the temples",
        "the building that is near the temple",
        "all buildings that are near",
        "all buildings that are near the temple..",
        "all residential buildingsthat are near the temple",
        "all buildings to the left of the temple",
        "the largest temple that is near the building",
        "the largest of all temples that are near the building",
        "all buildings that are within metres of the temple",
        "all buildings that are within 25 feet of the temple",
        "all buildings that are at most 25 metres of the temple",
        "the smallest temple",
        "all with a tin roof",
        "all buildings that are near the temple that is far from the temple and is near the temple",
    ],
)
def test_what_is_not_in_the_grammar_has_no_meaning(sentence):
    assert SentenceParser(taxonomy()).parse(sentence) == []


@pytest.mark.parametrize(
    ("words", "relation"),
    [("left of", "west_of"), ("to the left of", "west_of"), ("right of", "east_of"), ("above", "north_of"), ("below", "south_of")],
)
def test_words_of_the_screen_are_read_where_north_is_up_alone(words, relation):
    sentence = f"all buildings that are {words} the temple"

    found = [[n.canonical() for n in SentenceParser(taxonomy(), north_up=north_up).parse(sentence)] for north_up in (True, False)]

    assert found == [[f"(rel (cat building) {relation} (cat temple))"], []]


def test_phrases_of_several_axes_stand_in_their_order_and_mean_one_set():
    axes = Taxonomy(
        {"kind": None, "roof": None, "age": None},
        {
            name: Category(name, axis, None, countable=True, noun=noun, plural=None, phrase=phrase)
            for name, axis, noun, phrase in (
                ("tree", "kind", "tree", None), ("tin", "roof", None, "with tin"), ("new", "age", "youngster", "of this year")
            )
        },
    )  # fmt: skip
    parser = SentenceParser(axes)

    assert [node.meaning() for node in parser.parse("every tree with tin of this year")] == ["(and (cat new) (cat tin) (cat tree))"]
    assert [node.meaning() for node in parser.parse("every tree of this year")] == ["(and (cat new) (cat tree))"]
    assert parser.parse("every tree of this year with tin") == []
    assert parser.parse("every youngster") == []


def test_two_categories_of_one_noun_make_a_sentence_ambiguous():
    twice = taxonomy(("shrine", "kind", "building", "temple", "temples", None))

    assert [node.canonical() for node in SentenceParser(twice).parse("all temples")] == ["(cat shrine)", "(cat temple)"]


@pytest.mark.parametrize(
    ("canonical", "level"),
    [
        ("(cat a)", 1),
        ("(and (cat a) (cat b))", 1),
        ("(attr (cat a) area most)", 2),
        ("(rel (cat a) near (attr (cat b) area most))", 3),
        ("(nearest (cat a) (cat b))", 3),
        ("(and (rel (cat a) near (cat b)) (rel (cat a) north_of (cat c)))", 4),
        ("(and (rel (cat a) near (cat b)) (rel (cat a) far (cat c)))", None),
        ("(and (rel (cat a) near (cat b)) (rel (cat a) within_25m (cat c)))", None),
        ("(and (rel (cat a) northeast_of (cat b)) (rel (cat a) within_25m (cat c)))", 4),
        ("(and (rel (cat a) near (cat b)) (rel (cat d) north_of (cat c)))", None),
        ("(rel (cat a) near (rel (cat b) far (cat c)))", 5),
        ("(rel (cat a) near (nearest (cat b) (cat c)))", 5),
        ("(attr (rel (cat a) near (cat b)) area most)", None),
        ("(nearest (cat c) (attr (rel (cat a) near (cat b)) area most))", 5),
        ("(nearest (cat c) (attr (nearest (cat a) (cat b)) area most))", None),
    ],
)
def test_the_level_is_the_structure(canonical, level):
    assert level_of(parse_canonical(canonical)) == level


@pytest.mark.parametrize(
    ("one", "other", "differences"),
    [
        ("(cat a)", "(cat a)", (0, 0)),
        ("(cat a)", "(cat b)", (0, 1)),
        ("(rel (cat a) north_of (cat b))", "(rel (cat a) south_of (cat b))", (1, 0)),
        ("(rel (cat a) north_of (cat b))", "(rel (cat a) east_of (cat b))", (0, 1)),
        ("(attr (cat a) north most)", "(attr (cat a) north least)", (1, 0)),
        ("(nearest (cat a) (cat b))", "(farthest (cat a) (cat b))", (1, 0)),
        (
            "(and (rel (cat a) north_of (cat b)) (rel (cat a) near (cat c)))",
            "(and (rel (cat a) near (cat c)) (rel (cat a) south_of (cat b)))",
            (1, 0),
        ),
        ("(rel (cat a) near (rel (cat b) far (cat c)))", "(rel (cat a) far (rel (cat b) near (cat c)))", (2, 0)),
        ("(rel (cat a) near (attr (cat b) east most))", "(rel (cat a) near (attr (cat b) east least))", (1, 0)),
        ("(rel (cat a) northeast_of (cat b))", "(rel (cat a) southwest_of (cat b))", (1, 0)),
        ("(rel (cat a) northeast_of (cat b))", "(rel (cat a) northwest_of (cat b))", (0, 1)),
        ("(attr (cat a) area most)", "(attr (cat a) area least)", (0, 1)),
        ("(rel (cat a) near (cat b))", "(nearest (cat a) (cat b))", (0, 1)),
        ("(rel (cat a) near (cat b))", "(attr (cat a) north most)", (0, 1)),
        ("(rel (cat a) within_25m (cat b))", "(rel (cat a) far (cat b))", (0, 1)),
    ],
)
def test_counterfactuals_are_told_by_their_differences(one, other, differences):
    assert count_differences(parse_canonical(one), parse_canonical(other)) == differences


@pytest.mark.parametrize(
    "tree",
    [
        None,
        {"op": "cat"},
        {"op": "cat", "category": "a", "note": "b"},
        {"op": "and", "args": [{"op": "cat", "category": "a"}]},
        {"op": "attr", "of": {"op": "cat", "category": "a"}, "key": "beauty", "extreme": "most"},
    ],
)
def test_what_is_no_program_is_refused(tree):
    with pytest.raises(ProgramError):
        parse_json(tree)


@pytest.mark.parametrize("text", ["", "cat a", "(cat a", "(cat a))", "(cat a b)", "(rel (cat a) near)", "(cat a) (cat b)"])
def test_what_is_no_canonical_form_is_refused(text):
    with pytest.raises(ProgramError):
        parse_canonical(text)


def test_hostile_nesting_is_refused():
    tree = {"op": "cat", "category": "a"}
    for _ in range(10_000):
        tree = {"op": "attr", "of": tree, "key": "area", "extreme": "most"}

    with pytest.raises(ProgramError):
        parse_json(tree)
    with pytest.raises(ProgramError):
        parse_canonical("(and " * 10_000)
