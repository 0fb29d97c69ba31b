"""Language without a language model: names from the taxonomy, places from the graph, purposes from functions, negatives from look-alikes.

The default where no key is given. It writes only what the grounded check supports, and is labelled `offline` in every record. Which of
several wordings is used is drawn from the annotation's id.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trigpoint.categories import Category
from trigpoint.identity import digest_json
from trigpoint.language.grounding import GroundedCheck
from trigpoint.language.referring import WEAK, referring_candidates
from trigpoint.names import key_of, plural_of
from trigpoint.records.language import LanguageForm

NAME = "offline"
"""What records say wrote the sentence."""

PHRASES, NEGATIVES = 2, 5
"""Sentences per form, and negatives, at most: as many as the two-stage generation asks for."""

_NO_VERB_BEFORE = ("that", "which", "for", "of", "to", "where", "or")
"""Words after which the first word in -s is a plural: "rows of …", "rings or squares …"."""


class Written(NamedTuple):
    """A sentence, and what it is asked as."""

    form: LanguageForm
    polarity: str
    text: str


def write_offline(check: GroundedCheck) -> list[Written]:
    """Write the sentences of one target, fewer than asked for where the scene has no more to say."""
    taxonomy, target = check.scene.taxonomy, check.target
    category = taxonomy.get(target.category[0])
    is_one = len(target.instance_ids) == 1
    written = [Written("vocabulary", "positive", name) for name in _supported(check, _names(category, target.name, is_one))]
    written += [Written("referring", "positive", text) for text in _referring(check)]
    purposes = [purpose(text, is_one, draw=_drawn(target.annotation_id, text)) for text in category.functions]
    reasoning = [text for text in purposes if check.check("reasoning", text).verdict == "supported"]
    written += [Written("reasoning", "positive", text) for text in reasoning[:PHRASES]]
    candidates = dict.fromkeys(_look_alikes(check, category))
    absent = [text for text in candidates if check.check_negative(text).verdict == "supported"]
    return written + [Written("vocabulary", "negative", text) for text in absent[:NEGATIVES]]


def _drawn(*values: str) -> int:
    return int(digest_json(list(values))[:8], 16)


def _names(category: Category, name: str, is_one: bool) -> Iterator[str]:
    """The category's name, then other words for it in an order of their own for every category, in the number of the target."""
    own = (category.noun if is_one else category.plural) or name
    names = {key_of(text): text if is_one else plural_of(text) for text in reversed(category.other_names)}
    names.pop(key_of(own), None)
    yield own
    yield from reversed(names.values())


def _supported(check: GroundedCheck, names: Iterable[str]) -> list[str]:
    return [name for name in names if check.check("vocabulary", name).verdict == "supported"][:PHRASES]


def _referring(check: GroundedCheck) -> list[str]:
    """The best referring expressions that hold: of different kinds where there are, and one at most that says little."""
    kept: dict[str, str] = {}
    spare: list[str] = []
    has_weak = False
    for candidate in referring_candidates(check.scene, check.target, check.bits):
        if len(kept) == PHRASES or (candidate.rank == WEAK and (has_weak or spare)):
            break
        if candidate.kind in kept and len(spare) == PHRASES:
            continue
        if check.check("referring", candidate.text).verdict == "supported":
            has_weak = candidate.rank == WEAK
            if candidate.kind in kept:
                spare.append(candidate.text)
            else:
                kept[candidate.kind] = candidate.text
    return [*kept.values(), *spare][:PHRASES]


def _look_alikes(check: GroundedCheck, category: Category) -> Iterator[str]:
    """What the target may be taken for, by all taxonomies; then the other categories, those of its parent first."""
    yield from (*category.look_alikes, *category.negatives)
    for taxonomy in check.scene.vocabularies:
        for name in (category.noun or "", *category.other_names):
            for other in taxonomy.categories_named(name):
                yield from (*taxonomy.get(other).look_alikes, *taxonomy.get(other).negatives)
    first = check.scene.taxonomy.axes[0].id
    others = sorted((c for c in check.scene.taxonomy.categories if c.axis == first), key=lambda c: c.parent != category.parent)
    yield from (c.noun for c in others if c.noun)


def purpose(function: str, is_one: bool, draw: int = 0) -> str:
    """Say what a thing is for, without its name.

    Args:
        function: "where …", "from where …", what it does ("gives shade"), or what it is ("a paved yard that …", "land left free").
        is_one: Whether the target is one thing.
        draw: Which of several wordings.

    >>> purpose("where children are taught", True), purpose("where children are taught", False, draw=1)
    ('the place where children are taught', 'all places where children are taught')
    >>> purpose("carries electricity between pylons", False), purpose("gives shade", True)
    ('everything that carries electricity between pylons', 'what gives shade')
    >>> purpose("a paved space where neighbours meet", True), purpose("a paved space where neighbours meet", False)
    ('the paved space where neighbours meet', 'every paved space where neighbours meet')
    >>> purpose("thin strands that bring current to homes", False)
    'the thin strands that bring current to homes'
    """
    first, _, rest = function.partition(" ")
    if function.startswith("from where "):
        options = ("the place from which {}",) if is_one else ("the places from which {}", "every place from which {}")
        return _pick(options, draw).format(function.removeprefix("from where "))
    if first == "where":
        one = ("the place where {}", "the place in this scene where {}", "the part of the scene where {}")
        many = ("the places where {}", "all places where {}", "every place where {}", "the places in this scene where {}")
        return _pick(one if is_one else many, draw).format(rest)
    if first in ("a", "an"):
        return _pick(("the {}",) if is_one else ("every {}", "each {}"), draw).format(rest)
    if first in ("the", "what"):
        return function
    after, *_ = [*rest.split(), ""]
    if first.endswith("s") and not (after.endswith("ed") and len(after) > 3) and after not in _NO_VERB_BEFORE:
        one, many = ("what {}", "what in this scene {}"), ("everything that {}", "all that {}", "everything in this scene that {}")
        return _pick(one if is_one else many, draw).format(function)
    return f"the {function}"


def _pick(options: tuple[str, ...], draw: int) -> str:
    return options[draw % len(options)]
