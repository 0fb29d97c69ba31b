"""Case Q05: a phrase is kept only if it says what its program means; words of the screen hold only on north-up images.

open-mmlab/mmdetection#11594, SPRIGHT-T2I/SPRIGHT#7.
"""

import pytest

from trigpoint.categories import Taxonomy
from trigpoint.language.parser import SentenceParser
from trigpoint.programs.language import Cat, Rel

NORTH_UP_WITHIN_DEG = 5

TAXONOMY = Taxonomy.model_validate(
    {
        "name": "lakes",
        "version": 1,
        "axes": [{"id": "kind"}],
        "categories": [
            {"id": "building", "axis": "kind", "noun": "building", "plural": "buildings"},
            {"id": "lake", "axis": "kind", "countable": False, "instanceable": False, "noun": "lake", "plural": "lakes"},
        ],
    }
)


@pytest.mark.parametrize(
    ("phrase", "relation", "image_up_deg", "is_kept"),
    [
        ("the building north of the lake", "north_of", 0, True),
        ("the building south of the lake", "north_of", 0, False),
        ("the building left of the lake", "west_of", 0, True),
        ("the building left of the lake", "west_of", 180, False),
        ("the building above the lake", "north_of", 0, True),
        ("the building above the lake", "north_of", 90, False),
        ("the lake north of the building", "north_of", 0, False),  # roles swapped
        ("the building to the northwest of the lake", "northwest_of", 0, True),
        ("the building near the lake", "north_of", 0, False),  # direction lost
        ("the building not north of the lake", "north_of", 0, False),  # negated
        ("the building right of the lake", "east_of", 3, True),
        ("the building below the lake", "south_of", 357, True),
    ],
)
def test_a_phrase_is_kept_only_when_it_means_its_program(phrase: str, relation: str, image_up_deg: int, is_kept: bool) -> None:
    is_north_up = min(image_up_deg, 360 - image_up_deg) <= NORTH_UP_WITHIN_DEG
    program = Rel(Cat("building"), relation, Cat("lake"))

    assert (SentenceParser(TAXONOMY, is_north_up).descriptions(phrase) == [program]) is is_kept
