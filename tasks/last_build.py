"""What the last build left, for people who go on without a new one: its results, and how many decisions these do not know yet.

Decisions on masks are inputs of `annotate`, so that each makes its scene, and all that is said of it, new work for a build; what is
proposed there stays as it was. Not here: building (`tasks.engine`), what people see of it (`tasks.desk`, `tasks.exchange`).
"""

import hashlib
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NamedTuple

from tasks.engine import item_keys, plan_step, work_chunk
from tasks.stages import STEPS
from tasks.steps import Done, Item, Step
from tasks.tables import item_records
from tasks.workspace import Workspace
from trigpoint.errors import InputError
from trigpoint.identity import canonical_json
from trigpoint.records.stage import ItemResult
from trigpoint.review.ledger import ReviewItem, item_from_json

_SAID = ("boxes", "graph", "calls", "language")
"""Steps from masks to what is said of them, that people see."""


class Annotated(NamedTuple):
    """The masks that are proposed now.

    Attributes:
        done: Results of every step up to `annotate`, of this for every scene where it can be made.
        n_later: Scene id → how many decisions on its masks its result does not know.
        failed: Scene id → why there are no masks of it.
    """

    done: Done
    n_later: dict[str, int]
    failed: dict[str, str]


class LastBuild(NamedTuple):
    """All that people decide about, as it is without building.

    Attributes:
        done: Results of the steps that reviewers see.
        remarks: What is older than a build would make it, or missing; a line each.
    """

    done: Done
    remarks: tuple[str, ...]


def whole_results(workspace: Workspace, steps: Iterable[Step]) -> Done:
    """Return the results of the first steps of a build, in order, without building.

    Raises:
        InputError: a step has work to do first; says which.
    """
    done: Done = {}
    for step in steps:
        planned = plan_step(workspace, step, done)
        if planned.todo:
            n = f"{len(planned.todo)} of {len(planned.items)} items are new or changed"
            raise InputError(f"step {step.name!r} has to be done first: {n}; run `trigpoint stage {step.stage}`")
        done[step.name] = _done(planned.known.values())
    return done


def last_annotated(workspace: Workspace) -> Annotated:
    """Return for every scene the newest result of `annotate` that differs from a new one by decisions alone; without one, it is made here.

    What is made here is in the store and not in the catalogue.

    Raises:
        InputError: scenes are not collected yet, or what else comes before `annotate` is not done.
    """
    step = STEPS["annotate"]
    done = whole_results(workspace, takewhile(lambda one: one != step, STEPS.values()))
    planned = plan_step(workspace, step, done)
    results = list(planned.known.values())
    earlier = _earlier_results(workspace, step, planned.todo)
    for item in planned.todo:
        results += [earlier[item.item_id][0]] if item.item_id in earlier else work_chunk(workspace, step, [item])
    n_later = {scene_id: n for scene_id, (_, n) in earlier.items()}
    failed = {result.item_id: result.drops[0].detail for result in results if result.status != "done"}
    return Annotated({**done, step.name: _done(results)}, n_later, failed)


def last_build(workspace: Workspace) -> LastBuild:
    """Return what reviewers see, as the last build left it; what it did not come to is left out and said.

    Raises:
        InputError: as `last_annotated`.
    """
    annotated = last_annotated(workspace)
    done = dict(annotated.done)
    missing: set[str] = set()
    for name in _SAID:
        planned = plan_step(workspace, STEPS[name], done)
        missing |= {item.item_id for item in planned.todo}
        done[name] = _done(planned.known.values())
    remarks = [f"scene {scene_id} is not here: {why}" for scene_id, why in sorted(annotated.failed.items())]
    n_later = sum(annotated.n_later.get(result.item_id, 0) for result in done["language"])
    if n_later:
        remarks.append(f"sentences were checked before {n_later} later decision(s) on masks; a build checks them again")
    if missing and workspace.config.language.forms:
        first = ", ".join(sorted(missing)[:3])
        remarks.append(f"{len(missing)} scene(s) have no sentences here, since a build has work to do on them first: {first}")
    return LastBuild(done, tuple(remarks))


def proposed_masks(workspace: Workspace, results: Iterable[ItemResult]) -> list[ReviewItem]:
    """Return the masks that results of `annotate` propose, whatever people decided."""
    return [item_from_json(record) for result in results for record in item_records(workspace, result, "review_item")]


def _done(results: Iterable[ItemResult]) -> list[ItemResult]:
    return sorted((result for result in results if result.status == "done"), key=lambda result: result.item_id)


def _earlier_results(workspace: Workspace, step: Step, items: list[Item]) -> dict[str, tuple[ItemResult, int]]:
    """Scene id → the newest whole result that knew fewer decisions, and how many it lacks."""
    tried: list[tuple[Item, int]] = []
    for item in items:
        *before, now = digests_of_beginnings(item.payload["decisions"])
        for n, then in enumerate(before):
            inputs = tuple(then if one == now else one for one in item.inputs)
            tried.append((item.model_copy(update={"inputs": inputs}), len(before) - n))
    keys = item_keys(workspace, step, [item for item, _ in tried])
    known = workspace.catalogue.find_results(step.stage, keys)
    found: dict[str, tuple[ItemResult, int]] = {}
    for key, (item, n_later) in reversed(list(zip(keys, tried, strict=True))):
        result = known.get(key)
        if item.item_id in found or result is None:
            continue
        if result.status == "done" and workspace.store.check_result(result, deep=True) is None:
            found[item.item_id] = (result, n_later)
    return found


def digests_of_beginnings(values: list[Any]) -> list[str]:
    """Digests of the first none, one, … all of some values, each as `digest_json` gives it; in one pass."""
    sha = hashlib.sha256(b"[")
    digests: list[str] = []
    for k in range(len(values) + 1):
        whole = sha.copy()
        whole.update(b"]")
        digests.append(whole.hexdigest())
        if k < len(values):
            sha.update((("," if k else "") + canonical_json(values[k])).encode())
    return digests
