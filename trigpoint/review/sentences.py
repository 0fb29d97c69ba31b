"""Decisions of people on sentences: the ground stays the judge of what is said, people decide about what it cannot."""

from collections.abc import Callable, Iterable, Mapping

from trigpoint.language.grounding import Checked
from trigpoint.language.items import RELEASED
from trigpoint.names import spelling_of
from trigpoint.records.language import LanguageItem
from trigpoint.records.review import ItemKind, SentenceValue, Verdict
from trigpoint.review.ledger import ItemState, ReviewItem

Check = Callable[[LanguageItem, str], Checked]
"""Holds a text of an item's form against the ground."""


def kind_of(item: LanguageItem) -> ItemKind:
    """Return what kind of item of review a sentence is."""
    return "negative" if item.polarity == "negative" else item.form


def review_item_of(item: LanguageItem) -> ReviewItem:
    """Return a sentence as people are shown it."""
    return ReviewItem(item.item_id, kind_of(item), item.scene_id, SentenceValue(text=item.text))


def is_for_people(item: LanguageItem) -> bool:
    """Whether people decide about a sentence: not about what the ground contradicts, or another sentence says."""
    return item.state != "dropped"


def reviewed(
    items: Iterable[LanguageItem], states: Mapping[str, ItemState], verdicts: Mapping[str, Verdict], check: Check
) -> list[LanguageItem]:
    """Return all sentences as people left them, sorted by id.

    Args:
        items: As the grounded check left them.
        states: What people made of those that are for them, by id.
        verdicts: What the policy makes of that, by id.
        check: Asked about every text that a person wrote.
    """
    found = [_reviewed(item, states.get(item.item_id), verdicts.get(item.item_id), check) for item in items]
    found.sort(key=lambda item: item.item_id)
    said: set[tuple[str, str, str, str]] = {_said(item) for item in found if item.state in RELEASED and item.state != "edited"}
    for k, item in enumerate(found):
        if item.state != "edited":
            continue
        if _said(item) in said:
            found[k] = item.model_copy(update={"state": "dropped", "reason": "says what another sentence of the annotation says"})
        said.add(_said(item))
    return found


def _said(item: LanguageItem) -> tuple[str, str, str, str]:
    return item.annotation_id, item.form, item.polarity, spelling_of(item.text)


def _reviewed(item: LanguageItem, state: ItemState | None, verdict: Verdict | None, check: Check) -> LanguageItem:
    if state is None or verdict is None:
        return item
    assert isinstance(state.value, SentenceValue)
    said = {vote.who: vote.verdict for vote in state.votes}
    item = item.model_copy(update={"people": sum(verdict == "accept" for verdict in said.values())})
    if state.is_changed:
        checked = check(item, state.value.text)
        item = item.model_copy(
            update={"text": state.value.text, "verdict": checked.verdict, "claims": checked.claims, "state": "edited", "reason": ""}
        )
        if checked.verdict == "contradicted":
            wrong = "; ".join(f"{claim.text!r}: {claim.measured}" for claim in checked.claims if claim.verdict == "contradicted")
            return item.model_copy(update={"state": "dropped", "reason": f"edited, and contradicted by the ground: {wrong}"})
    if verdict.status == "rejected":
        return item.model_copy(update={"state": "dropped", "reason": "rejected in review"})
    if verdict.status in ("waiting", "returned"):
        return item.model_copy(update={"state": "review", "reason": f"{verdict.status} by the policy of review"})
    if item.state == "review" and item.people:
        return item.model_copy(update={"state": "accepted"})
    return item
