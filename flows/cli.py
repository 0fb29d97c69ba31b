"""The pipeline commands of the command line; loaded by name from `trigpoint.cli` (docs/design/layout.md).

Planning and looking start no server and import no Prefect; only a build with something to do does.
"""

import os
import time
import tomllib
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tasks.builds import (
    BuildFailedError,
    BuildReport,
    PlanRow,
    conclude,
    forget_quarantined,
    is_up_to_date,
    plan_build,
    raise_unless_good,
    run_until,
)
from tasks.builds import run_stage as run_stage_steps
from tasks.engine import Step, close_pool, start_build
from tasks.publish import rejected_folder
from tasks.stages import STAGES
from tasks.workspace import Workspace
from trigpoint.cli import CANNOT_RUN, FINDINGS, GOOD, print_json, print_line
from trigpoint.errors import InputError
from trigpoint.records.stage import StageSummary

out = Console()
err = Console(stderr=True)


class Bars:
    """Progress bars on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=err, disable=not err.is_terminal)
        self._task: TaskID | None = None

    def __enter__(self) -> "Bars":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, step: Step, n_items: int, n_reused: int) -> None:
        """Add a bar."""
        self._task = self._bars.add_task(step.name, total=n_items, completed=n_reused)

    def advance(self, step: Step, n: int) -> None:
        """Move it."""
        if self._task is not None:
            self._bars.advance(self._task, n)

    def end(self, summary: StageSummary) -> None:
        """Nothing to do: the bar shows it."""

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(text, style="yellow", highlight=False, markup=False)


def _workspace(config: Path, workers: int | None = None, output: Path | None = None) -> Workspace:
    overrides: dict[str, Any] = {"workers": workers, "output": None if output is None else output.resolve()}
    return Workspace(config.resolve(), {key: value for key, value in overrides.items() if value is not None})


# build


def build(config: Path, *, workers: int | None, output: Path | None, is_plain: bool, as_json: bool, is_retry: bool = False) -> int:
    """Build a release; returns the exit code."""
    began = time.monotonic()
    workspace = _workspace(config, workers, output)
    workspace.check()
    if is_retry:
        forget_quarantined(workspace)
    rows = plan_build(workspace)
    if is_up_to_date(rows):
        return _nothing_to_do(workspace, rows, as_json, began)
    try:
        report = _build_plainly(workspace) if is_plain else _build_with_prefect(workspace, config, workers, output)
    except BuildFailedError as error:
        err.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        return FINDINGS
    if as_json:
        print_json(report_json(report))
    else:
        show_report(workspace, report, time.monotonic() - began)
    return GOOD if report.state == "done" else FINDINGS


def retry(config: Path, *, workers: int | None, as_json: bool) -> int:
    """Take up what is quarantined and finish the build; returns the exit code."""
    return build(config, workers=workers, output=None, is_plain=True, as_json=as_json, is_retry=True)


def _build_plainly(workspace: Workspace) -> BuildReport:
    with Bars() as bars:
        run = start_build(workspace, "build", progress=bars)
        try:
            for stage_name in STAGES:
                run_stage_steps(run, stage_name)
            return conclude(run)
        finally:
            close_pool()


def _build_with_prefect(workspace: Workspace, config: Path, workers: int | None, output: Path | None) -> BuildReport:
    _prepare_prefect(workspace)
    from prefect.exceptions import FailedRun

    from flows.build_release import build_release
    from tasks.doors import watch_with

    with Bars() as bars:
        watch_with(bars)
        try:
            ended = build_release(str(config), workers, None if output is None else str(output))
        except FailedRun as error:
            raise BuildFailedError(str(error)) from error
    return _report_of(workspace, str(ended["run_id"]))


def _prepare_prefect(workspace: Workspace) -> None:
    """Point Prefect at the configured server, else at a temporary one of this build, and say so."""
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")  # what failed is said once, by the command itself
    if configured_server() is not None:
        return
    os.environ.setdefault("PREFECT_HOME", str(workspace.work / "prefect"))
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    err.print("no Prefect server is configured (PREFECT_API_URL): starting a temporary one, 5 to 15 s", style="dim", highlight=False)


def configured_server() -> str | None:
    """Return the URL of the Prefect server that is configured by environment or profile, without importing Prefect."""
    if os.environ.get("PREFECT_API_URL"):
        return os.environ["PREFECT_API_URL"]
    home = Path(os.environ.get("PREFECT_HOME", Path.home() / ".prefect"))
    profiles = home / "profiles.toml"
    if not profiles.is_file():
        return None
    try:
        loaded = tomllib.loads(profiles.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError:
        return None
    active = loaded.get("profiles", {}).get(os.environ.get("PREFECT_PROFILE", loaded.get("active", "")), {})
    return active.get("PREFECT_API_URL")


def _report_of(workspace: Workspace, run_id: str) -> BuildReport:
    """Rebuild the report of a finished run from the catalogue."""
    catalogue = workspace.catalogue
    run = catalogue.get_run(run_id)
    summaries = [row.summary for row in catalogue.list_stage_runs(run_id) if row.summary is not None]
    release = next((row for row in catalogue.list_releases() if row.run_id == run_id), None)
    return BuildReport(
        run_id,
        run.state if run is not None else "done",
        summaries,
        [],
        catalogue.list_drops(run_id=run_id, quarantined_only=True),
        None if release is None else release.path,
        None if release is None else release.manifest_sha256,
    )


def _nothing_to_do(workspace: Workspace, rows: list[PlanRow], as_json: bool, began: float) -> int:
    quarantined = sum(row.n_quarantined for row in rows)
    output = workspace.config.run.output
    is_rejected = not output.is_dir() and rejected_folder(output).is_dir()
    allowed = all(row.n_quarantined <= workspace.config.quarantine.allowed_share * row.n_items for row in rows)
    folder = rejected_folder(output) if is_rejected else output
    if as_json:
        print_json({"state": "up to date", "release": str(folder), "quarantined": quarantined, "rejected": is_rejected})
    else:
        print_line(f"nothing to do: {folder} is up to date ({time.monotonic() - began:.1f} s)")
        if quarantined:
            print_line(f"{quarantined} item(s) are quarantined; `trigpoint retry {workspace.config_path}` takes them up")
        if is_rejected:
            print_line(f"the audit has findings; see `trigpoint audit {folder}`")
    return GOOD if allowed and not is_rejected else FINDINGS


def report_json(report: BuildReport) -> dict[str, Any]:
    """Return a report as JSON."""
    return {
        "run_id": report.run_id,
        "state": report.state,
        "release": report.release,
        "manifest_sha256": report.manifest_sha256,
        "findings": report.findings,
        "quarantined": [drop.to_json() for drop in report.quarantined],
        "stages": [summary.to_json() for summary in report.summaries],
    }


def summary_table(summaries: list[StageSummary]) -> Table:
    """Return the stage table; lost: quarantined."""
    table = Table("step", "items", "reused", "lost", "in", "out", "dropped", "s", box=SIMPLE_HEAD)
    for s in summaries:
        dropped = sum(s.drops.values())
        name = s.notes[0] if s.notes else s.stage
        table.add_row(name, *(str(v) for v in (s.n_items, s.n_reused, s.n_quarantined, s.n_in, s.n_out, dropped)), f"{s.seconds:.1f}")
    return table


def show_report(workspace: Workspace, report: BuildReport, seconds: float) -> None:
    """Print how a build ended and how to look at it."""
    out.print(summary_table(report.summaries))
    for drop in report.quarantined:
        print_line(f"quarantined in {drop.stage}: {drop.item_id}: {drop.detail}; {drop.remedy}")
    for finding in report.findings:
        print_line(f"{finding['severity']} {finding['code']}: {finding['file']} {finding['item']}")
    if report.release is None:
        return
    folder = _shown(Path(report.release))
    print_line(f"release: {folder} ({seconds:.0f} s)")
    print_line("look at it:")
    print_line(f"  {folder}/README.md and {folder}/sample.png")
    print_line(f"  trigpoint show {folder}")
    print_line(f"  trigpoint audit {folder}")


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


# plan, stage


def plan(config: Path, *, as_json: bool) -> int:
    """Print what a build would do; returns the exit code."""
    rows = plan_build(_workspace(config))
    if as_json:
        print_json([row._asdict() for row in rows])
        return GOOD
    table = Table("step", "items", "to do", "quarantined", "why")
    for row in rows:
        if row.waits_for is not None:
            table.add_row(row.step, "?", "?", "?", f"waits for {row.waits_for}")
        else:
            why = sorted(set(row.reasons.values()))
            table.add_row(row.step, str(row.n_items), str(row.n_todo), str(row.n_quarantined), "; ".join(why[:3]))
    out.print(table)
    return GOOD


def stage(name: str, config: Path, *, force: bool, workers: int | None, as_json: bool) -> int:
    """Run one stage plainly; returns the exit code."""
    stage_name = {str(known): known for known in STAGES}.get(name)
    if stage_name is None:
        raise InputError(f"stage {name!r} is not one of {', '.join(STAGES)}")
    workspace = _workspace(config, workers)
    with Bars() as bars:
        run = start_build(workspace, f"stage {name}", progress=bars)
        try:
            run_until(run, stage_name, force=force)
            report = conclude(run, is_whole=False)
        finally:
            close_pool()
    if as_json:
        print_json(report_json(report))
    else:
        out.print(summary_table(report.summaries))
    try:
        raise_unless_good(report)
    except BuildFailedError as error:
        err.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        return FINDINGS
    return GOOD


# runs, catalogue


def runs(config: Path, run_id: str | None, *, limit: int, as_json: bool) -> int:
    """Print runs, or one run; returns the exit code."""
    catalogue = _workspace(config).catalogue
    if run_id is None:
        listed = catalogue.list_runs(limit)
        if as_json:
            print_json([_plain(row) for row in listed])
            return GOOD
        table = Table("run", "kind", "state", "began", "note")
        for row in listed:
            table.add_row(row.run_id, row.kind, row.state, f"{row.started_at:%Y-%m-%d %H:%M:%S}", row.note or "")
        out.print(table)
        return GOOD
    run = catalogue.get_run(run_id)
    if run is None:
        err.print(f"error: run {run_id!r} is not in the catalogue; `trigpoint runs {config}` lists them", style="red", highlight=False)
        return CANNOT_RUN
    stages = catalogue.list_stage_runs(run_id)
    drops = catalogue.list_drops(run_id=run_id)
    if as_json:
        print_json({"run": _plain(run), "stages": [_plain(row) for row in stages], "drops": [drop.to_json() for drop in drops]})
        return GOOD
    out.print(summary_table([row.summary for row in stages if row.summary is not None]))
    table = Table("stage", "scope", "item", "reason", "detail", "what to do")
    for drop in drops[:200]:
        table.add_row(drop.stage, drop.scope_id, drop.item_id, drop.reason_code, drop.detail, drop.remedy)
    out.print(table)
    return GOOD


def _plain(row: Any) -> dict[str, Any]:
    def value_of(value: Any) -> Any:
        return value.to_json() if hasattr(value, "to_json") else value if isinstance(value, int | float | bool | None) else str(value)

    return {key: value_of(value) for key, value in row._asdict().items()}


def catalogue_tables(config: Path, *, as_json: bool) -> int:
    """Print the tables of the catalogue; returns the exit code."""
    counts = _workspace(config).catalogue.table_counts()
    if as_json:
        print_json(counts)
        return GOOD
    table = Table("table", "rows")
    for name, n in counts.items():
        table.add_row(name, str(n))
    out.print(table)
    return GOOD


def catalogue_sql(config: Path, query: str, *, limit: int, as_json: bool) -> int:
    """Print the rows of a query; returns the exit code."""
    selected = _workspace(config).catalogue.select(query, limit)
    if as_json:
        print_json([dict(zip(selected.columns, (str(v) for v in row), strict=True)) for row in selected.rows])
        return GOOD
    table = Table(*selected.columns)
    for row in selected.rows:
        table.add_row(*(str(value) for value in row))
    out.print(table)
    return GOOD
