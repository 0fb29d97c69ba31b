"""Plans and outcomes of whole builds, for flows and commands."""

import json
from typing import Any, NamedTuple

from tasks.engine import Build, PlannedStep, finish_build, plan_step, run_step
from tasks.publish import rejected_folder
from tasks.review import orphans_of, told_damaged, told_orphans
from tasks.stages import STAGES, STEPS, steps_of
from tasks.steps import Done
from tasks.tables import item_table
from tasks.workspace import Workspace
from trigpoint.errors import InputError, TrigpointError
from trigpoint.records.stage import Drop, StageName, StageSummary


class PlanRow(NamedTuple):
    """What a build would do in one step.

    Attributes:
        waits_for: Step whose results are needed before this can be planned, or None.
    """

    step: str
    stage: StageName
    n_items: int
    n_todo: int
    n_quarantined: int
    waits_for: str | None
    reasons: dict[str, str]


class BuildFailedError(TrigpointError):
    """A build ended with findings, or lost more than the allowed share; the message says which and where to look."""


class BuildReport(NamedTuple):
    """How a build ended.

    Attributes:
        state: `done`, `findings` or `quarantined`.
        manifest_sha256: Of the release that was written, if one was.
    """

    run_id: str
    state: str
    summaries: list[StageSummary]
    findings: list[dict[str, Any]]
    quarantined: list[Drop]
    release: str | None
    manifest_sha256: str | None


def plan_build(workspace: Workspace) -> list[PlanRow]:
    """Say, without working, what a build would do."""
    workspace.check()
    done: Done = {}
    rows: list[PlanRow] = []
    blocked: str | None = None
    for step in STEPS.values():
        if blocked is not None:
            rows.append(PlanRow(step.name, step.stage, 0, 0, 0, blocked, {}))
            continue
        planned = plan_step(workspace, step, done)
        rows.append(_plan_row(planned))
        if planned.todo:
            blocked = step.name
        done[step.name] = [result for result in planned.known.values() if result.status == "done"]
        done[step.name].sort(key=lambda result: result.item_id)
    return rows


def _plan_row(planned: PlannedStep) -> PlanRow:
    quarantined = sum(drop.is_quarantined for result in planned.known.values() for drop in result.drops)
    reasons = {item.item_id: planned.stale.get(item.item_id, "new or changed") for item in planned.todo}
    return PlanRow(planned.step.name, planned.step.stage, len(planned.items), len(planned.todo), quarantined, None, reasons)


def is_up_to_date(rows: list[PlanRow]) -> bool:
    """Whether a plan has nothing to do."""
    return all(row.n_todo == 0 and row.waits_for is None for row in rows)


def run_stage(build: Build, stage: StageName) -> None:
    """Run the steps of one stage."""
    build.workspace.say = build.progress.say
    for step in steps_of(stage):
        run_step(build, step)


def run_until(build: Build, stage: StageName, *, force: bool = False) -> None:
    """Run one stage on what the stages before have made, without running those.

    Raises:
        InputError: an earlier stage has work to do first.
    """
    build.workspace.say = build.progress.say
    for earlier in STAGES[: STAGES.index(stage)]:
        for step in steps_of(earlier):
            planned = plan_step(build.workspace, step, build.done)
            if planned.todo:
                raise InputError(
                    f"stage {stage!r} needs {earlier!r} first: {len(planned.todo)} of {len(planned.items)} items are new or changed;"
                    f" run `trigpoint stage {earlier}` or `trigpoint build`"
                )
            results = sorted((r for r in planned.known.values() if r.status == "done"), key=lambda r: r.item_id)
            build.done[step.name] = results
    if force:
        for step in steps_of(stage):
            if step is steps_of(stage)[0]:
                planned = plan_step(build.workspace, step, build.done)
                build.workspace.catalogue.forget_results(stage, [item.key for item in planned.items])
    run_stage(build, stage)


def findings_of(build: Build) -> list[dict[str, Any]]:
    """Return the findings of the audit of this build."""
    results = build.done.get("audit", [])
    return [json.loads(text) for result in results for text in item_table(build.workspace, result, "finding").column("text").to_pylist()]


def contents_of(build: Build) -> dict[str, dict[str, str]]:
    """Return step → item → content digest of everything a build stands on."""
    return {step: {result.item_id: result.content_sha256 for result in results} for step, results in build.done.items()}


def conclude(build: Build, *, is_whole: bool = True) -> BuildReport:
    """Close a run: record how it ended and, after a whole build, the release.

    Args:
        build: The run.
        is_whole: False after a single stage, which publishes nothing.
    """
    findings = findings_of(build)
    state = "done" if build.is_within_quarantine else "quarantined"
    if findings and state == "done":
        state = "findings"
    quarantined = build.workspace.catalogue.list_drops(run_id=build.run_id, quarantined_only=True)
    published = build.done.get("publish", [])
    manifest = published[0].files["manifest"].sha256 if published else None
    config = build.workspace.config
    folder = None
    if manifest is not None and build.done.get("audit"):
        folder = str(rejected_folder(config.run.output) if findings else config.run.output)
        if is_whole:
            build.workspace.catalogue.record_release(config.name, config.version, manifest, folder, build.run_id, state)
    note = f"{len(findings)} findings, {len(quarantined)} quarantined"
    orphans = orphans_of(build.workspace, build.done) if is_whole else []
    if orphans:
        note += f", {len(orphans)} decisions without effect"
        build.progress.say(told_orphans(orphans))
    if damaged := build.workspace.ledger.damaged if is_whole else []:
        note += f", {len(damaged)} damaged lines in the ledger of review"
        build.progress.say(told_damaged(damaged))
    finish_build(build, state, note)
    return BuildReport(build.run_id, state, build.summaries, findings, quarantined, folder, manifest)


def raise_unless_good(report: BuildReport) -> None:
    """Raise when a build is not good, so that a scheduler sees it fail.

    Raises:
        BuildFailedError: findings, or more lost than allowed.
    """
    if report.state == "findings":
        first = report.findings[0]
        raise BuildFailedError(
            f"the audit has {len(report.findings)} finding(s); first: {first['code']} in {first['file']} ({first['item']});"
            f" the release is kept in {report.release}"
        )
    if report.state == "quarantined":
        lost = "; ".join(f"{drop.stage} {drop.item_id}: {drop.detail}" for drop in report.quarantined[:5])
        remedies = "; ".join(dict.fromkeys(drop.remedy for drop in report.quarantined))
        raise BuildFailedError(f"{len(report.quarantined)} item(s) were quarantined, more than allowed: {lost}; {remedies}")


def forget_quarantined(workspace: Workspace) -> int:
    """Forget all quarantined results, so that the next run takes them up; returns their number."""
    n = 0
    for stage in STAGES:
        keys = [result.item_key for result in workspace.catalogue.list_quarantined(stage=stage)]
        if keys:
            n += workspace.catalogue.forget_results(stage, keys)
    return n
