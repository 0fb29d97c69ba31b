"""Language without a language model: names from the taxonomy, places from the graph, purposes from functions, negatives from look-alikes.

The default where no key is given. It writes only what the grounded check supports, and is labelled `offline` in every record.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trigpoint.errors import ProgramError
from trigpoint.identity import digest_json
from trigpoint.language.grounding import GroundedCheck
from trigpoint.language.sentences import describe, sentences
from trigpoint.names import key_of
from trigpoint.programs.generate import SUPERLATIVES
from trigpoint.programs.language import Attr, Cat, Node, Rel
from trigpoint.programs.resolver import Resolver
from trigpoint.records.language import LanguageForm
from trigpoint.rules import TOPOLOGY

NAME = "offline"
"""What records say wrote the sentence."""

PHRASES, NEGATIVES = 2, 5
"""Sentences per form, and negatives, at most: as many as the two-stage generation asks for."""

WEAK = ("far", "outside")
"""Relations that say little of where a thing is; they come last."""


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
    own = category.noun if is_one else category.plural
    names = {key_of(name): name for name in reversed((own or target.name, *category.other_names))}
    written = [Written("vocabulary", "positive", name) for name in _supported(check, reversed(names.values()))]
    referring = [text for text in _referring(check, is_one) if check.check("referring", text).verdict == "supported"]
    written += [Written("referring", "positive", text) for text in referring[:PHRASES]]
    purposes = (purpose(text, is_one) for text in category.functions)
    reasoning = [text for text in purposes if check.check("reasoning", text).verdict == "supported"]
    written += [Written("reasoning", "positive", text) for text in reasoning[:PHRASES]]
    first = taxonomy.axes[0].id
    others = sorted((c for c in taxonomy.categories if c.axis == first and c.noun), key=lambda c: c.parent != category.parent)
    candidates = dict.fromkeys((*category.look_alikes, *category.negatives, *(c.noun for c in others if c.noun)))
    absent = [text for text in candidates if check.check_negative(text).verdict == "supported"]
    return written + [Written("vocabulary", "negative", text) for text in absent[:NEGATIVES]]


def _supported(check: GroundedCheck, names: Iterable[str]) -> list[str]:
    return [name for name in names if check.check("vocabulary", name).verdict == "supported"][:PHRASES]


def purpose(function: str, is_one: bool) -> str:
    """Say what a thing is for, without its name.

    >>> purpose("where children are taught", True)
    'the place where children are taught'
    >>> purpose("carries electricity between pylons", False)
    'what carries electricity between pylons'
    >>> purpose("land left free between the houses", True)
    'the land left free between the houses'
    >>> purpose("thin strands that bring current to homes", False)
    'the thin strands that bring current to homes'
    """
    words = function.split()
    if "where" in words[:2]:
        return f"the {'place' if is_one else 'places'} {function}"
    if words[0] in ("a", "an", "the", "what"):
        return function
    after = words[1] if len(words) > 1 else ""
    is_verb = words[0].endswith("s") and not after.endswith("ed") and after not in ("that", "which", "for", "of", "to", "where")
    return f"what {function}" if is_verb else f"the {function}"


def _referring(check: GroundedCheck, is_one: bool) -> Iterator[str]:
    """Referring expressions that hold for all of the target: one per relation first, in an order drawn from the annotation's id."""
    resolver, taxonomy = check.scene.resolver, check.scene.taxonomy
    category = Cat(check.target.category[0])
    found: list[tuple[str, str, Rel]] = []
    for anchor in anchors_of_target(resolver, check.bits):
        position = resolver.denoted(anchor)
        is_region = not resolver.graph.nodes.countable[position]
        for relation in resolver.graph.verdicts:
            if relation == "contains" or (relation in TOPOLOGY and not is_region):
                continue
            if not check.bits & ~resolver.edges_to(relation, position).sure:
                node = Rel(category, relation, anchor)
                found.append((digest_json([check.target.annotation_id, node.canonical()]), relation, node))
    seen: Counter[str] = Counter()
    ranked: list[tuple[bool, int, str, Rel]] = []
    for digest, relation, node in sorted(found, key=lambda one: one[0]):
        ranked.append((relation in WEAK, seen[relation], digest, node))
        seen[relation] += 1
    for _, _, digest, node in sorted(ranked, key=lambda one: one[:3]):
        style = int(digest[:2], 16) % 3
        yield describe(node, taxonomy, style) if is_one else sentences(node, taxonomy)[style]


def anchors_of_target(resolver: Resolver, target: int) -> Iterator[Node]:
    """Yield what can be named and is not of the target (a bitset): the one of its category, or a superlative of it."""
    taxonomy = resolver.taxonomy
    first = taxonomy.axes[0].id
    categories: list[Node] = [Cat(c.id) for c in taxonomy.categories if c.axis == first]
    for category in categories:
        for node in (category, *(Attr(category, key, extreme) for key, extreme in SUPERLATIVES)):
            try:
                position = resolver.denoted(node)
            except ProgramError:
                continue
            if resolver.is_admissible_anchor(position) and not target >> position & 1:
                yield node
                if node is category:
                    break
