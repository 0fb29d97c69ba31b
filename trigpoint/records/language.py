"""Language about targets: what is asked of a provider, what it answers in two stages, and what the grounded check makes of it.

The field names of the two answers follow OVEarth-Bench's Appendix A (arXiv 2607.27278). Not here: prompts, providers, the check itself.
"""

from typing import Literal

from pydantic import Field

from trigpoint.records.base import Record

Outcome = Literal["ok", "refused", "truncated", "content_filter", "malformed", "failed"]
"""How a call ended; only `ok` has an answer."""

LanguageForm = Literal["vocabulary", "referring", "reasoning"]
Verdict = Literal["supported", "contradicted", "undecidable"]


class LanguageTarget(Record):
    """One annotation: everything of one category in one scene.

    Attributes:
        annotation_id: `a-` and 16 hex digits of scene id and categories.
        category: Category ids, one per axis. name: How it is called, the canonical category name.
        instance_ids: All its instances in the scene, sorted: a query must not be about some of them.
        boxable: Whether boxes are asked for; why_no_boxes: else the reason (`category`, `annotation`), as in Appendix E.
    """

    annotation_id: str
    scene_id: str
    category: tuple[str, ...]
    name: str
    instance_ids: tuple[str, ...]
    boxable: bool
    why_no_boxes: Literal["category", "annotation"] | None = None


class Generated(Record):
    """The answer of stage 1: sentences about the outlined target, and what is plausible but absent."""

    positive_ovs_phrases: tuple[str, ...] = Field(min_length=2, max_length=2, description="short common names of the target")
    positive_res_phrases: tuple[str, ...] = Field(min_length=2, max_length=2, description="referring expressions with the category name")
    positive_reasoning_phrases: tuple[str, ...] = Field(min_length=2, max_length=2, description="its function, without its name")
    negative_candidates: tuple[str, ...] = Field(min_length=3, max_length=5, description="similar things that are absent from the image")


class NegativeVerdict(Record):
    """Stage 2 on one negative candidate."""

    candidate: str
    status: Literal["ABSENT", "PRESENT"]
    reason: str


class ReferringVerdict(Record):
    """Stage 2 on one referring expression."""

    original_phrase: str
    status: Literal["valid", "corrected"]
    issue: str = ""
    corrected_phrase: str


class Verified(Record):
    """The answer of stage 2, from the raw image."""

    verification_results: tuple[NegativeVerdict, ...]
    positive_res_phrase_qc: tuple[ReferringVerdict, ...]
    corrected_positive_res_phrases: tuple[str, ...] = Field(min_length=2, max_length=2)


class Claim(Record):
    """One thing that a sentence says about its target, and what the ground says of it.

    Attributes:
        kind: `category`, `direction`, `screen`, `adjacency`, `nearness`, `containment`, `count`, `superlative`, `denotation`, `absence`, …
        text: The words.
        verdict: What the scene graph makes of it.
        measured: What was measured, with its unit, for people.
    """

    kind: str
    text: str
    verdict: Verdict
    measured: str = ""


class LanguageItem(Record):
    """One sentence on its way into a release.

    Attributes:
        item_id: `t-` and 16 hex digits of annotation, form, polarity and text as first written.
        form, polarity: What it is asked as; a negative is a vocabulary phrase of something absent.
        text: As it would be released, after correction. original: As first written.
        provider: `offline`, or the model that wrote it.
        stage2: What the provider's second stage said; None where there was none.
        verdict: Of all claims together: contradicted if one is, supported if all are.
        claims: What was checked.
        state: `accepted`, `corrected` (by the graph), `edited` (by a person), `review` (people must decide), or `dropped`.
        reason: Why it is not accepted as it was written.
        people: How many people accept the text as it is.
    """

    item_id: str
    annotation_id: str
    scene_id: str
    form: LanguageForm
    polarity: Literal["positive", "negative"]
    text: str
    original: str
    provider: str
    stage2: Literal["valid", "corrected", "ABSENT", "PRESENT"] | None = None
    verdict: Verdict
    claims: tuple[Claim, ...] = ()
    state: Literal["accepted", "corrected", "edited", "review", "dropped"]
    reason: str = ""
    people: int = Field(default=0, ge=0)
