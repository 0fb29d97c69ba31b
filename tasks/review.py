"""review: what people decided about the sentences of one scene; decisions about its masks are applied by `annotate`."""

from collections.abc import Sequence

from tasks.language import ground_scene, released_language
from tasks.query import items_with_pois
from tasks.scenes import collected_scenes
from tasks.steps import Done, Item, Made
from tasks.tables import item_records, record_table
from tasks.workspace import Workspace
from trigpoint.errors import InputError
from trigpoint.identity import digest_json
from trigpoint.language.grounding import Checked, GroundedCheck, GroundScene
from trigpoint.language.items import RELEASED
from trigpoint.records.language import LanguageItem, LanguageTarget
from trigpoint.records.review import Decision, ItemKind
from trigpoint.records.stage import Drop, ItemResult
from trigpoint.review.apply import WAITS
from trigpoint.review.ledger import Ledger, item_from_json, item_to_json
from trigpoint.review.policy import judge
from trigpoint.review.sentences import is_for_people, review_item_of, reviewed

SENTENCES: tuple[ItemKind, ...] = ("vocabulary", "referring", "reasoning", "negative")


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene with sentences; its inputs are these, the ground, and what people decided."""
    if not done["language"]:
        return []
    ledger = workspace.ledger.refresh()
    items: list[Item] = []
    for item in items_with_pois(workspace, done, ("boxes", "graph", "language")):
        decisions = [decision.to_json() for decision in ledger.of_scene(item.item_id, SENTENCES)]
        items.append(
            item.model_copy(update={"inputs": (*item.inputs, digest_json(decisions)), "payload": {**item.payload, "decisions": decisions}})
        )
    return items


def copy_decisions(workspace: Workspace) -> int:
    """Copy what the ledger of review has and the catalogue has not; only for the flow's own process. Returns the number of new rows."""
    if not workspace.ledger.refresh():
        return 0
    return workspace.catalogue.import_records("review", workspace.ledger.records())


def orphans_of(workspace: Workspace, done: Done) -> list[Decision]:
    """Return the decisions that a build up to `language` cannot apply: what they are about is no longer there.

    What is only held back is none: a scene without masks yet, or without sentences.
    """
    ledger = workspace.ledger.refresh()
    if not len(ledger):
        return []
    scenes = {entry.scene.scene_id for entry in collected_scenes(workspace, done)}
    masks = [item_from_json(record) for result in done["annotate"] for record in item_records(workspace, result, "review_item")]
    _, sentences = released_language(workspace, done["language"])
    orphans = ledger.orphans([*masks, *(review_item_of(one) for one in sentences if is_for_people(one))], scenes)
    awaited = {step: scenes - {result.item_id for result in done[step]} for step in ("annotate", "language")}
    return [one for one in orphans if one.scene_id not in awaited["annotate" if one.kind == "mask" else "language"]]


def told_orphans(orphans: Sequence[Decision]) -> str:
    """Say in one line which decisions have no effect, and what to do."""
    shown = ", ".join(f"{one.action} {one.item_id} ({one.who})" for one in orphans[:5])
    more = f" and {len(orphans) - 5} more" if len(orphans) > 5 else ""
    return (
        f"decisions of people that have no effect: {len(orphans)}, since what they are about is no longer there (its source, scene or"
        f" sentence changed): {shown}{more}; they are kept. Look at these scenes again in `trigpoint review`"
    )


def told_damaged(damaged: Sequence[str]) -> str:
    """Say in one line which lines of the ledger cannot be used, and what to do; each says where it is."""
    more = f"; and {len(damaged) - 3} more" if len(damaged) > 3 else ""
    shown = "; ".join(damaged[:3])
    return f"lines of the ledger of review that cannot be used, so that their decisions do not count: {len(damaged)}: {shown}{more}"


class SentenceCheck:
    """Holds texts against the ground of one scene, which is opened when the first text comes.

    Args:
        workspace: Of the build.
        item: Payload of an item of this step.
        targets: The annotations of the scene.
    """

    def __init__(self, workspace: Workspace, item: Item, targets: list[LanguageTarget]) -> None:
        self._workspace, self._item = workspace, item
        self._targets = {target.annotation_id: target for target in targets}
        self._ground: GroundScene | None = None

    def __call__(self, item: LanguageItem, text: str) -> Checked:
        """Check a text of an item's form.

        Raises:
            InputError: the scene has no graph any more.
        """
        if self._ground is None:
            self._ground, _ = ground_scene(self._workspace, self._item)
        if self._ground is None:
            raise InputError(f"scene {item.scene_id}: it has no graph to hold a sentence against; build it again")
        check = GroundedCheck(self._ground, self._targets[item.annotation_id])
        return check.check_negative(text) if item.polarity == "negative" else check.check(item.form, text)


def make(workspace: Workspace, item: Item) -> Made:
    """Apply what people decided to the sentences of a scene."""
    targets, items = released_language(workspace, [ItemResult.model_validate(item.payload["language"])])
    ledger = Ledger(Decision.model_validate(decision) for decision in item.payload["decisions"])
    states = ledger.states(review_item_of(one) for one in items if is_for_people(one))
    config = workspace.config
    verdicts = {item_id: judge(state, config.review.rule_for_sentences, config.seed) for item_id, state in states.items()}
    after = reviewed(items, states, verdicts, SentenceCheck(workspace, item, targets))
    before = {one.item_id: one for one in items}
    drops = [
        Drop(
            stage="review",
            scope_id=item.item_id,
            item_id=one.item_id,
            reason_code=WAITS if one.state == "review" else "rejected_in_review",
            detail=f"{one.form} {one.text!r}: {one.reason}",
            remedy="open it in `trigpoint review`",
        )
        for one in after
        if one.state != before[one.item_id].state and one.state not in RELEASED
    ]
    tables = {
        "annotation": record_table(target.to_json() for target in targets),
        "language_item": record_table(one.to_json() for one in after),
        "review_item": record_table(item_to_json(state.item) for _, state in sorted(states.items())),
        "decision": record_table(item.payload["decisions"]),
        "verdict": record_table(verdict.to_json() for _, verdict in sorted(verdicts.items())),
    }
    return Made(tables, drops=drops, n_in=len(items), n_out=sum(one.state in RELEASED for one in after))
