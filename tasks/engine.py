"""How a stage runs: which items are new, work on those in chunks, write shards, record, quarantine what fails.

A stage is one or more steps. A step plans items from what earlier steps made; an item's key is the digest of its inputs,
the step's part of the configuration and the step's code; a key that the catalogue knows with whole artefacts is reused. Chunks of the
other items are worked on by a runner: plainly here, or as Prefect task runs (`tasks.doors`).
"""

import multiprocessing
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from threading import RLock, Thread
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa

from storage.digests import code_digest
from storage.locks import hold_lock, release_lock
from tasks.calls import copy_calls
from tasks.review import copy_decisions
from tasks.stages import STEPS
from tasks.steps import Done, Item, Made, Preparation, Step
from tasks.tables import stacked_table, table_digest
from tasks.workspace import Workspace, open_workspace
from trigpoint.errors import ConfigError, TrigpointError
from trigpoint.identity import digest_json
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult, StageSummary
from trigpoint.versions import library_versions


class Progress(Preparation, Protocol):
    """Who watches a build."""

    def begin(self, step: Step, n_items: int, n_reused: int) -> None:
        """A step begins; `n_reused` of its items are known."""
        ...

    def advance(self, step: Step, n: int) -> None:
        """`n` more items are worked on."""
        ...

    def end(self, summary: StageSummary) -> None:
        """A step ended."""
        ...


class Silent:
    """Nobody watches."""

    def begin(self, step: Step, n_items: int, n_reused: int) -> None:
        """Say nothing."""

    def advance(self, step: Step, n: int) -> None:
        """Say nothing."""

    def prepared(self, what: str, n: int, n_total: int, note: str) -> None:
        """Say nothing."""

    def end(self, summary: StageSummary) -> None:
        """Say nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""


class Pace:
    """Says when a line about progress is due in a log: at the start, at the end, and every so often.

    Args:
        every_s: Seconds between two lines.
    """

    def __init__(self, every_s: float = 30.0) -> None:
        self._every_s = every_s
        self._last: dict[str, float] = {}

    def is_due(self, what: str, n: int, n_total: int) -> bool:
        """Whether to say now that `n` of `n_total` are done."""
        now = time.monotonic()
        is_due = what not in self._last or n >= n_total or now - self._last[what] >= self._every_s
        if is_due:
            self._last[what] = now
        return is_due


ChunkRunner = Callable[[Workspace, Step, list[list[Item]], Callable[[list[ItemResult]], None]], None]
"""Works on chunks and hands over the results of each as soon as it is done."""


class PlannedStep(NamedTuple):
    """What a step would do now.

    Attributes:
        items: All its items, with their keys.
        known: Key → result that can be reused (done or still quarantined).
        stale: Item id → why a known result cannot be used.
    """

    step: Step
    items: list[Item]
    known: dict[str, ItemResult]
    stale: dict[str, str]

    @property
    def todo(self) -> list[Item]:
        """Items that must be worked on."""
        return [item for item in self.items if item.key not in self.known]


def item_keys(workspace: Workspace, step: Step, items: list[Item]) -> list[str]:
    """Digests of each item's inputs, the step's configuration and the step's code."""
    code = code_digest(step.module, step.data_files(workspace), list(step.libraries))
    settings = step.settings(workspace)
    return [digest_json([step.name, code, settings, item.item_id, list(item.inputs)]) for item in items]


def plan_step(workspace: Workspace, step: Step, done: Done) -> PlannedStep:
    """Say which items of a step are known and which must be worked on."""
    items = sorted(step.plan(workspace, done), key=lambda item: item.item_id)
    keys = item_keys(workspace, step, items)
    items = [item.model_copy(update={"key": key}) for item, key in zip(items, keys, strict=True)]
    known: dict[str, ItemResult] = {}
    stale: dict[str, str] = {}
    for key, result in workspace.catalogue.find_results(step.stage, [item.key for item in items]).items():
        reason = workspace.store.check_result(result, deep=True) or step.why_stale(workspace, result)
        if reason is None:
            known[key] = result
        else:
            stale[result.item_id] = reason
    return PlannedStep(step, items, known, stale)


@dataclass
class Build:
    """One run of stages: what was done so far, and how it went."""

    workspace: Workspace
    run_id: str
    runner: ChunkRunner
    progress: Progress
    done: Done = field(default_factory=dict)
    summaries: list[StageSummary] = field(default_factory=list)

    @property
    def is_within_quarantine(self) -> bool:
        """Whether no stage lost more than the allowed share of its items."""
        allowed = self.workspace.config.quarantine.allowed_share
        return all(s.n_quarantined <= allowed * s.n_items for s in self.summaries)


def start_build(workspace: Workspace, kind: str, runner: ChunkRunner | None = None, progress: Progress | None = None) -> Build:
    """Check the configuration and open a run in the catalogue.

    Raises:
        ConfigError: the configuration or an input file is unusable.
        CatalogueError: the catalogue cannot be written.
        InputError: another process builds in this work folder.
    """
    workspace.check()
    hold_lock(_lock_of(workspace), workspace.config.run.catalogue_wait_s)
    workspace.may_fetch = True
    run_id = str(uuid4())
    config = workspace.config
    workspace.catalogue.start_run(run_id, kind, config.sha256(), config.model_dump_json(exclude={"run"}), library_versions())
    return Build(workspace, run_id, runner or run_chunks, progress or Silent())


def run_step(build: Build, step: Step) -> StageSummary:
    """Run one step: reuse what is known, prepare and work on the rest, record every chunk as it comes.

    Raises:
        TrigpointError: what the step prepares cannot be had now (no more money, no answer yet); the run is closed as `stopped`.
    """
    workspace, catalogue = build.workspace, build.workspace.catalogue
    began = time.monotonic()
    planned = plan_step(workspace, step, build.done)
    for item_id, reason in sorted(planned.stale.items()):
        build.progress.say(f"{step.name} {item_id}: {reason}; made again")
    todo = planned.todo
    stage_run_id = catalogue.start_stage_run(build.run_id, step.stage)
    build.progress.begin(step, len(planned.items), len(planned.known))
    catalogue.record_reuse(build.run_id, step.stage, list(planned.known))
    results = dict(planned.known)
    item_of = {item.key: item for item in todo}

    def record(chunk: list[ItemResult]) -> None:
        tables = {name: stacked_table(workspace.store, chunk, name) for name in step.catalogue_tables}
        lineage = [(result.item_key, parent) for result in chunk for parent in item_of[result.item_key].inputs]
        catalogue.record_results(build.run_id, step.stage, chunk, {k: t for k, t in tables.items() if t is not None}, lineage)
        results.update({result.item_key: result for result in chunk})
        build.progress.advance(step, len(chunk))

    size = workspace.config.run.chunk_size
    chunks = [todo[k : k + size] for k in range(0, len(todo), size)]
    if todo and step.prepare is not None:
        try:
            step.prepare(workspace, todo, build.progress)
        except TrigpointError as error:
            known = _summarise(step, list(planned.known.values()), len(planned.known), time.monotonic() - began)
            catalogue.finish_stage_run(stage_run_id, known, "stopped")
            finish_build(build, "stopped", f"{step.name}: {error}")
            raise
    if chunks:
        build.runner(workspace, step, chunks, record)
    ordered = [results[item.key] for item in planned.items]
    build.done[step.name] = [result for result in ordered if result.status == "done"]
    summary = _summarise(step, ordered, len(planned.known), time.monotonic() - began)
    catalogue.finish_stage_run(stage_run_id, summary, "quarantined" if summary.n_quarantined else "done")
    build.summaries.append(summary)
    build.progress.end(summary)
    return summary


def _summarise(step: Step, results: list[ItemResult], n_reused: int, seconds: float) -> StageSummary:
    every = [drop for result in results for drop in result.drops]
    drops: Counter[str] = Counter()
    for drop in every:
        drops[drop.reason_code] += drop.n
    return StageSummary(
        stage=step.stage,
        n_items=len(results),
        n_done=sum(result.status == "done" for result in results),
        n_reused=n_reused,
        n_quarantined=sum(drop.is_quarantined for drop in every),
        n_in=sum(result.n_in for result in results),
        n_out=sum(result.n_out for result in results),
        drops=dict(sorted(drops.items())),
        seconds=round(seconds, 2),
        notes=(step.name,),
    )


def finish_build(build: Build, state: str, note: str = "") -> None:
    """Copy the calls of language models and the decisions of people into the catalogue, close the run there, let others build."""
    copy_calls(build.workspace)
    copy_decisions(build.workspace)
    build.workspace.catalogue.finish_run(build.run_id, state, note)
    release_lock(_lock_of(build.workspace))


def _lock_of(workspace: Workspace) -> Path:
    return workspace.work / "build.lock"


# one chunk, in any process


class _Outcome(NamedTuple):
    item: Item
    made: Made | None
    error: str
    is_ours: bool
    remedy: str = TrigpointError.remedy


def work_item(config_path: str, overrides: dict[str, Any], step_name: str, item: Item) -> _Outcome:
    """Work on one item in a worker process; an error becomes part of the outcome, so that the build goes on."""
    return work_here(open_workspace(config_path, overrides), STEPS[step_name], item)


def work_here(workspace: Workspace, step: Step, item: Item) -> _Outcome:
    """Work on one item in this process; see `work_item`."""
    try:
        made = step.make(workspace, item)
    except ConfigError:
        raise
    except TrigpointError as error:
        return _Outcome(item, None, str(error), True, error.remedy)
    except Exception as error:  # anything else is a fault of ours, and still only this item's
        where = traceback.extract_tb(error.__traceback__)[-1]
        return _Outcome(item, None, f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})", False)
    return _Outcome(item, made, "", True)


def _follow_parent() -> None:
    """Set a worker process up: Ctrl-C is for its parent, and it ends when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


class _Pool:
    """The worker processes of this process: started when first needed, kept from chunk to chunk."""

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._workers = 0
        self._lock = RLock()

    def get(self, workers: int) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is None or self._workers != workers:
                self.close()
                # spawn: Prefect's threads and GDAL do not survive a fork
                self._executor, self._workers = ProcessPoolExecutor(workers, get_context("spawn"), _follow_parent), workers
            return self._executor

    def close(self) -> None:
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown(wait=True, cancel_futures=True)
                self._executor = None


_POOL = _Pool()


def close_pool() -> None:
    """End the worker processes, if any were started."""
    _POOL.close()


def _outcomes(workspace: Workspace, step: Step, items: list[Item]) -> list[_Outcome]:
    workers = workspace.config.run.workers
    if workers == 1 or not step.is_parallel or len(items) == 1:
        return [work_here(workspace, step, item) for item in items]
    arguments = (str(workspace.config_path), workspace.overrides, step.name)
    futures = [_POOL.get(workers).submit(work_item, *arguments, item) for item in items]
    outcomes: list[_Outcome] = []
    for item, future in zip(items, futures, strict=True):
        try:
            outcomes.append(future.result())
        except BrokenExecutor:
            outcomes.append(_Outcome(item, None, "the worker process died", False))
    if any(outcome.error == "the worker process died" for outcome in outcomes):
        close_pool()
        outcomes = [_alone(arguments, outcome) for outcome in outcomes]
    return outcomes


def _alone(arguments: tuple[str, dict[str, Any], str], outcome: _Outcome) -> _Outcome:
    """Work again, in a process of its own, on an item that was in a pool when one of its processes died."""
    if outcome.error != "the worker process died":
        return outcome
    with ProcessPoolExecutor(1, get_context("spawn"), _follow_parent) as pool:
        try:
            return pool.submit(work_item, *arguments, outcome.item).result()
        except BrokenExecutor:
            return outcome._replace(error="the worker process died on this item (out of memory, or a crash in a library)")


def work_chunk(workspace: Workspace, step: Step, items: list[Item]) -> list[ItemResult]:
    """Work on the items of a chunk, write their tables as one shard per table, and return their results."""
    outcomes = _outcomes(workspace, step, items)
    shards: dict[str, list[pa.Table]] = {}
    for outcome in outcomes:
        for name, table in (outcome.made.tables if outcome.made else {}).items():
            tagged = table.append_column("item_id", pa.array([outcome.item.item_id] * table.num_rows, pa.string()))
            shards.setdefault(name, []).append(tagged)
    refs = {name: workspace.store.put_table(pa.concat_tables(parts).combine_chunks()) for name, parts in sorted(shards.items())}
    return [_result(step, outcome, refs) for outcome in outcomes]


def _result(step: Step, outcome: _Outcome, shards: dict[str, ArtefactRef]) -> ItemResult:
    key = outcome.item.key
    if outcome.made is None:
        drop = Drop(
            stage=step.stage,
            scope_id=outcome.item.item_id,
            item_id=outcome.item.item_id,
            reason_code="failed" if outcome.is_ours else "crashed",
            detail=outcome.error,
            remedy=outcome.remedy,
            is_quarantined=True,
        )
        return ItemResult(
            stage=step.stage,
            item_id=outcome.item.item_id,
            item_key=key,
            status="quarantined",
            content_sha256=digest_json(outcome.error),
            drops=(drop,),
        )
    made = outcome.made
    content = digest_json(
        [{name: table_digest(table) for name, table in made.tables.items()}, {name: ref.sha256 for name, ref in made.files.items()}]
    )
    return ItemResult(
        stage=step.stage,
        item_id=outcome.item.item_id,
        item_key=key,
        status="done",
        content_sha256=content,
        tables={name: shards[name] for name in sorted(made.tables)},
        files=dict(sorted(made.files.items())),
        drops=tuple(made.drops),
        n_in=made.n_in,
        n_out=made.n_out,
    )


def run_chunks(workspace: Workspace, step: Step, chunks: list[list[Item]], record: Callable[[list[ItemResult]], None]) -> None:
    """Work on chunks one after the other in this process (its workers share each chunk)."""
    for items in chunks:
        record(work_chunk(workspace, step, items))
