"""The Prefect doors: the only module of tasks/ that imports Prefect. Task runs take references and return results, never pixels."""

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task
from rasterio.errors import NotGeoreferencedWarning

from tasks.builds import BuildReport
from tasks.engine import Pace, Progress, Silent, work_chunk
from tasks.stages import STEPS
from tasks.steps import Item, Step
from tasks.workspace import Workspace
from trigpoint.errors import ModelError
from trigpoint.records.stage import ItemResult, StageSummary

_watcher = threading.local()

# rasterio silences this one itself while it burns shapes, but not when two threads do so at once
warnings.filterwarnings("ignore", category=NotGeoreferencedWarning)


def watch_with(progress: Progress) -> None:
    """Let flows that run in this thread report to `progress` too (a command's progress bars)."""
    _watcher.progress = progress


def may_retry(_task: "Task[Any, Any]", _run: TaskRun, state: "State[Any]") -> bool:
    """Whether a failed chunk is tried again: by class, never by text; broken input is not, a model adapter's failure is."""
    return isinstance(state.result(raise_on_failure=False), ModelError | OSError)


@task(
    name="chunk",
    task_run_name="{step_name} {position}",
    cache_policy=NO_CACHE,
    retries=2,
    retry_delay_seconds=5,
    retry_condition_fn=may_retry,
)
def process_chunk(
    config_path: str, overrides: dict[str, Any], step_name: str, position: int, items: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Work on one chunk of items of a step; returns results as JSON."""
    results = work_chunk(Workspace(Path(config_path), overrides), STEPS[step_name], [Item.model_validate(item) for item in items])
    return [result.to_json() for result in results]


def run_chunks_as_tasks(workspace: Workspace, step: Step, chunks: list[list[Item]], record: Callable[[list[ItemResult]], None]) -> None:
    """Submit chunks to the flow's task runner; the flow's own process records each as it comes, in order."""
    named = process_chunk.with_options(name=step.name)
    arguments = [
        (str(workspace.config_path), workspace.overrides, step.name, position, [item.to_json() for item in items])
        for position, items in enumerate(chunks)
    ]
    if step.is_parallel:
        for future in [named.submit(*given) for given in arguments]:
            record([ItemResult.model_validate(value) for value in future.result()])
    else:
        for given in arguments:
            record([ItemResult.model_validate(value) for value in named(*given)])


class PrefectProgress:
    """Reports a build as Prefect progress artefacts and log lines, and to the command that watches, if any."""

    def __init__(self) -> None:
        self._also: Progress = getattr(_watcher, "progress", Silent())
        self._artifact: Any = None
        self._todo = self._seen = 0
        self._log = get_run_logger()
        self._pace = Pace()
        self._prepared: dict[str, Any] = {}

    def begin(self, step: Step, n_items: int, n_reused: int) -> None:
        """Open a progress artefact when there is something to do."""
        self._todo, self._seen = n_items - n_reused, 0
        self._artifact = None
        if self._todo:
            self._artifact = create_progress_artifact(0.0, key=f"{step.name}-progress", description=f"{step.name}: {self._todo} items")
        self._also.begin(step, n_items, n_reused)

    def advance(self, step: Step, n: int) -> None:
        """Move the progress artefact."""
        self._seen += n
        if self._artifact is not None:
            update_progress_artifact(self._artifact, progress=100.0 * self._seen / self._todo)
        self._also.advance(step, n)

    def prepared(self, what: str, n: int, n_total: int, note: str) -> None:
        """Move the progress artefact of what a step prepares, and log a line, every so often."""
        if self._pace.is_due(what, n, n_total):
            share = 100.0 * n / n_total if n_total else 100.0
            if what not in self._prepared:
                key = f"{what.replace(' ', '-')}-progress"
                self._prepared[what] = create_progress_artifact(share, key=key, description=f"{what}: {n_total}")
            else:
                update_progress_artifact(self._prepared[what], progress=share)
            self._log.info("%s: %d of %d, %s", what, n, n_total, note)
        self._also.prepared(what, n, n_total, note)

    def end(self, summary: StageSummary) -> None:
        """Log the counts of a step."""
        self._log.info(
            "%s: %d items, %d reused, %d quarantined, %.1f s",
            summary.notes[0],
            summary.n_items,
            summary.n_reused,
            summary.n_quarantined,
            summary.seconds,
        )
        self._also.end(summary)

    def say(self, text: str) -> None:
        """Log a line."""
        self._log.info(text)
        self._also.say(text)


def show_report(report: BuildReport) -> None:
    """Leave a markdown summary and a sample picture with the flow run."""
    lines = ["| step | items | reused | quarantined | in | out | seconds |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {s.notes[0]} | {s.n_items} | {s.n_reused} | {s.n_quarantined} | {s.n_in} | {s.n_out} | {s.seconds} |" for s in report.summaries
    ]
    lines += ["", f"State: **{report.state}**."]
    if report.release is not None:
        lines += [f"Release: `{report.release}`. Manifest: `{report.manifest_sha256}`."]
    lines += [""]  # a list directly under a line of text would become part of it
    lines += [f"- finding {f['code']} in {f['file']} ({f['item']})" for f in report.findings[:50]]
    lines += [f"- quarantined in {d.stage}: {d.item_id}: {d.detail}" for d in report.quarantined[:50]]
    create_markdown_artifact("\n".join(lines), key="build-summary", description="What each stage did")
    _log_report(report)
    picture = Path(report.release) / "sample.png" if report.release else None
    if picture is not None and picture.is_file():
        create_image_artifact(data_url(picture), key="sample-picture", description="Scenes of the release with their outlines")


def _log_report(report: BuildReport) -> None:
    log = get_run_logger()
    for drop in report.quarantined[:50]:
        log.warning("quarantined in %s: %s: %s; %s", drop.stage, drop.item_id, drop.detail, drop.remedy)
    for finding in report.findings[:50]:
        log.error("finding %s in %s (%s)", finding["code"], finding["file"], finding["item"])
    if report.release is not None:
        log.info("%s: %s", report.state, report.release)


def show_scores(scores: dict[str, Any]) -> None:
    """Leave the defined metrics of a score report with the flow run."""
    selection, n = scores["selection"], scores["n"]
    lines = [
        f"**{scores['submission']['name']}** on {scores['release']}, protocol {selection['protocol'] or 'none'},"
        f" split {selection['split'] or 'all'}: {selection['n_queries']} queries, {len(scores['problems'])} problems in the file.",
        "", "| metric | value | n |", "|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {name} | {value:.4f} | {n[name]} |" for name, value in scores["metrics"].items() if value is not None]
    create_markdown_artifact("\n".join(lines), key="score-summary", description="Scores of one submission")
    get_run_logger().info("eqs %s, ma_iou %s, %d queries", scores["metrics"]["eqs"], scores["metrics"]["ma_iou"], selection["n_queries"])


def data_url(picture: Path, max_side_px: int = 1200) -> str:
    """Return a picture, made smaller, as a data URL."""
    import base64
    import io

    from PIL import Image

    with Image.open(picture) as image:
        image.thumbnail((max_side_px, max_side_px))
        buffer = io.BytesIO()
        image.convert("RGB").save(buffer, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
