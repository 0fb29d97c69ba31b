"""Run one stage again, on what the stages before it have made."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from tasks.builds import conclude, contents_of, raise_unless_good, run_until
from tasks.doors import PrefectProgress, run_chunks_as_tasks, show_report
from tasks.engine import close_pool, start_build
from tasks.stages import STAGES
from tasks.workspace import Workspace
from trigpoint.errors import InputError
from trigpoint.records.stage import StageName


@flow(name="run-stage", flow_run_name="{stage} of {config}", task_runner=ThreadPoolTaskRunner(max_workers=2))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
def run_stage(config: str, stage: StageName, force: bool = False, workers: int | None = None) -> dict[str, Any]:
    """Run one stage of a release.

    Args:
        config: Path of the YAML file.
        stage: Name of the stage (collect, annotate, boxes, graph, query, language, split, publish, audit).
        force: Work on every item again, known or not.
        workers: Processes inside a task; default from the file.

    Raises:
        InputError: the stage is none of a build, or an earlier one has work to do first.
        BuildFailedError: the audit has findings, or more than the allowed share was lost.
    """
    if stage not in STAGES:
        raise InputError(f"stage {stage!r} is not one of {', '.join(STAGES)}")
    workspace = Workspace(Path(config).resolve(), {"workers": workers} if workers is not None else {})
    build = start_build(workspace, f"run-stage {stage}", run_chunks_as_tasks, PrefectProgress())
    try:
        run_until(build, stage, force=force)
        report = conclude(build, is_whole=False)
    finally:
        close_pool()
    show_report(report)
    raise_unless_good(report)
    return {"run_id": report.run_id, "stage": stage, "content_sha256": contents_of(build)}
