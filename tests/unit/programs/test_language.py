import pytest
from hypothesis import given
from hypothesis import strategies as st

from trigpoint.errors import ProgramError
from trigpoint.programs.language import (
    And,
    Attr,
    Cat,
    Farthest,
    Nearest,
    Node,
    Rel,
    from_json,
    level_of,
    parse,
    query_id,
    relations_of,
    to_json,
)

CATEGORIES = st.sampled_from(["building", "school", "road"]).map(Cat)
RELATIONS = st.sampled_from(["north_of", "near", "inside"])
PROGRAMS: st.SearchStrategy[Node] = st.recursive(
    CATEGORIES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: And((a, b)), inner, inner),
        st.builds(Rel, inner, RELATIONS, inner),
        st.builds(lambda of, key: Attr(of, key, "most"), inner, st.sampled_from(["area", "north"])),
        st.builds(Nearest, inner, inner),
        st.builds(Farthest, inner, inner),
    ),
    max_leaves=6,
)


@given(PROGRAMS)
def test_canonical_form_and_json_give_the_program_back(node: Node) -> None:
    assert parse(node.canonical()).canonical() == node.canonical()
    assert from_json(to_json(node)).canonical() == node.canonical()


def test_order_of_and_does_not_change_identity() -> None:
    a, b = Rel(Cat("building"), "near", Cat("road")), Rel(Cat("building"), "north_of", Cat("school"))

    assert query_id("s", And((a, b))) == query_id("s", And((b, a)))
    assert query_id("s", a) != query_id("t", a)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("(cat school)", 1),
        ("(and (cat building) (cat tin_roof))", 1),
        ("(attr (cat school) area most)", 2),
        ("(rel (cat school) north_of (cat road))", 3),
        ("(nearest (cat school) (attr (cat building) area most))", 3),
        ("(and (rel (cat school) near (cat road)) (rel (cat school) north_of (cat temple)))", 4),
        ("(rel (cat school) near (nearest (cat building) (cat road)))", 5),
    ],
)
def test_level_counts_relations(text: str, level: int) -> None:
    assert level_of(parse(text)) == level


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(cat school", r"a '\)' is missing"),
        ("(cat school) (cat road)", "follows its end"),
        ("(rel (cat school) beside (cat road))", "relation 'beside'"),
        ("(attr (cat school) area least)", "least for positions alone"),
        ("(cat)", "0 arguments"),
        ("school", "expected '\\('"),
    ],
)
def test_malformed_programs_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse(text)


def test_json_with_an_extra_field_is_refused() -> None:
    with pytest.raises(ProgramError, match="extra"):
        from_json({"op": "cat", "category": "school", "extra": 1})


@pytest.mark.parametrize(
    "value",
    [
        {"op": ["cat"]},
        {"op": "and", "args": 5},
        {"op": "cat", "category": {"op": "cat"}},
        {"op": "rel", "of": 1, "relation": [], "anchor": 2},
        7,
    ],
)
def test_json_of_the_wrong_shape_is_a_program_error(value: object) -> None:
    with pytest.raises(ProgramError):
        from_json(value)


def test_a_set_in_the_place_of_a_name_is_refused() -> None:
    with pytest.raises(ProgramError, match="expected a name"):
        parse("(cat (cat pond))")


def test_relations_are_listed_outermost_first() -> None:
    assert list(relations_of(parse("(rel (cat a) near (nearest (cat b) (cat c)))"))) == ["near", "nearest"]
