"""Taxonomies: categories as trees on axes, how they are found and called, and three-valued membership.

Nothing in code names a category; a maintainer brings another file in the same form. Not here: reading OSM files (storage),
comparing words (`trigpoint.names`).
"""

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field, StringConstraints, ValidationError, model_validator

from trigpoint.documents import read_yaml, told_all
from trigpoint.errors import TaxonomyError
from trigpoint.names import NameIndex, NameRelation, NamesOf, contains_name, key_of, spelling_of
from trigpoint.records.base import Record

FALSE, TRUE, UNDECIDED = 0, 1, 2
"""The three verdicts as small integers, in arrays and matrices alike."""


class TagExpression(NamedTuple):
    """A conjunction of tag tests: `building & amenity=school|college & !demolished`.

    Attributes:
        terms: (key, values, is_negated); empty values test presence alone.
    """

    terms: tuple[tuple[str, frozenset[str], bool], ...]

    def matches(self, tags: dict[str, str]) -> bool:
        """Whether a feature's tags satisfy every term; a value such as `soccer;tennis` is each of its parts.

        Source: OpenStreetMap wiki, "Semi-colon value separator".
        """
        return all(
            ((key in tags) if not values else not values.isdisjoint(_parts(tags.get(key, "")))) is not is_negated
            for key, values, is_negated in self.terms
        )


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(";")]


def parse_tag_expression(text: str) -> TagExpression:
    """Parse a conjunction of tag tests.

    Raises:
        TaxonomyError: a term has no key.

    >>> parse_tag_expression("building & amenity=school|college").matches({"building": "yes", "amenity": "college"})
    True
    >>> parse_tag_expression("building!=no").matches({"building": "no"})
    False
    >>> parse_tag_expression("sport=tennis").matches({"sport": "soccer; tennis"})
    True
    """
    terms: list[tuple[str, frozenset[str], bool]] = []
    for part in text.split("&"):
        term = part.strip()
        is_negated = False
        if term.startswith("!"):
            term, is_negated = term[1:].strip(), True
        if "!=" in term:
            key, _, values = term.partition("!=")
            is_negated = not is_negated
        else:
            key, _, values = term.partition("=")
        if not key.strip():
            raise TaxonomyError(f"tag expression {text!r}: term {part!r} has no key; expected key, !key, key=a|b or key!=a, joined by &")
        terms.append((key.strip(), frozenset(v.strip() for v in values.split("|") if v.strip()), is_negated))
    return TagExpression(tuple(terms))


class Axis(Record):
    """One question about a thing (what it is, what its roof is made of).

    Attributes:
        id: Name.
        of: Category of another axis whose members alone are described; None for all things.
    """

    id: str
    of: str | None = None


Basis = Literal["paper", "observed", "unreviewed"]
"""Where a value comes from: the paper that is named, counted in an extract, or our own knowledge that nobody has checked."""

BASES: tuple[Basis, ...] = get_args(Basis)

ExtendedField = Literal[
    "vocabulary",
    "negatives",
    "osm",
    "coarsest_gsd_m",
    "typical_size_m",
    "synonyms",
    "broader",
    "narrower",
    "look_alikes",
    "functions",
    "parts",
]
"""What a category may say beyond its place in the tree and its name."""

EXTENDED_FIELDS: tuple[ExtendedField, ...] = get_args(ExtendedField)

_MARKUP = r"_<>{}\[\]$`*|\\^~\p{C}"

Phrase = Annotated[str, StringConstraints(pattern=rf"^[^\s{_MARKUP}]([^\n{_MARKUP}]*[^\s{_MARKUP}])?$", max_length=120)]
"""A name or description in words: nothing around it, and nothing that a page, plot or prompt could take for more than words."""


class Category(Record):
    """One category of a tree.

    Attributes:
        id: Name. axis: Its axis. parent: The broader category on the same axis.
        countable: Discrete instances, else regions. instanceable: Gets boxes.
        noun, plural: How a sentence names it (first axes). phrase: How a further axis follows a noun.
        osm: Tag expressions, any of which finds it.
        domain, path: Where a published list has it; the steps need not be categories.
        vocabulary, negatives: Phrases for it, and for what is taken for it, as published.
        coarsest_gsd_m: Largest true pixel at which it can still be told. typical_size_m: Least and most of its longer side.
        synonyms: Other words for the same. broader, narrower: What it is a kind of beyond its parent; kinds of it.
        look_alikes: What it may be taken for and is not. parts: What belongs to it or comes with it, such as its shadow.
        functions: What it is for or looks like, without naming it.
        basis: Where the value of a field comes from, where that differs from the taxonomy's.
        note: What is doubtful.
    """

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    axis: str
    parent: str | None = None
    countable: bool = True
    instanceable: bool = True
    noun: Phrase | None = None
    plural: Phrase | None = None
    phrase: Phrase | None = None
    osm: tuple[str, ...] = ()
    domain: str | None = None
    path: tuple[str, ...] = ()
    vocabulary: tuple[Phrase, ...] = ()
    negatives: tuple[Phrase, ...] = ()
    coarsest_gsd_m: float | None = Field(default=None, gt=0)
    typical_size_m: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] | None = None
    synonyms: tuple[Phrase, ...] = ()
    broader: tuple[Phrase, ...] = ()
    narrower: tuple[Phrase, ...] = ()
    look_alikes: tuple[Phrase, ...] = ()
    functions: tuple[Phrase, ...] = ()
    parts: tuple[Phrase, ...] = ()
    basis: dict[ExtendedField, Basis] = {}
    note: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Its noun, plural and id as words."""
        return tuple(dict.fromkeys(text for text in (self.noun, self.plural, self.id.replace("_", " ")) if text))

    @property
    def other_names(self) -> tuple[str, ...]:
        """Its synonyms, and what of its published vocabulary is not said to be broader, narrower or a part."""
        loose = {key_of(text) for text in (*self.broader, *self.narrower, *self.parts)}
        return tuple(dict.fromkeys((*self.synonyms, *(text for text in self.vocabulary if key_of(text) not in loose))))

    @model_validator(mode="after")
    def _check(self) -> "Category":
        lists = ("vocabulary", "negatives", "synonyms", "broader", "narrower", "look_alikes", "functions", "parts")
        for name in lists:
            said: list[str] = [spelling_of(text) for text in getattr(self, name)]
            twice = sorted({text for text in said if said.count(text) > 1})
            if twice:
                raise ValueError(f"category {self.id!r}: {name} has {', '.join(map(repr, twice))} more than once, whatever the spelling")
        if self.typical_size_m is not None and self.typical_size_m[0] > self.typical_size_m[1]:
            raise ValueError(f"category {self.id!r}: typical_size_m is {list(self.typical_size_m)}, expected the smaller first")
        for text in self.functions:
            named = next((name for name in (*self.names, *self.synonyms, *self.vocabulary) if contains_name(text, name)), None)
            if named is not None:
                raise ValueError(
                    f"category {self.id!r}: function {text!r} contains its name {named!r}; say what it is for without naming it"
                )
        _refuse_two_roles(self)
        return self


def _refuse_two_roles(category: Category) -> None:
    """Raise ValueError when a phrase of a category is listed as two things that exclude each other."""
    roles: dict[str, str] = {}
    for role, phrases in (
        ("name", category.names),
        ("synonym", category.synonyms),
        ("broader", category.broader),
        ("narrower", category.narrower),
        ("part", category.parts),
        ("look-alike", category.look_alikes),
    ):
        for text in phrases:
            earlier = roles.setdefault(key_of(text), role)
            if earlier != role:
                raise ValueError(f"category {category.id!r}: {text!r} is listed as {earlier} and as {role}, expected one of them")


class Taxonomy(Record):
    """A taxonomy file: axes, categories, and the table that cleans dirty tag values.

    Attributes:
        source: Whom the categories are taken from.
        basis: Where the values of a field come from, unless a category says otherwise; unreviewed where nothing does.
    """

    name: str
    version: int
    source: str = ""
    basis: dict[ExtendedField, Basis] = {}
    axes: tuple[Axis, ...]
    categories: tuple[Category, ...]
    cleaning: dict[str, dict[str, str]] = {}

    @model_validator(mode="after")
    def _check(self) -> "Taxonomy":
        known = {category.id: category for category in self.categories}
        axes = {axis.id for axis in self.axes}
        said = [text for category in self.categories for text in (category.noun, category.plural, category.phrase) if text]
        repeated = sorted({text for text in said if said.count(text) > 1 and not self._is_own_plural(text)})
        if repeated:
            raise ValueError(f"{', '.join(map(repr, repeated))} names more than one category: a sentence could not be told apart")
        if len(known) != len(self.categories):
            raise ValueError("a category id appears twice")
        for category in self.categories:
            if category.axis not in axes:
                raise ValueError(f"category {category.id!r}: axis {category.axis!r} is not one of {sorted(axes)}")
            if category.parent is not None and (category.parent not in known or known[category.parent].axis != category.axis):
                raise ValueError(f"category {category.id!r}: parent {category.parent!r} is not a category of axis {category.axis!r}")
            is_first = category.axis == self.axes[0].id
            if is_first and not (category.noun and category.plural):
                raise ValueError(f"category {category.id!r}: noun and plural are needed on the first axis")
            if not is_first and not category.phrase:
                raise ValueError(f"category {category.id!r}: a phrase such as 'with a tin roof' is needed on axis {category.axis!r}")
            for text in category.osm:
                parse_tag_expression(text)
            seen, up = {category.id}, category.parent
            while up is not None:
                if up in seen:
                    raise ValueError(f"category {category.id!r}: its parents form a circle")
                seen.add(up)
                up = known[up].parent
        for axis in self.axes:
            if axis.of is not None and axis.of not in known:
                raise ValueError(f"axis {axis.id!r}: of {axis.of!r} is not a category")
        self._check_look_alikes()
        return self

    def _check_look_alikes(self) -> None:
        """Raise ValueError for a look-alike that other categories make a name, a kind or a part of its category."""
        for category in self.categories:
            for text in category.look_alikes:
                relation = self.name_relation(text, category.id)
                if relation != "look_alike":
                    raise ValueError(f"category {category.id!r}: look-alike {text!r} is also {relation} by the lists of the taxonomy")

    def _is_own_plural(self, text: str) -> bool:
        """Whether a word is the noun and plural of one category alone (sheep)."""
        users = [c for c in self.categories if text in (c.noun, c.plural, c.phrase)]
        return len(users) == 1

    @cached_property
    def by_id(self) -> dict[str, Category]:
        """Category by its id."""
        return {category.id: category for category in self.categories}

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(
            {
                category.id: NamesOf(
                    own=category.names,
                    synonyms=category.other_names,
                    broader=category.broader,
                    narrower=category.narrower,
                    parts=category.parts,
                    look_alikes=category.look_alikes,
                    negatives=category.negatives,
                    parent=category.parent,
                )
                for category in self.categories
            }
        )

    def categories_named(self, phrase: str) -> tuple[str, ...]:
        """Return the ids of all categories that a phrase names or is a synonym of, in file order."""
        return self._index.categories_named(phrase)

    def name_relation(self, phrase: str, category_id: str) -> NameRelation:
        """Return what a phrase is to a category; case, number, articles and hyphens make no difference.

        Looked at in this order: names, synonyms, kinds, parts, look-alikes, grammar (`old fishing boat` is a kind of boat),
        published negatives: one that is also a name or a kind counts as that.

        Raises:
            TaxonomyError: there is no such category.
        """
        return self._index.relation(phrase, self.get(category_id).id)

    def basis_of(self, category_id: str, field: ExtendedField) -> Basis:
        """Return where a category's value of a field comes from; what does not say so is unreviewed."""
        return self.get(category_id).basis.get(field, self.basis.get(field, "unreviewed"))

    def filled_by_basis(self) -> dict[ExtendedField, Counter[Basis]]:
        """Return for every field how many categories fill it, by basis."""
        return {
            field: Counter(self.basis_of(category.id, field) for category in self.categories if getattr(category, field))
            for field in EXTENDED_FIELDS
        }

    @cached_property
    def _tests(self) -> dict[str | None, list[tuple[int, TagExpression]]]:
        """Tests with the place of their category, by a key without which they cannot match; under None those that need no key."""
        found: dict[str | None, list[tuple[int, TagExpression]]] = {}
        for place, category in enumerate(self.categories):
            for test in map(parse_tag_expression, category.osm):
                key = next((key for key, _, is_negated in test.terms if not is_negated), None)
                found.setdefault(key, []).append((place, test))
        return found

    def get(self, category_id: str) -> Category:
        """Return a category.

        Raises:
            TaxonomyError: there is none of that id; the nearest names are listed.
        """
        if category_id not in self.by_id:
            import difflib

            near = difflib.get_close_matches(category_id, list(self.by_id), n=3) or sorted(self.by_id)[:8]
            raise TaxonomyError(f"category {category_id!r} is not in taxonomy {self.name!r}; nearest: {', '.join(near)}")
        return self.by_id[category_id]

    def ancestors(self, category_id: str) -> list[str]:
        """Return the category and everything broader, nearest first."""
        chain: list[str] = []
        up: str | None = category_id
        while up is not None:
            chain.append(up)
            up = self.get(up).parent
        return chain

    def is_within(self, category_id: str, broader_id: str) -> bool:
        """Whether a category is `broader_id` or lies below it."""
        return broader_id in self.ancestors(category_id)

    def clean_tags(self, tags: dict[str, str]) -> dict[str, str]:
        """Return tags with the values of the cleaning table replaced; everything else as found."""
        return {key: self.cleaning.get(key, {}).get(value, value) for key, value in tags.items()}

    def match_tags(self, tags: dict[str, str]) -> tuple[str, ...]:
        """Return every category whose tag expressions match cleaned tags, in file order."""
        cleaned = self.clean_tags(tags)
        places = {place for key in (None, *cleaned) for place, test in self._tests.get(key, ()) if test.matches(cleaned)}
        return tuple(self.categories[place].id for place in sorted(places))

    def values_from_tags(self, tags: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return one category per axis (the narrowest that matches), and the axes left unknown because two disagree.

        A feature that matches no category of the first axis has no value at all.
        """
        matched = self.match_tags(tags)
        values: list[str] = []
        torn: list[str] = []
        for axis in self.axes:
            found = [c for c in matched if self.by_id[c].axis == axis.id]
            narrowest = [c for c in found if not any(other != c and self.is_within(other, c) for other in found)]
            if len(narrowest) == 1:
                values.append(narrowest[0])
            elif narrowest:
                torn.append(axis.id)
                common = [c for c in self.ancestors(narrowest[0]) if all(self.is_within(n, c) for n in narrowest)]
                values.extend(common[:1])
        if not any(self.by_id[value].axis == self.axes[0].id for value in values):
            return (), tuple(torn)
        return tuple(values), tuple(torn)

    def one_per_axis(self, category_ids: list[str]) -> tuple[str, ...]:
        """Return the values of one thing in the order of the axes.

        Raises:
            TaxonomyError: an unknown category, two values on one axis, none on the first, or an axis that does not describe it.
        """
        by_axis: dict[str, str] = {}
        for name in category_ids:
            axis = self.get(name).axis
            if by_axis.setdefault(axis, name) != name:
                raise TaxonomyError(f"{by_axis[axis]!r} and {name!r} are both values of axis {axis!r}, expected one at most")
        first = self.axes[0].id
        if first not in by_axis:
            raise TaxonomyError(f"{category_ids!r} has no value on axis {first!r}, so nothing says what it is")
        for axis in self.axes:
            if (
                axis.id in by_axis
                and axis.of is not None
                and not any(self.is_within(v, axis.of) for v in by_axis.values() if v != by_axis[axis.id])
            ):
                raise TaxonomyError(f"{by_axis[axis.id]!r} describes {axis.of!r} alone, and this is {by_axis[first]!r}")
        return tuple(by_axis[axis.id] for axis in self.axes if axis.id in by_axis)

    def membership(self, values: tuple[str, ...] | list[str], category_id: str, unknown_is_other: frozenset[str]) -> int:
        """Say whether a thing with these values (one per axis) is a member of a category: TRUE, FALSE or UNDECIDED.

        No value on the axis, or only a broader one, is UNDECIDED unless the axis is in `unknown_is_other`; an axis that
        describes only things under another category (`of`) is FALSE for all others.
        """
        category = self.get(category_id)
        axis = next(axis for axis in self.axes if axis.id == category.axis)
        if axis.of is not None:
            described = self.membership(values, axis.of, unknown_is_other)
            if described != TRUE:
                return described
        value = next((v for v in values if self.get(v).axis == axis.id), None)
        if value is not None and self.is_within(value, category_id):
            return TRUE
        is_open = value is None or self.is_within(category_id, value)
        return UNDECIDED if is_open and axis.id not in unknown_is_other else FALSE

    def plural_noun(self, category_ids: tuple[str, ...]) -> str:
        """Name several members: the first axis' plural, then the phrases of the other axes."""
        return self._named(category_ids, "plural")

    def singular_noun(self, category_ids: tuple[str, ...]) -> str:
        """Name one member."""
        return self._named(category_ids, "noun")

    def _named(self, category_ids: tuple[str, ...], form: Literal["noun", "plural"]) -> str:
        categories = sorted((self.get(c) for c in category_ids), key=lambda c: [a.id for a in self.axes].index(c.axis))
        head = getattr(categories[0], form)
        if head is None:
            raise TaxonomyError(f"categories {category_ids!r}: none of the first axis, so there is no noun")
        return " ".join([head, *(c.phrase or c.id for c in categories[1:])])


def load_taxonomy(path: Path) -> Taxonomy:
    """Read and check a taxonomy file.

    Raises:
        TaxonomyError: the file is missing, no YAML, or inconsistent; says where.
    """
    data = read_yaml(path, "taxonomy", TaxonomyError, "check the path")
    try:
        return Taxonomy.model_validate(data)
    except ValidationError as error:
        raise TaxonomyError(f"taxonomy {path}: {told_all(error)}") from error
