"""How the categories of a taxonomy and those of another data set match: exactly, over the hierarchy, or not at all, in both directions.

Wholes and parts are no match, and catch-all classes are left out, as in OVEarth-Bench's comparison (arXiv 2607.27278, Appendix D).
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from trigpoint.categories import Category, Taxonomy, load_taxonomy
from trigpoint.errors import InputError
from trigpoint.names import key_of, words_of

Match = Literal["exact", "hierarchy", "unmatched"]
MATCHES: tuple[Match, ...] = ("exact", "hierarchy", "unmatched")

_EXACT = ("same", "synonym")
_HIERARCHY = ("broader", "narrower")
_OPPOSITE = {"broader": "narrower", "narrower": "broader"}
_CATCH_ALL = frozenset(
    {"other", "background", "unknown", "misc", "miscellaneous", "clutter", "unlabeled", "unlabelled", "unlabel", "void", "ignore", "none",
     "undefined", "unclassified", "nothing", "class"}
)  # fmt: skip
_COLUMNS = ("category", "name", "class", "label")


class Matched(NamedTuple):
    """One category of one side.

    Attributes:
        name: Its name. match: How it is met on the other side.
        met: The names that meet it there, and what they are to it.
    """

    name: str
    match: Match
    met: tuple[tuple[str, str], ...]


class Overlap(NamedTuple):
    """The comparison of two lists of categories.

    Attributes:
        ours, theirs: Every category of each side. left_out: Catch-all names of either side.
    """

    ours: tuple[Matched, ...]
    theirs: tuple[Matched, ...]
    left_out: tuple[str, ...]

    def counts(self) -> dict[str, dict[Match, int]]:
        """Return how many of each side match how."""
        found = {"ours": Counter(m.match for m in self.ours), "theirs": Counter(m.match for m in self.theirs)}
        return {side: {match: counted[match] for match in MATCHES} for side, counted in found.items()}


def is_catch_all(name: str) -> bool:
    """Whether a name stands for what nothing else names.

    >>> [is_catch_all(name) for name in ("Other", "other-vehicle", "clutter/background", "mother ship", "car")]
    [True, True, True, False, False]
    """
    words = words_of(name)
    return bool(words) and (words[0] == "other" or all(word in _CATCH_ALL for word in words))


def compare(taxonomy: Taxonomy, other: Taxonomy | Iterable[str]) -> Overlap:
    """Match the first axis of a taxonomy with another's, or with a list of names."""
    mine = _first_axis(taxonomy)
    names = [_said(category) for category in _first_axis(other)] if isinstance(other, Taxonomy) else list(other)
    left_out = [name for name in (*map(_said, mine), *names) if is_catch_all(name)]
    mine = [category for category in mine if not is_catch_all(_said(category))]
    names = list({key_of(name): name for name in reversed(names) if not is_catch_all(name)}.values())[::-1]
    met_mine: dict[str, list[tuple[str, str]]] = {category.id: [] for category in mine}
    met_names: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    for name in names:
        for category in mine:
            relation = _relation(taxonomy, category, other, name)
            if relation is not None:
                met_mine[category.id].append((name, relation))
                met_names[name].append((_said(category), _OPPOSITE.get(relation, relation)))
    return Overlap(
        tuple(_matched(_said(category), met_mine[category.id]) for category in mine),
        tuple(_matched(name, met_names[name]) for name in names),
        tuple(left_out),
    )


def _first_axis(taxonomy: Taxonomy) -> list[Category]:
    return [category for category in taxonomy.categories if category.axis == taxonomy.axes[0].id]


def _said(category: Category) -> str:
    return category.noun or category.id


def _relation(taxonomy: Taxonomy, category: Category, other: Taxonomy | Iterable[str], name: str) -> str | None:
    """What a name of the other side is to a category, by what either side says; None where they do not match."""
    found = taxonomy.name_relation(name, category.id)
    said: list[str] = [found]
    if isinstance(other, Taxonomy) and found not in _EXACT:
        for theirs in other.categories_named(name):
            back = other.name_relation(_said(category), theirs)
            said.append(_OPPOSITE.get(back, back))
    return next((relation for relations in (_EXACT, _HIERARCHY) for relation in said if relation in relations), None)


def _matched(name: str, met: list[tuple[str, str]]) -> Matched:
    exact = tuple(pair for pair in met if pair[1] in _EXACT)
    return Matched(name, "exact" if exact else "hierarchy" if met else "unmatched", exact or tuple(met))


def read_other(path: Path) -> Taxonomy | list[str]:
    """Read a taxonomy file, or a list of names: one a line, or the column `category`, `name`, `class` or `label` (else the first) of a CSV.

    Raises:
        InputError: the file holds no name, or numbers instead of names. TaxonomyError: a taxonomy that is inconsistent.
        OSError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no text in UTF-8 ({error}); convert it") from error
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InputError(f"{path}: not valid YAML: {error}") from error
        if isinstance(content, dict):
            return load_taxonomy(path)
        listed = [str(name) for name in content] if isinstance(content, list) else []
    elif path.suffix.lower() in (".csv", ".tsv"):
        rows = [row for row in csv.reader(io.StringIO(text), delimiter="\t" if path.suffix.lower() == ".tsv" else ",") if row]
        head = [cell.strip().casefold() for cell in rows[0]] if rows else []
        column = next((head.index(name) for name in _COLUMNS if name in head), None)
        cells = rows if column is None else rows[1:]
        listed = [row[column or 0] for row in cells if len(row) > (column or 0)]
        number = next((name for name in listed if name.strip().isdecimal()), None)
        if number is not None:
            raise InputError(
                f"{path}: has the category {number!r}; name the column that holds the names {' or '.join(map(repr, _COLUMNS))}"
            )
    else:
        listed = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    names = list(dict.fromkeys(name.strip().replace("_", " ") for name in listed if name.strip()))
    if not names:
        raise InputError(f"{path}: holds no category names; expected a taxonomy, one name a line, or a CSV with a column `category`")
    return names
