"""The wording of query programs, grammar version 2, as data: docs/grammar.md in Python. Not here: building or reading sentences."""

from trigpoint.errors import ProgramError
from trigpoint.programs.language import Extreme, Key
from trigpoint.rules import within_limit_m

GRAMMAR_VERSION = 2

STYLES = (0, 1, 2)
"""The three ways in which every program is said."""

Wordings = tuple[str, str, str]

RELATIONS: dict[str, Wordings] = {
    **{
        f"{wind}_of": (f"{wind} of", f"to the {wind} of", f"{wind} of")
        for wind in ("north", "east", "south", "west", "northeast", "southeast", "southwest", "northwest")
    },
    "near": ("near", "close to", "in the vicinity of"),
    "far": ("far from", "far away from", "a long way from"),
    "inside": ("inside", "within", "in"),
    "outside": ("outside", "outside of", "outside"),
    "overlaps": ("partly inside", "partly within", "partly in"),
    "touches": ("in contact with", "in contact with", "in contact with"),
}
"""How a relation is said, by style. `contains` has regions as subjects and is not asked for."""

SCREEN_WORDS = {
    "left of": "west_of",
    "to the left of": "west_of",
    "right of": "east_of",
    "to the right of": "east_of",
    "above": "north_of",
    "below": "south_of",
}
"""Words of the screen; read, never written, and only of images that are north-up."""

WITHIN: Wordings = ("within {d} metres of", "no more than {d} metres from", "at most {d} metres from")
"""How `within_<d>m` is said."""

SUPERLATIVES: dict[tuple[Key, Extreme], Wordings] = {
    ("area", "most"): ("largest", "has the largest area", "biggest"),
    ("length", "most"): ("longest", "has the greatest length", "longest"),
    ("north", "most"): ("northernmost", "lies farthest north", "most northerly"),
    ("north", "least"): ("southernmost", "lies farthest south", "most southerly"),
    ("east", "most"): ("easternmost", "lies farthest east", "most easterly"),
    ("east", "least"): ("westernmost", "lies farthest west", "most westerly"),
}
"""Before the noun (styles 1 and 3), and after "that" (style 2)."""

NEAREST: Wordings = ("closest to", "nearest to", "closest to")
FARTHEST: Wordings = ("farthest from", "most distant from", "farthest from")

FRAMES_ONE: Wordings = ("that is", "that lies", "located")
"""Between a singular noun and a relation."""

FRAMES_ALL: Wordings = ("that are", "that lie", "located")
"""Between a plural noun and a relation."""

OPENERS: Wordings = ("all", "the", "any")
"""Before a plural noun that a relation selects from."""

JOINS: Wordings = ("and are", "and lie", "and also")
"""Between two relations of one set."""


def relation_wordings(relation: str) -> Wordings:
    """Return how a relation is said, by style.

    Raises:
        ProgramError: the grammar has no words for it.

    >>> relation_wordings("within_25m")[0]
    'within 25 metres of'
    """
    limit_m = within_limit_m(relation)
    if limit_m is not None:
        first, second, third = (wording.format(d=limit_m) for wording in WITHIN)
        return first, second, third
    if relation not in RELATIONS:
        raise ProgramError(f"relation {relation!r} has no words; the grammar knows {sorted(RELATIONS)} and within_<d>m")
    return RELATIONS[relation]
