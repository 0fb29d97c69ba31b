"""calls: what a language model answers in two stages about the targets of each scene; none when sentences are written offline.

The targets of all scenes are asked together before the first item (`prepare`); an item then reads its answers from the record of calls.
"""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from storage.calls import CallRecord, open_record
from storage.digests import CHECKOUT
from storage.rasters import read_scene_tif
from tasks.boxes import read_masks
from tasks.graph import masks_of_rows
from tasks.language import load_resolver
from tasks.scenes import scene_items
from tasks.steps import Done, Item, Made, Preparation
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.config import LanguageConfig
from trigpoint.identity import canonical_json
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.language.llm_costs import TargetCost, target_costs
from trigpoint.language.openai_provider import PROMPT_FILES, OpenAIProvider
from trigpoint.language.pictures import outlined_png, raw_png
from trigpoint.language.provider import TargetAnswers, TargetRequest, ask_all, record_all
from trigpoint.language.targets import targets_of
from trigpoint.records.calls import Spent
from trigpoint.records.language import LanguageTarget
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult

PROMPTS = CHECKOUT / "prompts"

MAX_HINTS = 20
"""Look-alikes that a model is shown as hints."""

ROWS_AT_ONCE = 1000
"""Lines of the record that one transaction of the catalogue takes."""


def prompt_files() -> list[Path]:
    """The prompts that the calls use."""
    return [PROMPTS / name for name in PROMPT_FILES]


def calls_folder(workspace: Workspace) -> Path:
    """Where the record of calls is: `run.calls`, else `calls` in the store, which is a local folder then."""
    run = workspace.config.run
    return run.calls or Path((run.store or str(workspace.work / "store")).removeprefix("file://")) / "calls"


def budget_id(workspace: Workspace) -> str:
    """Whose money calls cost: name and version of the release."""
    return f"{workspace.config.name}-{workspace.config.version}"


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene with a graph; none when no language model is asked."""
    if not _is_asked(workspace):
        return []
    return scene_items(workspace, done, ("annotate", "boxes", "graph"))


def _is_asked(workspace: Workspace) -> bool:
    config = workspace.config.language
    return bool(config.forms) and config.provider != "offline"


def _targets(workspace: Workspace, item: Item) -> list[LanguageTarget]:
    resolver, boxable = load_resolver(workspace, item)
    return targets_of(resolver, boxable) if resolver is not None else []


def _requests(workspace: Workspace, item: Item, targets: list[LanguageTarget]) -> Iterator[TargetRequest]:
    """Yield what is asked about the targets of a scene; pictures are made one target at a time."""
    rows = item_table(workspace, ItemResult.model_validate(item.payload["boxes"]), "instance").to_pylist()
    masks = masks_of_rows(rows, *read_masks(workspace, ItemResult.model_validate(item.payload["annotate"])))
    rgb = rgb_of_patch(read_scene_tif(workspace.store.get_bytes(ArtefactRef.model_validate(item.payload["image"])))).array
    raw = raw_png(rgb)
    index = {row["instance_id"]: k for k, row in enumerate(rows)}
    for target in targets:
        nodes = [index[instance_id] for instance_id in target.instance_ids]
        mask = np.isin(masks.labels, [masks.label_of_node[k] for k in nodes if k not in masks.planes])
        for k in nodes:
            if k in masks.planes:
                mask |= masks.planes[k]
        category = workspace.taxonomy.get(target.category[0])
        hints = tuple(dict.fromkeys((*category.look_alikes, *category.negatives)))[:MAX_HINTS]
        yield TargetRequest(
            target_id=target.annotation_id,
            scene_id=target.scene_id,
            category=target.name,
            outlined_png=outlined_png(rgb, mask),
            raw_png=raw,
            candidates=hints,
        )


class _AllScenes:
    """The requests of many scenes; the pictures of a target are made when it is its turn.

    A scene that cannot be read is left out here: its own item says why.
    """

    def __init__(self, workspace: Workspace, items: list[Item]) -> None:
        self._workspace = workspace
        self._scenes: list[tuple[Item, list[LanguageTarget]]] = []
        for item in items:
            try:
                self._scenes.append((item, _targets(workspace, item)))
            except Exception:  # whatever it is, `make` meets it too, and the engine tells it
                continue

    def __len__(self) -> int:
        return sum(len(targets) for _, targets in self._scenes)

    def __iter__(self) -> Iterator[TargetRequest]:
        for place, (item, targets) in enumerate(self._scenes):
            n = 0
            try:
                for request in _requests(self._workspace, item, targets) if targets else ():
                    n += 1
                    yield request
            except Exception:  # as above
                self._scenes[place] = item, targets[:n]


class _Watch:
    """Tells who watches a build how far the targets are, what they have cost, and how long the rest will take."""

    def __init__(self, progress: Preparation, requests: _AllScenes, record: CallRecord, budget: str, settings: LanguageConfig) -> None:
        self._progress, self._requests, self._record = progress, requests, record
        self._budget, self._settings = budget, settings
        self._n = self._n_asked = 0
        self._began = time.monotonic()

    def begin(self, n_targets: int) -> None:
        """Tell that nothing is done yet."""
        self._tell()

    def advance(self, target_id: str, answers: TargetAnswers) -> None:
        """Tell that one more target is through both stages."""
        self._n += 1
        self._n_asked += not all(answer is None or answer.from_record for answer in answers)
        self._tell()

    def say(self, text: str) -> None:
        """Pass a line on."""
        self._progress.say(text)

    def _tell(self) -> None:
        spent, limits = self._record.spent(self._budget), self._settings
        n_total = len(self._requests)
        cost = f", cost {spent.cost:.4f}" if limits.model in limits.prices else ""
        note = f"{spent.tokens:,}{_of(limits.max_tokens)} tokens{cost}{_of(limits.max_cost) if cost else ''}"
        if self._n_asked and self._n < n_total:
            # those that were answered before took no time worth counting
            left_s = (time.monotonic() - self._began) / self._n_asked * (n_total - self._n)
            note += f", eta {left_s / 60:.0f} min" if left_s >= 90 else f", eta {left_s:.0f} s"
        self._progress.prepared("language model calls", self._n, n_total, note)


def _of(limit: float | None) -> str:
    return "" if limit is None else f" of {limit:,g}"


def prepare(workspace: Workspace, items: list[Item], progress: Preparation) -> None:
    """See to it that both stages of every target of all items are recorded, asking for what is not.

    Nothing is asked when answers are replayed. However it ends, the calls are copied into the catalogue.

    Raises:
        BudgetError: the budget does not allow what is left; what was under way is recorded.
        ModelError: a batch is under way still.
        ConfigError: the server accepts neither the key nor the model.
    """
    config = workspace.config
    if config.language.mode == "replay":
        return
    requests = _AllScenes(workspace, items)
    record = open_record(calls_folder(workspace))
    try:
        with OpenAIProvider(config.language, PROMPTS, record, budget_id(workspace), config.seed) as provider:
            record_all(provider, requests, _Watch(progress, requests, record, budget_id(workspace), config.language))
    finally:
        copy_calls(workspace)


def make(workspace: Workspace, item: Item) -> Made:
    """Read the answers of both stages about every target of a scene from the record of calls.

    Raises:
        CallMissingError: one was never asked.
    """
    targets = _targets(workspace, item)
    requests = list(_requests(workspace, item, targets)) if targets else []
    config = workspace.config
    replayed = config.language.model_copy(update={"mode": "replay"})
    with OpenAIProvider(replayed, PROMPTS, open_record(calls_folder(workspace)), budget_id(workspace), config.seed) as provider:
        answers = ask_all(provider, requests)
    made: list[dict[str, Any]] = []
    drops: list[Drop] = []
    for target, (generated, verified) in zip(targets, answers, strict=True):
        lost = next((answer for answer in (generated, verified) if answer is not None and answer.outcome != "ok"), None)
        if lost is not None:
            drops.append(
                Drop(
                    stage="language",
                    scope_id=item.item_id,
                    item_id=target.annotation_id,
                    reason_code=lost.outcome,
                    detail=f"{target.name} in {target.scene_id}, {lost.prompt}: {lost.reason or lost.outcome}",
                    remedy="`trigpoint retry` asks again" if lost.outcome == "failed" else "",
                    is_quarantined=lost.outcome == "failed",
                )
            )
        made.append(
            {
                "annotation_id": target.annotation_id,
                "generated": canonical_json(generated.answer.to_json()) if generated.answer is not None else None,
                "verified": canonical_json(verified.answer.to_json()) if verified is not None and verified.answer is not None else None,
            }
        )
    return Made(
        {"answer": pa.Table.from_pylist(made, schema=ANSWER_SCHEMA)}, drops=drops, n_in=len(targets), n_out=len(targets) - len(drops)
    )


ANSWER_SCHEMA = pa.schema([("annotation_id", pa.string()), ("generated", pa.string()), ("verified", pa.string())])
"""Answers of both stages as JSON, null where a stage gave none."""


def copy_calls(workspace: Workspace) -> int:
    """Copy what the record of calls has and the catalogue has not; only for the flow's own process. Returns the number of new rows."""
    if not _is_asked(workspace) or not (calls_folder(workspace) / "calls.jsonl").is_file():
        return 0
    rows = open_record(calls_folder(workspace)).catalogue_rows()
    n_new = 0
    while some := list(islice(rows, ROWS_AT_ONCE)):
        n_new += workspace.catalogue.import_records("llm_call", some)
    return n_new


class CallsReport(NamedTuple):
    """What the calls of a release have cost so far.

    Attributes:
        record: The file that says so, or None before the first call.
        spent: Of this version's budget, unsettled calls apart.
        tokens_left, cost_left: Of the limits in the configuration, unsettled calls counted as spent; None without a limit.
        n_others: Calls in the same record that other releases or versions paid for.
    """

    budget_id: str
    record: Path | None
    targets: list[TargetCost]
    spent: Spent
    tokens_left: int | None
    cost_left: float | None
    n_others: int


def report_calls(workspace: Workspace) -> CallsReport:
    """Read the record of calls, also while a build writes it."""
    owner, settings = budget_id(workspace), workspace.config.language
    spent, targets, n_others, path = Spent(), [], 0, None
    if (calls_folder(workspace) / "calls.jsonl").is_file():
        record = open_record(calls_folder(workspace))
        path, spent = record.path, record.spent(owner)
        lines = [line for _, line in record.lines()]
        targets = target_costs(lines, owner)
        n_others = sum(line.line == "answered" and line.outcome == "answered" and line.budget_id != owner for line in lines)
    tokens_left = None if settings.max_tokens is None else max(0, settings.max_tokens - spent.tokens - spent.unsettled_tokens)
    cost_left = None if settings.max_cost is None else max(0.0, round(settings.max_cost - spent.cost - spent.unsettled_cost, 9))
    return CallsReport(owner, path, targets, spent, tokens_left, cost_left, n_others)
