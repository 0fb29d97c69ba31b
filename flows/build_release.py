"""Build a release: every stage in order."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.task_runners import ThreadPoolTaskRunner

from tasks.builds import conclude, forget_quarantined, raise_unless_good, run_stage
from tasks.doors import PrefectProgress, run_chunks_as_tasks, show_report
from tasks.engine import close_pool, start_build
from tasks.stages import STAGES
from tasks.workspace import Workspace


@flow(name="build-release", flow_run_name="{config}", task_runner=ThreadPoolTaskRunner(max_workers=2))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUntypedFunctionDecorator]
def build_release(config: str, workers: int | None = None, output: str | None = None, retry: bool = False) -> dict[str, Any]:
    """Build the release of a configuration file, redoing only what changed.

    Args:
        config: Path of the YAML file.
        workers: Processes inside a task; default from the file.
        output: Release folder; default from the file.
        retry: Take up what is quarantined.

    Raises:
        BuildFailedError: the audit has findings, or more than the allowed share was lost.
    """
    overrides = {"workers": workers, "output": None if output is None else Path(output).resolve()}
    workspace = Workspace(Path(config).resolve(), {k: v for k, v in overrides.items() if v is not None})
    if retry:
        forget_quarantined(workspace)
    build = start_build(workspace, "build-release", run_chunks_as_tasks, PrefectProgress())
    try:
        for stage in STAGES:
            run_stage(build, stage)
        report = conclude(build)
    finally:
        close_pool()
    show_report(report)
    raise_unless_good(report)
    return {"run_id": report.run_id, "release": report.release, "manifest_sha256": report.manifest_sha256}
