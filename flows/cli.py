"""The pipeline commands of the command line; loaded by name from `trigpoint.cli` (docs/design/layout.md).

Planning and looking start no server and import no Prefect; only a build with something to do does.
"""

import json
import math
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

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
from tasks.calls import CallsReport, report_calls
from tasks.engine import Pace, Step, close_pool, start_build
from tasks.publish import rejected_folder
from tasks.stages import STAGES, STEPS
from tasks.workspace import Workspace
from trigpoint.cli import FINDINGS, GOOD, INTERRUPTED, KEPT, err, make_table, nearest, out, print_json, print_line, say
from trigpoint.errors import CatalogueError, InputError, TrigpointError
from trigpoint.records.stage import Drop, StageName, StageSummary


class Bars:
    """Progress bars on a terminal; elsewhere a line every so often about what takes long."""

    def __init__(self) -> None:
        note = TextColumn("{task.fields[note]}")
        columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), note)
        self._bars = Progress(*columns, console=err, disable=not err.is_terminal)
        self._task: TaskID | None = None
        self._prepared: dict[str, TaskID] = {}
        self._pace = Pace()

    def __enter__(self) -> "Bars":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, step: Step, n_items: int, n_reused: int) -> None:
        """Add a bar."""
        self._task = self._bars.add_task(step.name, total=n_items, completed=n_reused, note="")

    def advance(self, step: Step, n: int) -> None:
        """Move it."""
        if self._task is not None:
            self._bars.advance(self._task, n)

    def prepared(self, what: str, n: int, n_total: int, note: str) -> None:
        """Move the bar of what a step prepares, or write a line when one is due."""
        if self._bars.disable:
            if self._pace.is_due(what, n, n_total):
                say(f"{what}: {n} of {n_total}, {note}")
            return
        if what not in self._prepared:
            self._prepared[what] = self._bars.add_task(what, total=n_total, note=note)
        self._bars.update(self._prepared[what], completed=n, total=n_total, note=note)

    def end(self, summary: StageSummary) -> None:
        """Nothing to do: the bar shows it."""

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._bars.console.print(text, style="yellow", highlight=False, markup=False, soft_wrap=True)


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
        n = forget_quarantined(workspace)
        say(f"taking up {_counted(n, 'quarantined item')}" if n else "nothing is quarantined")
    rows = plan_build(workspace)
    if is_up_to_date(rows):
        return _nothing_to_do(workspace, rows, as_json, began)
    report = _build_plainly(workspace) if is_plain else _build_with_prefect(workspace, config, workers, output)
    return _tell(workspace, report, as_json, began)


def _tell(workspace: Workspace, report: BuildReport, as_json: bool, began: float) -> int:
    """Say how a build ended; returns the exit code."""
    if as_json:
        print_json(report_json(report))
    else:
        show_report(workspace, report, time.monotonic() - began)
    try:
        raise_unless_good(report)
    except BuildFailedError as error:
        say(str(error), style="red")
        return FINDINGS
    return GOOD


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


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
    is_temporary = _prepare_prefect(workspace)
    from prefect.exceptions import FailedRun

    from flows.build_release import build_release
    from tasks.doors import watch_with

    began_at = datetime.now(UTC)
    with Bars() as bars, _ended_at_once_by_ctrl_c() if is_temporary else nullcontext():
        watch_with(bars)
        try:
            ended = build_release(str(config), workers, None if output is None else str(output))
        except (FailedRun, BuildFailedError) as error:
            newest = next(iter(workspace.catalogue.list_runs(1)), None)
            if newest is None or newest.started_at < began_at or newest.state not in ("findings", "quarantined"):
                raise BuildFailedError(str(error)) from error
            return _report_of(workspace, newest.run_id)
        except RuntimeError as error:
            if "Failed to reach API" not in str(error):
                raise
            url = configured_server()
            raise InputError(f"the Prefect server at {url} does not answer; start it, unset PREFECT_API_URL, or use --plain") from error
    return _report_of(workspace, str(ended["run_id"]))


@contextmanager
def _ended_at_once_by_ctrl_c() -> Generator[None]:
    """End the process at the first Ctrl-C: it ends the temporary server too, and Prefect would wait a minute for its answers.

    Every result is recorded whole or not at all, so that nothing is left half done.
    """

    def end(_number: int, _frame: Any) -> None:
        say(f"interrupted; {KEPT}", style="yellow")
        for child in multiprocessing.active_children():
            child.terminate()
        server = sys.modules.get("prefect.server.api.server")
        if server is not None:
            for instance in list(server.SubprocessASGIServer._instances.values()):
                if instance.server_process is not None:
                    instance.server_process.terminate()
        with suppress(Exception):
            multiprocessing.util._exit_function()  # pyright: ignore  # gives semaphores back, else a warning follows
        sys.stdout.flush()
        os._exit(INTERRUPTED)

    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _prepare_prefect(workspace: Workspace) -> bool:
    """Point Prefect at the configured server, else at a temporary one of this build, and say so; returns whether it is temporary."""
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")  # what failed is said once, by the command itself
    if configured_server() is not None:
        return False
    os.environ.setdefault("PREFECT_HOME", str(workspace.work / "prefect"))
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    say("no Prefect server is configured (PREFECT_API_URL): starting a temporary one, 5 to 15 s", style="dim")
    return True


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
    state = run.state if run is not None else "done"
    return BuildReport(
        run_id,
        state,
        summaries,
        _findings_in(Path(release.path)) if release is not None and state == "findings" else [],
        catalogue.list_drops(run_id=run_id, quarantined_only=True),
        None if release is None else release.path,
        None if release is None else release.manifest_sha256,
    )


def _findings_in(release: Path) -> list[dict[str, Any]]:
    return list(json.loads((release / "audit.json").read_text(encoding="utf-8"))["findings"])


def _nothing_to_do(workspace: Workspace, rows: list[PlanRow], as_json: bool, began: float) -> int:
    quarantined = sum(row.n_quarantined for row in rows)
    folder, is_rejected, manifest_sha256 = _newest_release(workspace)
    allowed = _is_within_quarantine(workspace, rows)
    findings = _findings_in(folder) if is_rejected else []
    if as_json:
        report = BuildReport(
            "", "up to date", [], findings, _quarantined_now(workspace) if quarantined else [], str(folder), manifest_sha256
        )
        print_json({**report_json(report), "run_id": None})
    else:
        print_line(f"nothing to do: {_shown(folder)} is up to date ({time.monotonic() - began:.1f} s)")
        if quarantined:
            print_line(_told_quarantined(workspace, quarantined, is_allowed=allowed))
        if is_rejected:
            print_line(f"the audit has {_counted(len(findings), 'finding')}; see `trigpoint audit {_shown(folder)}`")
    return GOOD if allowed and not is_rejected else FINDINGS


def _is_within_quarantine(workspace: Workspace, rows: list[PlanRow]) -> bool:
    return all(row.n_quarantined <= workspace.config.quarantine.allowed_share * row.n_items for row in rows)


def _told_quarantined(workspace: Workspace, n: int, *, is_allowed: bool) -> str:
    more = "" if is_allowed else f", more than quarantine.allowed_share {workspace.config.quarantine.allowed_share:g}"
    remedies = dict.fromkeys(drop.remedy for drop in _quarantined_now(workspace))
    is_mended = not remedies or TrigpointError.remedy in remedies
    retry = [f"mend, then `trigpoint retry {_shown(workspace.config_path)}`"] if is_mended else []
    todo = "; ".join([*retry, *(remedy for remedy in remedies if remedy != TrigpointError.remedy)])
    return f"{_counted(n, 'item')} quarantined{more}; {todo}"


def _newest_release(workspace: Workspace) -> tuple[Path, bool, str | None]:
    """Return where the release of an up-to-date build is, whether it was rejected, and its manifest's digest."""
    output = workspace.config.run.output
    rejected = rejected_folder(output)
    newest = next((row for row in workspace.catalogue.list_releases() if row.path in (str(output), str(rejected))), None)
    if newest is None:
        return output, False, None
    is_rejected = newest.path == str(rejected) and rejected.is_dir()
    return rejected if is_rejected else output, is_rejected, newest.manifest_sha256


def _quarantined_now(workspace: Workspace) -> list[Drop]:
    """Return what the newest whole build left in quarantine."""
    builds = (run for run in workspace.catalogue.list_runs(1000) if run.kind.startswith("build") and run.finished_at is not None)
    newest = next(builds, None)
    return [] if newest is None else workspace.catalogue.list_drops(run_id=newest.run_id, quarantined_only=True)


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
    return make_table(
        ("step", "items", "reused", "lost", "in", "out", "dropped", "s"),
        (
            (
                s.notes[0] if s.notes else s.stage,
                s.n_items,
                s.n_reused,
                s.n_quarantined,
                s.n_in,
                s.n_out,
                sum(s.drops.values()),
                round(s.seconds, 1),
            )
            for s in summaries
        ),
    )


def show_report(workspace: Workspace, report: BuildReport, seconds: float) -> None:
    """Print how a build ended and how to look at it."""
    out.print(summary_table(report.summaries))
    for drop in report.quarantined:
        print_line(_told(drop))
    for finding in report.findings:
        print_line(f"{finding['severity']} {finding['code']}: {finding['file']} {finding['item']}".rstrip())
    if report.release is None:
        return
    folder = _shown(Path(report.release))
    print_line(f"release: {folder} ({seconds:.0f} s)")
    print_line("look at it:")
    print_line(f"  {folder}/README.md and {folder}/sample.png")
    print_line(f"  trigpoint show {folder}")
    print_line(f"  trigpoint audit {folder}")


def _told(drop: Drop) -> str:
    return f"quarantined in {drop.stage}: {drop.item_id}: {drop.detail}{f'; {drop.remedy}' if drop.remedy else ''}"


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


# plan, stage


def plan(config: Path, *, as_json: bool) -> int:
    """Print what a build would do; returns the exit code."""
    workspace = _workspace(config)
    rows = plan_build(workspace)
    if as_json:
        print_json([row._asdict() for row in rows])
        return GOOD
    listed: list[tuple[Any, ...]] = []
    for row in rows:
        if row.waits_for is not None:
            listed.append((row.step, "", "", f"known once {row.waits_for} is done"))
        else:
            listed.append((row.step, row.n_items, row.n_todo, _why(row)))
    out.print(make_table(("step", "items", "to do", "why"), listed))
    print_line("")
    print_line(_conclusion(workspace, rows))
    quarantined = sum(row.n_quarantined for row in rows)
    if quarantined:
        print_line(_told_quarantined(workspace, quarantined, is_allowed=_is_within_quarantine(workspace, rows)))
    return GOOD


def _why(row: PlanRow) -> str:
    """Say in words what a step has to do and why."""
    parts: list[str] = []
    for reason, n in Counter(row.reasons.values()).most_common(3):
        which = sorted(item for item, why in row.reasons.items() if why == reason)
        parts.append(f"{reason}: {', '.join(which[:3])}{f' and {n - 3} more' if n > 3 else ''}")
    if not row.n_todo:
        parts.append("up to date")
    if row.n_quarantined:
        parts.append(f"{row.n_quarantined} quarantined")
    return "; ".join(parts)


def _conclusion(workspace: Workspace, rows: list[PlanRow]) -> str:
    if is_up_to_date(rows):
        folder, is_rejected, _ = _newest_release(workspace)
        return f"nothing to do: {_shown(folder)} is up to date{', and its audit has findings' if is_rejected else ''}"
    first = next(row for row in rows if row.n_todo)
    n_after = sum(row.waits_for is not None for row in rows)
    later = f", then on what follows from it in {_counted(n_after, 'later step')}" if n_after else ""
    return f"a build would work on {first.n_todo} of {_counted(first.n_items, 'item')} of {first.step}{later}"


def stage(name: str, config: Path, *, force: bool, workers: int | None, as_json: bool) -> int:
    """Run one stage plainly; returns the exit code."""
    stages: dict[str, StageName] = {known: known for known in STAGES}
    stage_name = stages.get(name)
    if stage_name is None:
        raise InputError(f"stage {name!r} is not one of {', '.join(STAGES)}{_meant(name, config)}")
    began = time.monotonic()
    workspace = _workspace(config, workers)
    with Bars() as bars:
        run = start_build(workspace, f"stage {name}", progress=bars)
        try:
            run_until(run, stage_name, force=force)
            report = conclude(run, is_whole=False)
        finally:
            close_pool()
    return _tell(workspace, report, as_json, began)


def _meant(name: str, config: Path) -> str:
    """Guess what was meant by a wrong stage name; empty when there is no guess."""
    if str(config) in STAGES:
        return f"; the stage stands first: `trigpoint stage {config} {name}`"
    if name in STEPS:
        return f"; {name} is a step of stage {STEPS[name].stage!r}"
    near = nearest(name, STAGES, most=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# runs, catalogue


def runs(config: Path, run_id: str | None, *, limit: int, as_json: bool) -> int:
    """Print runs, or one run; returns the exit code."""
    workspace = _workspace(config)
    if run_id is not None:
        return _one_run(workspace, run_id, as_json)
    listed = workspace.catalogue.list_runs(limit) if _catalogue_file(workspace).is_file() else []
    if as_json:
        print_json([_run_json(row) for row in listed])
    elif not listed:
        print_line(f"no runs yet; `trigpoint build {_shown(config)}` makes the first")
    else:
        rows = (
            (
                row.run_id[:_SHORT],
                row.kind,
                row.state,
                f"{row.started_at:%Y-%m-%d %H:%M:%S}",
                _took(row.started_at, row.finished_at),
                row.note or "",
            )
            for row in listed
        )
        out.print(make_table(("run", "kind", "state", "began (UTC)", "took", "note"), rows))
    return GOOD


_SHORT = 8
"""Characters of a run id in a list; the beginning of an id names a run."""


def _took(began: datetime, ended: datetime | None) -> str:
    return "not finished" if ended is None else f"{(ended - began).total_seconds():.1f} s"


def _catalogue_file(workspace: Workspace) -> Path:
    return workspace.work / "catalogue.duckdb"


def _one_run(workspace: Workspace, wanted: str, as_json: bool) -> int:
    is_there = _catalogue_file(workspace).is_file()
    known = {row.run_id: row for row in workspace.catalogue.list_runs(1_000_000)} if is_there else {}
    found = [wanted] if wanted in known else [run_id for run_id in known if wanted and run_id.startswith(wanted)]
    hint = f"`trigpoint runs {_shown(workspace.config_path)}` lists them"
    if len(found) != 1:
        what = f"names {len(found)} runs, expected one" if found else f"is not in the catalogue, which has {_counted(len(known), 'run')}"
        raise InputError(f"run {wanted!r} {what}; {hint}")
    run = known[found[0]]
    stages = workspace.catalogue.list_stage_runs(run.run_id)
    drops = workspace.catalogue.list_drops(run_id=run.run_id)
    if as_json:
        print_json({"run": _run_json(run), "stages": [_plain(row) for row in stages], "drops": [drop.to_json() for drop in drops]})
        return GOOD
    print_line(f"run {run.run_id}: {run.kind}, {run.state}, {_took(run.started_at, run.finished_at)}{f', {run.note}' if run.note else ''}")
    print_line("")
    out.print(summary_table([row.summary for row in stages if row.summary is not None]))
    _show_drops(drops)
    return GOOD


def _show_drops(drops: Sequence[Drop]) -> None:
    """Print what was quarantined line by line, and the rest by reason with an example."""
    for drop in drops:
        if drop.is_quarantined:
            print_line(_told(drop))
    by_reason: dict[tuple[str, str], list[Drop]] = {}
    for drop in drops:
        if not drop.is_quarantined:
            by_reason.setdefault((drop.stage, drop.reason_code), []).append(drop)
    if by_reason:
        rows = (
            (stage_name, reason, sum(d.n for d in group), f"{group[0].item_id}: {group[0].detail}", group[0].remedy)
            for (stage_name, reason), group in sorted(by_reason.items())
        )
        print_line("")
        out.print(make_table(("stage", "dropped because", "n", "for example", "what to do"), rows))


def _run_json(row: Any) -> dict[str, Any]:
    told = _plain(row)
    told["config"] = json.loads(told.pop("config_json"))
    return told


def _plain(row: Any) -> dict[str, Any]:
    return {key: _json_value(value) for key, value in row._asdict().items()}


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it: times in ISO form, no NaN, anything unknown as its text."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | bool | None) else str(value)


# calls of language models


def calls(config: Path, *, as_json: bool) -> int:
    """Print what each target's calls brought and cost; returns the exit code."""
    workspace = _workspace(config)
    report = report_calls(workspace)
    if as_json:
        print_json(_calls_json(workspace, report))
    elif report.targets:
        _show_calls(workspace, report)
    else:
        others = f"; the record has {_counted(report.n_others, 'call')} of other releases or versions" if report.n_others else ""
        print_line(f"no language model was asked for {report.budget_id}{others}")
    return GOOD


def _calls_json(workspace: Workspace, report: CallsReport) -> dict[str, Any]:
    settings = workspace.config.language
    return {
        "budget_id": report.budget_id,
        "record": None if report.record is None else str(report.record),
        "targets": [target.to_json() for target in report.targets],
        "spent": report.spent.to_json(),
        "limits": {"tokens": settings.max_tokens, "cost": settings.max_cost},
        "left": {"tokens": report.tokens_left, "cost": report.cost_left},
        "n_others": report.n_others,
    }


def _show_calls(workspace: Workspace, report: CallsReport) -> None:
    """Print a line per target, then the sum, what is left, and what is unsettled."""
    columns = ("scene", "category", "stage 1", "stage 2", "model", "calls", "in", "out", "cost", "unsettled")
    rows = (
        (t.scene_id, t.category, t.generated, t.verified, t.model, t.n_calls, t.tokens_in, t.tokens_out, _money(t.cost, 6), t.n_unsettled)
        for t in report.targets
    )
    out.print(make_table(columns, rows))
    spent, settings = report.spent, workspace.config.language
    has_price = settings.model in settings.prices
    cost = f", cost {_money(spent.cost)}" if has_price else ", no price (language.prices)"
    n_targets, n_calls = _counted(len(report.targets), "target"), _counted(spent.n_calls, "call")
    print_line("")
    print_line(f"{report.budget_id}: {n_targets}, {n_calls}, {spent.tokens} tokens{cost}")
    left = [
        "" if report.tokens_left is None else f"{report.tokens_left} of {settings.max_tokens} tokens",
        "" if report.cost_left is None else f"cost {_money(report.cost_left)} of {settings.max_cost:g}",
    ]
    if any(left):
        print_line(f"left: {', '.join(filter(None, left))}")
    if spent.n_unsettled:
        most = f"{spent.unsettled_tokens} tokens{f', cost {_money(spent.unsettled_cost)}' if has_price else ''}"
        print_line(
            f"unsettled: {_counted(spent.n_unsettled, 'call')} under way or cut off by a kill, at most {most}; the next build asks again"
        )
    if report.n_others:
        print_line(f"not counted: {_counted(report.n_others, 'call')} that other releases or versions paid for")


def _money(amount: float | None, digits: int = 4) -> str:
    return "no price" if amount is None else f"{amount:.{digits}f}"


def _existing_catalogue(config: Path) -> Any:
    workspace = _workspace(config)
    path = _catalogue_file(workspace)
    if not path.is_file():
        raise CatalogueError(f"catalogue {path}: there is none yet; `trigpoint build {_shown(config)}` makes it")
    return workspace.catalogue


def catalogue_tables(config: Path, *, as_json: bool) -> int:
    """Print the tables of the catalogue; returns the exit code."""
    counts = _existing_catalogue(config).table_counts()
    if as_json:
        print_json(counts)
    else:
        out.print(make_table(("table", "rows"), counts.items()))
    return GOOD


def catalogue_sql(config: Path, query: str, *, limit: int, as_json: bool) -> int:
    """Print the rows of a query; returns the exit code."""
    selected = _existing_catalogue(config).select(query, limit + 1)
    rows = selected.rows[:limit]
    if as_json:
        print_json([dict(zip(selected.columns, (_json_value(v) for v in row), strict=True)) for row in rows])
    else:
        out.print(make_table(selected.columns, [tuple("null" if value is None else value for value in row) for row in rows]))
    if len(selected.rows) > limit:
        say(f"the first {_counted(limit, 'row')}; --limit N for more")
    return GOOD
