import pytest

from tests.unit.programs._town import TAXONOMY
from trigpoint.errors import ProgramError
from trigpoint.language.sentences import sentence
from trigpoint.programs.language import parse


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("(cat school)", "all schools"),
        ("(and (cat tin_roof) (cat building))", "all buildings with a tin roof"),
        ("(attr (cat school) north least)", "the southernmost school"),
        ("(rel (cat school) north_of (cat road))", "all schools that are north of the road"),
        (
            "(rel (and (cat building) (cat tin_roof)) far (attr (cat temple) area most))",
            "all buildings with a tin roof that are far from the largest temple",
        ),
        ("(nearest (cat school) (cat road))", "the school closest to the road"),
        (
            "(and (rel (cat school) near (cat road)) (rel (cat school) east_of (cat temple)))",
            "all schools that are east of the temple and are near the road",
        ),
        ("(rel (cat school) near (nearest (cat building) (cat road)))", "all schools that are near the building closest to the road"),
        ("(farthest (cat school) (rel (cat temple) inside (cat road)))", "the school farthest from the temple that is inside the road"),
    ],
)
def test_programs_are_said_in_english(program: str, text: str) -> None:
    # the arguments of an `and` come in canonical order: "(rel … east_of" before "(rel … near"
    assert sentence(parse(program), TAXONOMY) == text


def test_relations_without_words_are_refused() -> None:
    with pytest.raises(ProgramError, match="no words"):
        sentence(parse("(rel (cat road) contains (cat temple))"), TAXONOMY)
