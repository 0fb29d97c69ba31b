"""Every program has three sentences, and each means exactly it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.programs._town import TAXONOMY
from trigpoint.categories import Taxonomy
from trigpoint.errors import ProgramError
from trigpoint.language.grammar import RELATIONS, SUPERLATIVES
from trigpoint.language.parser import SentenceParser, accept_paraphrase
from trigpoint.language.sentences import sentences
from trigpoint.programs.language import Attr, Cat, Farthest, Nearest, Node, Rel, conjunction, parse

PARSER = SentenceParser(TAXONOMY)

SELECTED = st.sampled_from([Cat("building"), Cat("school"), conjunction((Cat("building"), Cat("tin_roof"))), Cat("temple")])
NAMED = st.sampled_from([Cat("road"), Cat("school"), conjunction((Cat("school"), Cat("tile_roof")))])
RELATION_NAMES = st.sampled_from([*RELATIONS, "within_25m", "within_100m"])
SUPERLATIVE = st.builds(lambda of, how: Attr(of, *how), SELECTED, st.sampled_from(list(SUPERLATIVES)))
DIRECT = NAMED | SUPERLATIVE
ONE_HOP = st.one_of(
    st.builds(Rel, SELECTED, RELATION_NAMES, DIRECT), st.builds(Nearest, SELECTED, DIRECT), st.builds(Farthest, SELECTED, DIRECT)
)
BEST_OF_HOP = st.builds(
    lambda of, name, anchor, how: Attr(Rel(of, name, anchor), *how), SELECTED, RELATION_NAMES, DIRECT, st.sampled_from(list(SUPERLATIVES))
)
FAR_ANCHOR = ONE_HOP | BEST_OF_HOP
TWO_HOPS = st.one_of(
    st.builds(Rel, SELECTED, RELATION_NAMES, FAR_ANCHOR),
    st.builds(Nearest, SELECTED, FAR_ANCHOR),
    st.builds(Farthest, SELECTED, FAR_ANCHOR),
)


@st.composite
def pairs(draw: st.DrawFn) -> Node:
    of = draw(SELECTED)
    names = draw(st.lists(RELATION_NAMES, min_size=2, max_size=2, unique=True))
    return conjunction(tuple(Rel(of, name, draw(DIRECT)) for name in names))


@given(st.one_of(SELECTED, SUPERLATIVE, ONE_HOP, TWO_HOPS, pairs()))
def test_three_different_sentences_each_mean_exactly_their_program(node: Node) -> None:
    said = sentences(node, TAXONOMY)

    assert len(set(said)) == 3
    for text in said:
        assert [found.canonical() for found in PARSER.readings(text)] == [node.canonical()], text


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            "(and (cat building) (cat tin_roof))",
            ("all buildings with a tin roof", "all of the buildings with a tin roof", "every building with a tin roof"),
        ),
        (
            "(attr (cat building) north least)",
            ("the southernmost building", "the building that lies farthest south", "the southernmost of all buildings"),
        ),
        (
            "(rel (cat building) north_of (attr (cat school) area most))",
            (
                "all buildings that are north of the largest school",
                "the buildings that lie to the north of the school that has the largest area",
                "any buildings located north of the biggest school",
            ),
        ),
        (
            "(and (rel (cat building) near (cat road)) (rel (cat building) west_of (cat school)))",
            (
                "all buildings that are near the road and are west of the school",
                "the buildings that lie close to the road and lie to the west of the school",
                "any buildings located in the vicinity of the road and also west of the school",
            ),
        ),
        (
            "(nearest (cat building) (rel (cat school) inside (cat road)))",
            (
                "the building closest to the school that is inside the road",
                "the building that is nearest to the school that lies within the road",
                "out of all buildings, the one closest to the school located in the road",
            ),
        ),
        (
            "(rel (cat building) near (attr (rel (cat temple) east_of (cat road)) area most))",
            (
                "all buildings that are near the largest temple that is east of the road",
                "the buildings that lie close to the largest temple that lies to the east of the road",
                "any buildings located in the vicinity of the biggest temple located east of the road",
            ),
        ),
        (
            "(rel (cat building) within_25m (farthest (cat school) (cat road)))",
            (
                "all buildings that are within 25 metres of the school farthest from the road",
                "the buildings that lie no more than 25 metres from the school most distant from the road",
                "any buildings located at most 25 metres from the school farthest from the road",
            ),
        ),
    ],
)
def test_sentences_read_as_people_write(program: str, expected: tuple[str, ...]) -> None:
    assert sentences(parse(program), TAXONOMY) == expected


@pytest.mark.parametrize(
    "text",
    [
        "All buildings found near the biggest school, and also to the east of the road.",
        "the buildings situated  close to the school that has the largest area and lie east of the road",
        "any buildings which are in the vicinity of the largest school and are to the east of the road",
        "all buildings near the largest school and also east of the road",
    ],
)
def test_paraphrases_from_elsewhere_are_taken_when_they_mean_the_same(text: str) -> None:
    program = parse("(and (rel (cat building) near (attr (cat school) area most)) (rel (cat building) east_of (cat road)))")

    assert accept_paraphrase(text, program, PARSER) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("all buildings that are south of the road", "means (rel (cat building) south_of (cat road))"),
        ("the building that is north of the road", "is not a sentence of the grammar"),  # a singular gives the number away
        ("all buildings that are north of roads", "is not a sentence of the grammar"),
        ("all houses that are north of the road", "is not a sentence of the grammar"),
        ("", "is not a sentence of the grammar"),
        ("all buildings that are within 025 metres of the road", "is not a sentence of the grammar"),
    ],
)
def test_paraphrases_that_mean_something_else_are_refused_with_the_reason(text: str, why: str) -> None:
    reason = accept_paraphrase(text, parse("(rel (cat building) north_of (cat road))"), PARSER)

    assert reason is not None
    assert why in reason


def test_a_relation_without_words_is_refused_by_name() -> None:
    with pytest.raises(ProgramError, match="contains"):
        sentences(parse("(rel (cat building) contains (cat road))"), TAXONOMY)


def test_two_readings_are_an_error_that_lists_both() -> None:
    renamed = tuple(c.model_copy(update={"noun": "hall"}) if c.id in ("school", "temple") else c for c in TAXONOMY.categories)
    twins = Taxonomy.model_construct(name="twins", version=1, axes=TAXONOMY.axes, categories=renamed)

    with pytest.raises(ProgramError, match=r"school.* or .*temple"):
        SentenceParser(twins).parse("the hall closest to the road")
