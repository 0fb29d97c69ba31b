"""From written sentences to what may be released: the grounded check decides, and every decision keeps its reason."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from trigpoint.identity import make_id
from trigpoint.language.grounding import Checked, GroundedCheck
from trigpoint.language.offline import Written
from trigpoint.names import spelling_of, visible
from trigpoint.records.language import Generated, LanguageItem, LanguageTarget, Verified

Stage2 = Literal["valid", "corrected", "ABSENT", "PRESENT"]


class Draft(NamedTuple):
    """A sentence before the grounded check.

    Attributes:
        written: As it was first written.
        text: As a provider's second stage left it.
        stage2: What that said; None where there was none.
    """

    written: Written
    text: str
    stage2: Stage2 | None = None


def drafts_of(generated: Generated, verified: Verified | None) -> list[Draft]:
    """Lay out the answers of both stages as drafts."""
    drafts = [Draft(Written("vocabulary", "positive", text), text) for text in generated.positive_ovs_phrases]
    reviewed = {row.original_phrase: row for row in verified.positive_res_phrase_qc} if verified else {}
    for text in generated.positive_res_phrases:
        row = reviewed.get(text)
        drafts.append(Draft(Written("referring", "positive", text), row.corrected_phrase if row else text, row.status if row else None))
    drafts += [Draft(Written("reasoning", "positive", text), text) for text in generated.positive_reasoning_phrases]
    absent: dict[str, Stage2] = {row.candidate: row.status for row in verified.verification_results} if verified else {}
    drafts += [Draft(Written("vocabulary", "negative", text), text, absent.get(text)) for text in generated.negative_candidates]
    return drafts


def judge_drafts(check: GroundedCheck, drafts: Iterable[Draft], provider: str) -> list[LanguageItem]:
    """Hold drafts against the ground; the first of those that say the same is kept."""
    items: list[LanguageItem] = []
    said: set[tuple[str, str, str]] = set()
    for draft in drafts:
        item = _judged(check, draft, provider)
        key = (item.form, item.polarity, spelling_of(item.text))
        if item.state != "dropped" and key in said:
            item = item.model_copy(update={"state": "dropped", "reason": "says what another sentence of the annotation says"})
        said.add(key)
        items.append(item)
    unique = {item.item_id: item for item in reversed(items)}
    return sorted(unique.values(), key=lambda item: item.item_id)


def _judged(check: GroundedCheck, draft: Draft, provider: str) -> LanguageItem:
    written, target = draft.written, check.target
    original = visible(written.text)
    is_negative = written.polarity == "negative"
    checked = check.check_negative(draft.text) if is_negative else check.check(written.form, draft.text)
    state, text, reason = _state_of(checked, draft)
    return LanguageItem(
        item_id=make_id("t", target.annotation_id, written.form, written.polarity, original),
        annotation_id=target.annotation_id,
        scene_id=target.scene_id,
        form=written.form,
        polarity="negative" if is_negative else "positive",
        text=visible(text),
        original=original,
        provider=provider,
        stage2=draft.stage2,
        verdict=checked.verdict,
        claims=checked.claims,
        state=state,
        reason=reason,
    )


def _state_of(checked: Checked, draft: Draft) -> tuple[Literal["accepted", "corrected", "review", "dropped"], str, str]:
    """State, text and reason."""
    wrong = "; ".join(f"{claim.text!r}: {claim.measured}" for claim in checked.claims if claim.verdict != "supported")
    if draft.stage2 == "PRESENT":
        return "dropped", draft.text, "the second stage sees it in the image"
    if checked.verdict == "supported":
        return "accepted", draft.text, ""
    if checked.verdict == "undecidable":
        return "review", draft.text, wrong
    if checked.correction is not None:
        return "corrected", checked.correction, wrong
    return "dropped", draft.text, wrong


RELEASED = ("accepted", "corrected", "edited")
"""States whose sentences may be released."""


def query_of(item: LanguageItem, target: LanguageTarget) -> dict[str, Any]:
    """Return the line of queries.jsonl that asks an item."""
    is_negative = item.polarity == "negative"
    return {
        "query_id": make_id("q", item.annotation_id, item.form, item.polarity, item.text),
        "scene_id": item.scene_id,
        "form": item.form,
        "level": None,
        "program": None,
        "canonical": None,
        "answer_ids": [] if is_negative else list(target.instance_ids),
        "answerable": not is_negative,
        "kind": "concept_absent" if is_negative else "answerable",
        "polarity": item.polarity,
        "sentences": [item.text],
        "counterfactual_of": None,
        "difficulty": None,
        "annotation_id": item.annotation_id,
        "category": list(target.category),
    }


def language_queries(targets: Iterable[LanguageTarget], items: Iterable[LanguageItem]) -> list[dict[str, Any]]:
    """Return the lines of queries.jsonl of all items that are released, sorted by scene and query."""
    by_id = {target.annotation_id: target for target in targets}
    made = [query_of(item, by_id[item.annotation_id]) for item in items if item.state in RELEASED]
    return sorted(made, key=lambda query: (query["scene_id"], query["query_id"]))


def rates_of(items: Sequence[LanguageItem]) -> dict[str, float | None]:
    """Return how often sentences were wrong, as shares of those looked at; null where none was.

    Source: the figures of OVEarth-Bench: stage 2 found 3.9 % of negatives present and corrected 28.6 % of referring expressions.
    """
    negatives = [item for item in items if item.polarity == "negative"]
    referring = [item for item in items if item.form == "referring"]

    def share(of: Sequence[LanguageItem], wrong: int) -> float | None:
        return wrong / len(of) if of else None

    staged_negatives = [item for item in negatives if item.stage2 is not None]
    staged_referring = [item for item in referring if item.stage2 is not None]
    return {
        "negatives_present_stage2": share(staged_negatives, sum(item.stage2 == "PRESENT" for item in staged_negatives)),
        "negatives_present_check": share(negatives, sum(item.verdict == "contradicted" for item in negatives)),
        "referring_corrected_stage2": share(staged_referring, sum(item.stage2 == "corrected" for item in staged_referring)),
        "referring_contradicted_check": share(referring, sum(item.verdict == "contradicted" for item in referring)),
        "referring_corrected_check": share(referring, sum(item.state == "corrected" for item in referring)),
    }


def states_of(items: Iterable[LanguageItem]) -> dict[str, dict[str, int]]:
    """Count items by form (negatives apart) and state."""
    counted: dict[str, Counter[str]] = {}
    for item in items:
        form = "negative" if item.polarity == "negative" else item.form
        counted.setdefault(form, Counter())[item.state] += 1
    return {form: dict(sorted(counts.items())) for form, counts in sorted(counted.items())}
