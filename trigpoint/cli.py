"""The command line. Reading, auditing and scoring a release run from the wheel alone; building one needs the checkout.

Exit codes: 0 good; 1 findings, or more lost than allowed; 2 cannot run (bad arguments, configuration or files).
Heavy modules are imported inside the commands, so that `--help` answers at once.
"""

import difflib
import errno
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from trigpoint import __version__
from trigpoint.errors import CheckoutError, ConfigError, InputError, ReleaseError, TaxonomyError, TrigpointError

GOOD, FINDINGS, CANNOT_RUN, INTERRUPTED = 0, 1, 2, 130
"""Exit codes."""

KEPT = "what was finished is kept, the same command goes on from there"
"""What is true after an interrupted build."""

PIPED_WIDTH = 120
"""Columns of a table that does not go to a terminal, unless COLUMNS says otherwise."""


class _State:
    is_debug = False


class Commands(TyperGroup):
    """The root command: takes `--debug` anywhere, and says errors in one place."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take out `--debug`, before or after the command."""
        end = args.index("--") if "--" in args else len(args)
        _State.is_debug = "--debug" in args[:end]
        return super().parse_args(ctx, [arg for arg in args[:end] if arg != "--debug"] + args[end:])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what is wrong with files and arguments becomes one message and exit code 2."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say(f"interrupted; {KEPT}" if ctx.invoked_subcommand in _RESUMABLE else "interrupted", style="yellow")
            raise typer.Exit(INTERRUPTED) from None
        except (TrigpointError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            _tell(error, _told(error))
            raise typer.Exit(CANNOT_RUN) from None


_RESUMABLE = ("build", "stage", "retry")


def _tell(error: Exception, text: str) -> None:
    """Say what went wrong; with `--debug` where, too."""
    if _State.is_debug:
        traceback.print_exception(error)
    else:
        say(f"error: {text}", style="red")


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


app = typer.Typer(
    name="trigpoint",
    cls=Commands,
    help="Build, audit and score Earth-observation vision-language benchmarks whose answers are measured, not guessed.\n\n"
    "Exit codes: 0 good, 1 findings or more lost than allowed, 2 cannot run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Look at and check release configurations.", no_args_is_help=True)
taxonomy_app = typer.Typer(help="Look at and check taxonomies.", no_args_is_help=True)
predictions_app = typer.Typer(help="Make a submission of what other tools write.", no_args_is_help=True)
catalogue_app = typer.Typer(help="Look into the catalogue of a build (read only).", no_args_is_help=True)
app.add_typer(config_app, name="config", rich_help_panel="Setting up")
app.add_typer(taxonomy_app, name="taxonomy", rich_help_panel="Setting up")
app.add_typer(predictions_app, name="predictions", rich_help_panel="Releases")
app.add_typer(catalogue_app, name="catalogue", rich_help_panel="Building (needs the checkout)")
exchange_app = typer.Typer(help="Masks to and from QGIS, COCO, Label Studio and CVAT (docs/exchange.md).", no_args_is_help=True)
app.add_typer(exchange_app, name="exchange", rich_help_panel="Building (needs the checkout)")


def _console(is_stderr: bool) -> Console:
    stream = sys.stderr if is_stderr else sys.stdout
    return Console(stderr=is_stderr, width=None if stream.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH)


out, err = _console(is_stderr=False), _console(is_stderr=True)
"""Tables go to `out`, all that is said beside the answer to `err`."""

ConfigArgument = Annotated[Path, typer.Argument(help="Release configuration (YAML).", show_default=False)]
ReleaseArgument = Annotated[Path, typer.Argument(help="Release folder.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print_line(f"trigpoint {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)] = False,
) -> None:
    """Take the options of all commands; `Commands` reads `--debug`."""


def print_line(text: str) -> None:
    """Write a line to standard output as it is: no markup, no wrapping."""
    sys.stdout.write(f"{text}\n")


def print_json(value: Any) -> None:
    """Write indented JSON to standard output."""
    print_line(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))


def say(text: str, style: str = "") -> None:
    """Write to standard error, beside the answer: no markup, no wrapping inside paths."""
    err.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    """Lay out a table of values as they are: text is never read as markup, long cells fold, numbers stand right."""
    listed = [tuple(row) for row in rows]
    table = Table(box=SIMPLE_HEAD, show_edge=False, title=None if title is None else Text(title), title_justify="left")
    for k, column in enumerate(columns):
        is_number = bool(listed) and all(isinstance(row[k], int | float) for row in listed)
        table.add_column(Text(column), overflow="fold", justify="right" if is_number else "left")
    for row in listed:
        table.add_row(*(value if isinstance(value, Text) else Text(str(value)) for value in row))
    return table


def nearest(wanted: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names most like a wanted one."""
    names = list(known)
    near = [name for name in names if wanted and name.startswith(wanted)]
    return (near or difflib.get_close_matches(wanted, names, n=most, cutoff=0.5))[:most]


def _has_checkout() -> bool:
    try:
        return importlib.util.find_spec("flows.cli") is not None
    except ModuleNotFoundError:
        return False


def pipeline(name: str = "flows.cli", extra: str = "pipeline") -> ModuleType:
    """Load the pipeline commands from the checkout.

    Args:
        name: Their module.
        extra: What installs the libraries that it needs.

    Raises:
        CheckoutError: flows/ is not on the path, or a library of the extra is missing.
    """
    if not _has_checkout():
        raise CheckoutError(
            "this command builds releases and needs the trigpoint repository, not only the wheel; clone it, run `make demo` once, and call"
            " `.venv/bin/trigpoint` there"
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise CheckoutError(f"module {error.name!r} is missing; install it with `pip install -e '.[{extra}]'`") from error


# building


@app.command(rich_help_panel="Building (needs the checkout)")
def build(
    config: ConfigArgument,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes inside a task; default from the file.")] = None,
    output: Annotated[Path | None, typer.Option(help="Release folder; default from the file.")] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Run as a plain call, without Prefect.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Build, audit and publish a release; redoes only what changed."""
    raise typer.Exit(pipeline().build(config, workers=workers, output=output, is_plain=plain, as_json=as_json))


@app.command(rich_help_panel="Building (needs the checkout)")
def plan(config: ConfigArgument, as_json: JsonFlag = False) -> None:
    """Say what a build would do, without doing it."""
    raise typer.Exit(pipeline().plan(config, as_json=as_json))


@app.command(rich_help_panel="Building (needs the checkout)")
def stage(
    name: Annotated[
        str, typer.Argument(help="collect, annotate, boxes, graph, query, language, split, publish, audit.", show_default=False)
    ],
    config: ConfigArgument,
    force: Annotated[bool, typer.Option("--force", help="Work on every item again, known or not.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default from the file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run one stage on what the stages before it have made."""
    raise typer.Exit(pipeline().stage(name, config, force=force, workers=workers, as_json=as_json))


@app.command(rich_help_panel="Building (needs the checkout)")
def retry(
    config: ConfigArgument,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default from the file.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Take up what is quarantined, and finish the build."""
    raise typer.Exit(pipeline().retry(config, workers=workers, as_json=as_json))


@app.command(rich_help_panel="Building (needs the checkout)")
def review(
    config: ConfigArgument,
    host: Annotated[str, typer.Option(help="Address to bind to; any but this machine's own needs --token.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 for any free one. Default: one of the configuration.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="TRIGPOINT_REVIEW_TOKEN", help="Secret that every browser gives; default: links that work once.")
    ] = None,
    who: Annotated[str | None, typer.Option(help="Your name; default: everyone signs in on the page.")] = None,
    role: Annotated[str, typer.Option(help="With --who: annotator, manager or expert.")] = "annotator",
    public_url: Annotated[str | None, typer.Option(help="Where a TLS proxy serves the page, as https://review.example.org.")] = None,
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene; may be given again.")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
    no_build: Annotated[bool, typer.Option("--no-build", help="Build nothing; open on what the last build left.")] = False,
    report: Annotated[
        bool, typer.Option("--report", help="Serve no page, build nothing: print progress, change rates, agreement, spot checks.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --report: print JSON for programs.")] = False,
) -> None:
    """Serve the page where people accept, correct and return masks and sentences (docs/review.md)."""
    if report:
        raise typer.Exit(pipeline("flows.review_report", "review").report(config, scenes=scene or (), as_json=as_json))
    if as_json:
        raise InputError("--json goes with --report: the page itself prints a link")
    served = pipeline("flows.review_cli", "review").review(
        config,
        host=host,
        port=port,
        token=token,
        who=who,
        role=role,
        scenes=scene or (),
        is_built=not no_build,
        opens_browser=not no_open,
        public_url=public_url,
    )
    raise typer.Exit(served)


@app.command(rich_help_panel="Building (needs the checkout)")
def runs(
    config: ConfigArgument,
    run_id: Annotated[str | None, typer.Argument(help="One run, with its stages and drops.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Runs to list.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """List the runs of a configuration, or tell one: stages, drops, quarantine."""
    raise typer.Exit(pipeline().runs(config, run_id, limit=limit, as_json=as_json))


@app.command(rich_help_panel="Building (needs the checkout)")
def calls(config: ConfigArgument, as_json: JsonFlag = False) -> None:
    """List what a language model was asked about each target, how it ended and what it cost; also while a build runs."""
    raise typer.Exit(pipeline().calls(config, as_json=as_json))


@catalogue_app.command("tables")
def catalogue_tables(config: ConfigArgument, as_json: JsonFlag = False) -> None:
    """List the tables of the catalogue with their number of rows."""
    raise typer.Exit(pipeline().catalogue_tables(config, as_json=as_json))


@catalogue_app.command("sql")
def catalogue_sql(
    config: ConfigArgument,
    query: Annotated[str, typer.Argument(help="A SELECT; the catalogue is opened read only.", show_default=False)],
    limit: Annotated[int, typer.Option(min=1, help="Rows to print.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """Run a query on the catalogue."""
    raise typer.Exit(pipeline().catalogue_sql(config, query, limit=limit, as_json=as_json))


@exchange_app.command("export")
def exchange_export(
    config: ConfigArgument,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder to make.", show_default=False)],
    format_name: Annotated[str, typer.Option("--format", help="gpkg (QGIS), coco, label-studio or cvat.", show_default=False)],
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene; may be repeated.")] = None,
    what: Annotated[str, typer.Option(help="waiting: what the policy keeps back; or all.")] = "all",
    form: Annotated[str, typer.Option("--as", help="Label Studio and CVAT: mask, polygon or box.")] = "mask",
    url_prefix: Annotated[str, typer.Option(help="Label Studio: what stands before the name of a picture.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Write masks with their pictures for another program."""
    commands = pipeline("flows.exchange_cli")
    asked = {"format_name": format_name, "folder": out_folder, "scenes": scene or (), "which": what, "form": form, "url_prefix": url_prefix}
    raise typer.Exit(commands.export(config, **asked, as_json=as_json))


@exchange_app.command("import")
def exchange_import(
    config: ConfigArgument,
    file: Annotated[Path, typer.Argument(help="GeoPackage, COCO or Label Studio JSON, CVAT XML, or a zip of one.", show_default=False)],
    who: Annotated[str, typer.Option(help="Who signs the decisions.", show_default=False)],
    role: Annotated[str, typer.Option(help="annotator, manager or expert.")] = "annotator",
    removed: Annotated[str, typer.Option(help="What becomes of exported masks that are not in the file: report or reject.")] = "report",
    round_number: Annotated[
        int | None, typer.Option("--round", min=1, help="Policy unanimous: the round, where one decides in several.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and write nothing.")] = False,
    partial: Annotated[bool, typer.Option("--partial", help="Take in what is good although there are problems.")] = False,
    list_file: Annotated[Path | None, typer.Option("--list", help="export.json of the export, when it is not beside the file.")] = None,
    orientation: Annotated[int, typer.Option(min=1, max=8, help="Turn tag (Exif) of other pictures than the exported ones.")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Take in masks that people edited, added, split or removed elsewhere; nobody's decision is overwritten."""
    commands = pipeline("flows.exchange_cli")
    how = {"round_number": round_number, "is_dry": dry_run, "is_partial": partial, "list_file": list_file, "orientation": orientation}
    raise typer.Exit(commands.import_(config, file, who=who, role=role, removed=removed, **how, as_json=as_json))


# releases


@app.command(rich_help_panel="Releases")
def audit(
    release: ReleaseArgument,
    sources: Annotated[Path | None, typer.Option(help="Folder with the original rasters: every window is cut again and compared.")] = None,
    certificate: Annotated[bool, typer.Option("--certificate", help="Repeat all jitters of the certificate, not just two.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Audit a release from its files alone: one line per finding, exit 0 only without any."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from trigpoint.audit import AuditError, audit_release

    if sources is not None and not sources.is_dir():
        raise InputError(f"--sources {sources}: is no folder; give the one that holds the original rasters")

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        bar = bars.add_task("audit", total=None)

        def show(check: str, position: int, total: int) -> None:
            bars.update(bar, description=check, completed=position, total=total)

        try:
            report = audit_release(release, sources=sources, progress=show, certificate=certificate)
        except AuditError as error:
            raise ReleaseError(f"release {release}: {error}; give the folder that holds manifest.json") from error
    if as_json:
        print_json(report.to_json())
    else:
        for finding in report.findings:
            item = f" {finding.item}" if finding.item else ""
            line = f"{finding.severity} {finding.code}: {finding.file}{item}: expected {finding.expected}, found {finding.found}"
            print_line(" ".join(line.splitlines()))
        n = len(report.findings)
        say(f"{'no' if n == 0 else n} finding{'' if n == 1 else 's'} in {release}", style="red" if n else "green")
        for line in report.not_certified:
            say(f"not certified: {line}", style="dim")
    raise typer.Exit(FINDINGS if report.findings else GOOD)


@app.command(rich_help_panel="Releases")
def score(
    release: ReleaseArgument,
    predictions: Annotated[
        list[Path], typer.Argument(help="Predictions (JSONL or Parquet); several files are compared.", show_default=False)
    ],
    json_file: Annotated[str | None, typer.Option("--json", help="Write the report as JSON to this file; - for standard output.")] = None,
    markdown_file: Annotated[str | None, typer.Option("--markdown", help="Write the report as Markdown; - for standard output.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Split protocol, such as scene-disjoint.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the protocol: train, val or test.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only queries of this kind: answerable, category_absent or relation_unsatisfied.")
    ] = None,
    resamples: Annotated[int, typer.Option(help="Several files: bootstrap resamples of the scenes.")] = 10_000,
    significance: Annotated[float, typer.Option(help="Several files: level of significance after Holm's correction.")] = 0.05,
    seed: Annotated[int, typer.Option(help="Several files: seed of the resamples.")] = 0,
) -> None:
    """Score predictions against a release. Default: all queries. What the numbers mean: docs/scores.md."""
    from trigpoint.scoring.comparison import Settings
    from trigpoint.scoring.scorecard import score_files

    if json_file == markdown_file == "-":
        raise InputError("--json - and --markdown - both write to standard output; give one of them a file")
    report = score_files(release, predictions, protocol, split, kind, Settings(resamples, significance, seed))
    _write_text(json_file, json.dumps(report.to_json(), indent=2, sort_keys=True, ensure_ascii=False))
    _write_text(markdown_file, report.to_markdown().rstrip("\n"))
    if "-" not in (json_file, markdown_file):
        out.print(report.to_table())


def _write_text(target: str | None, text: str) -> None:
    if target == "-":
        print_line(text)
    elif target is not None:
        Path(target).write_text(f"{text}\n", encoding="utf-8")
        say(f"wrote {target}")


@predictions_app.command("from-coco")
def predictions_from_coco(
    release: ReleaseArgument,
    results: Annotated[Path, typer.Argument(help="COCO results: a JSON list of detections.", show_default=False)],
    output: Annotated[Path, typer.Argument(help="JSONL or Parquet to write.", show_default=False)],
    score_threshold: Annotated[float, typer.Option(help="Detections with a lower score are left out.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="Name of the submission; default is the file's name.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Convert COCO results; detections of a category answer the queries that ask for it by name. Exit 1 if anything was wrong."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.converters import convert_coco

    found = convert_coco(Release.open(release), results, output, score_threshold, name)
    _tell_conversion(found, output, as_json, f"{found.n_used} results used, {found.n_below} below the threshold")


@predictions_app.command("from-json")
def predictions_from_json(
    release: ReleaseArgument,
    answers: Annotated[Path, typer.Argument(help="JSON object of one model: query id → masks, boxes.", show_default=False)],
    output: Annotated[Path, typer.Argument(help="JSONL or Parquet to write.", show_default=False)],
    space: Annotated[str, typer.Option(help="Of polygons and boxes: pixel, normalised or per_mille.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="Name of the submission; default is the file's name.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Convert one JSON object per model. Exit 1 if anything was wrong."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.converters import convert_json

    found = convert_json(Release.open(release), answers, output, space, name)
    _tell_conversion(found, output, as_json, f"{found.n_used} answers used")


def _tell_conversion(found: Any, output: Path, as_json: bool, used: str) -> None:
    if as_json:
        print_json({**found._asdict(), "problems": [problem._asdict() for problem in found.problems], "output": str(output)})
    else:
        for problem in found.problems:
            print_line(" ".join(f"{problem.where} {problem.code} {problem.query_id}: {problem.detail}".split()))
        say(f"wrote {output}: {found.n_records} records, {found.n_unparsed} of them unparsed; {used}; {len(found.problems)} problem(s)")
    raise typer.Exit(FINDINGS if found.problems else GOOD)


PlotsOption = Annotated[Path | None, typer.Option("--plots", help="Draw PNGs into this folder.")]
CsvOption = Annotated[Path | None, typer.Option("--csv", help="Write every table as CSV into this folder.")]
MarkdownOption = Annotated[str | None, typer.Option("--markdown", help="Write a page of Markdown; - for standard output.")]


@app.command(rich_help_panel="Releases")
def analyse(
    release: Annotated[Path | None, typer.Argument(help="Release folder; not with --table.", show_default=False)] = None,
    predictions: Annotated[
        list[Path] | None, typer.Argument(help="Predictions of several models, JSONL or Parquet.", show_default=False)
    ] = None,
    table: Annotated[list[Path] | None, typer.Option(help="CSV of published scores, instead of a release; may be given again.")] = None,
    json_file: Annotated[str | None, typer.Option("--json", help="Write JSON to this file; - for standard output.")] = None,
    markdown_file: MarkdownOption = None,
    csv: CsvOption = None,
    plots: PlotsOption = None,
    protocol: Annotated[str | None, typer.Option(help="Split protocol, such as scene-disjoint.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the protocol: train, val or test.")] = None,
    size: Annotated[list[int] | None, typer.Option(help="Categories per subset; may be given again. Default 5 10 20 50 100 150.")] = None,
    draws: Annotated[int, typer.Option(help="Category subsets per size, and draws of scenes.")] = 1_000,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of the models.")] = 10_000,
    top: Annotated[int, typer.Option(help="Best models whose agreement over aggregations is counted.")] = 10,
    best: Annotated[int, typer.Option(help="Best models whose recovery by category subsets is counted.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of all draws.")] = 0,
) -> None:
    """Ask how far a ranking of models depends on averaging, query form, categories and scenes (docs/analyses.md)."""
    from trigpoint.analysis.analyse import AnalysisSettings, analyse
    from trigpoint.analysis.material import from_predictions, read_tables

    settings = AnalysisSettings(tuple(size) if size else AnalysisSettings().sizes, draws, resamples, top, best, seed)
    settings.check()
    if json_file == markdown_file == "-":
        raise InputError("--json - and --markdown - both write to standard output; give one of them a file")
    if bool(table) == (release is not None):
        raise InputError("give a release and prediction files, or published scores by --table; one of the two")
    if table:
        if protocol or split:
            raise InputError("--protocol and --split choose queries of a release; published scores have none")
        material = read_tables(table)
    else:
        if release is None or not predictions:
            raise InputError(f"no prediction file is given for release {release}")
        material = from_predictions(release, predictions, protocol, split)
    found = analyse(material, settings)
    _write_text(json_file, _json_text(found.page.to_json()))
    _write_page(found.page, markdown_file, csv, is_shown="-" not in (json_file, markdown_file))
    if plots is not None:
        from trigpoint.analysis.plots import draw_analysis

        say(f"wrote {len(draw_analysis(found, plots))} plots to {plots}")


@app.command(rich_help_panel="Releases")
def statistics(
    release: ReleaseArgument,
    as_json: JsonFlag = False,
    markdown_file: MarkdownOption = None,
    csv: CsvOption = None,
    plots: PlotsOption = None,
) -> None:
    """Say what a release holds: images, annotations, boxes, language, regions, and how it stands beside other data sets."""
    from trigpoint.analysis.statistics import release_statistics
    from trigpoint.release.reader import Release

    if as_json and markdown_file == "-":
        raise InputError("--json and --markdown - both write to standard output; give Markdown a file")
    found = release_statistics(Release.open(release))
    if as_json:
        print_line(_json_text(found.page.to_json()))
    _write_page(found.page, markdown_file, csv, is_shown=not as_json and markdown_file != "-")
    if plots is not None:
        from trigpoint.analysis.plots import draw_statistics

        say(f"wrote {len(draw_statistics(found, plots))} plots to {plots}")


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def _write_page(page: Any, markdown_file: str | None, csv: Path | None, is_shown: bool) -> None:
    _write_text(markdown_file, page.to_markdown().rstrip("\n"))
    if csv is not None:
        say(f"wrote {len(page.write_csv(csv))} tables to {csv}")
    if is_shown:
        out.print(page.to_table())


@app.command("predict-truth", rich_help_panel="Releases")
def predict_truth(
    release: ReleaseArgument, output: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)]
) -> None:
    """Write the submission that gives every answer exactly; it scores 1 in every metric."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.baselines import predict_truth as write

    say(f"wrote {output}: {write(Release.open(release), output)} predictions")


@app.command("predict-silence", rich_help_panel="Releases")
def predict_silence(
    release: ReleaseArgument, output: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)]
) -> None:
    """Write the submission that never answers; it scores what silence earns."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.baselines import predict_silence as write

    say(f"wrote {output}: {write(Release.open(release), output)} predictions")


@app.command(rich_help_panel="Releases")
def show(
    release: ReleaseArgument,
    item: Annotated[
        str | None,
        typer.Argument(
            help="Id of a scene (s-), query (q-), instance (i-), annotation (a-), sentence (t-) or decision (d-); without one the release"
            " is described.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="PNG to write; default <item>.png here.")] = None,
    relation: Annotated[str | None, typer.Option(help="With a scene and --anchor: draw what is in this relation to the anchor.")] = None,
    anchor: Annotated[str | None, typer.Option(help="Instance for --relation.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Describe a release, or tell and draw anything in it: what it is, what was measured, asked, checked and decided."""
    from trigpoint.release.reader import Release

    opened = Release.open(release)
    if (relation is None) != (anchor is None) or (relation is not None and item not in opened.scene_by_id):
        raise InputError("--relation and --anchor go together, with a scene: show RELEASE s-… --relation near --anchor i-…")
    if item is None:
        _describe(opened, as_json)
        return
    target = output or Path(f"{item}.png")
    if target.suffix.lower() != ".png":
        raise InputError(f"--output {target}: a picture is written as PNG; end its name in .png")
    from trigpoint.release.show import draw_item, png_bytes

    if relation is not None and anchor is not None:
        picture, document, text = _told_relation(opened, item, relation, anchor)
    else:
        from trigpoint.release.show_cards import card_of, card_to_text
        from trigpoint.release.show_documents import document_of

        _check_item(opened, item)
        document = document_of(opened, item)
        picture, text = draw_item(opened, item, document), card_to_text(card_of(document))
    target.write_bytes(png_bytes(picture))
    if as_json:
        print_json({**document, "picture": str(target)})
        return
    out.print(text)
    say(f"wrote {target}")


def _told_relation(release: Any, scene: str, relation: str, anchor: str) -> tuple[Any, dict[str, Any], Any]:
    """Return the picture of a relation to an anchor, what it tells, and that as text."""
    from trigpoint.release.show import draw_relation, subjects_of

    _check_known("relation", relation, release.rules.relation_names)
    _check_known("anchor", anchor, [row.instance_id for row in release.instances_of_scene[scene]])
    found = subjects_of(release, scene, relation, anchor)
    document = {"item": scene, "type": "relation", "scene_id": scene, "relation": relation, "anchor_id": anchor, "subjects": found}
    text = Text(f"{relation} {anchor}: {len(found['TRUE'])} TRUE, {len(found['UNDECIDED'])} UNDECIDED (trigpoint graph lists them)")
    return draw_relation(release, scene, relation, anchor), document, text


def _check_item(release: Any, item: str) -> None:
    """Refuse an id that names nothing, with the nearest ones of its kind."""
    from trigpoint.release.show_documents import history_of, item_ids, item_type

    try:
        item_type(release, item)
    except InputError as error:
        if history_of(release, item):
            raise
        ids = item_ids(release)
        near = nearest(item, [one for known in ids.values() for one in known if one[:2] == item[:2]])
        if near:
            raise InputError(f"{error}; the nearest ids are {', '.join(near)}") from None
        some = ", ".join(f"{known[0]} ({name})" for name, known in ids.items() if known)
        raise InputError(f"{error}; it has ids such as {some}") from None


def _describe(release: Any, as_json: bool) -> None:
    manifest = release.manifest
    keys = ("name", "version", "format_version", "counts", "licences", "review", "versions")
    missing = [key for key in keys if key not in manifest]
    if missing:
        raise ReleaseError(f"release {release.folder}: manifest.json lacks {', '.join(missing)}; run trigpoint audit on it")
    if as_json:
        print_json({key: manifest[key] for key in keys})
        return
    counts = make_table(
        ("", ""),
        (
            (key, ", ".join(f"{k}: {v}" for k, v in value.items()) or "none" if isinstance(value, dict) else str(value))
            for key, value in manifest["counts"].items()
        ),
        title=release.name,
    )
    counts.show_header = False
    out.print(counts)
    print_line("")
    n_queries: dict[str, int] = {}
    for query in release.queries:
        n_queries[query.scene_id] = n_queries.get(query.scene_id, 0) + 1
    out.print(
        make_table(
            ("scene", "source", "size", "true pixel (m)", "queries"),
            (
                (
                    row["scene_id"],
                    row["source"],
                    f"{row['width']} × {row['height']}",
                    f"{row['gsd_m']:.4f}",
                    n_queries.get(row["scene_id"], 0),
                )
                for row in release.scenes.select(["scene_id", "source", "width", "height", "gsd_m"]).to_pylist()
            ),
        )
    )


@app.command(rich_help_panel="Releases")
def graph(
    release: ReleaseArgument,
    scene: Annotated[str, typer.Argument(help="Scene id.", show_default=False)],
    relation: Annotated[str | None, typer.Option(help="Only this relation, such as north_of.")] = None,
    anchor: Annotated[str | None, typer.Option(help="Only edges to this instance.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only edges from this instance.")] = None,
    undecided: Annotated[bool, typer.Option("--undecided", help="List UNDECIDED edges too.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Most edges to list; 0 lists all.")] = 40,
    graphml: Annotated[Path | None, typer.Option(help="GraphML file to write with the chosen edges.")] = None,
    draw: Annotated[Path | None, typer.Option(help="PNG to draw; needs --relation and --anchor.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Look into the scene graph of a scene: how many edges of which relation, or the edges themselves."""
    from trigpoint.release.reader import Release

    opened = Release.open(release)
    _check_known("scene", scene, opened.scene_by_id)
    members = {row.instance_id: row for row in opened.instances_of_scene[scene]}
    for name, value, known in (
        ("relation", relation, opened.rules.relation_names),
        ("anchor", anchor, members),
        ("subject", subject, members),
    ):
        if value is not None:
            _check_known(name, value, known)
    if draw is not None and (relation is None or anchor is None or draw.suffix.lower() != ".png"):
        raise InputError(f"--draw {draw}: needs --relation and --anchor, and a name that ends in .png")
    edges = _edges_of(opened.relations, scene, relation, anchor, subject)
    is_listing = undecided or any(value is not None for value in (relation, anchor, subject))
    if is_listing and not undecided:
        edges = _where(edges, "verdict", "TRUE")
    if graphml is not None:
        from trigpoint.scene_graph.network import network_from_tables, write_graphml

        write_graphml(network_from_tables(scene, opened.instances, edges), graphml)
        say(f"wrote {graphml}")
    if draw is not None and relation is not None and anchor is not None:
        from trigpoint.release.show import draw_relation

        draw_relation(opened, scene, relation, anchor).save(draw)
        say(f"wrote {draw}")
    if is_listing:
        _list_edges(edges, members, limit, as_json)
    else:
        _sum_up_graph(scene, edges, members, opened.rules.relation_names, as_json)


def _check_known(what: str, value: str, known: Iterable[str]) -> None:
    names = list(known)
    if value not in names:
        near = ", ".join(nearest(value, names) or names[:3]) or "none at all"
        raise InputError(f"there is no {what} {value!r} here; the nearest are {near}")


def _where(table: Any, column: str, value: str) -> Any:
    import pyarrow.compute as pc

    return table.filter(pc.field(column) == value)


def _edges_of(relations: Any, scene: str, relation: str | None, anchor: str | None, subject: str | None) -> Any:
    """Return the chosen rows of relations.parquet."""
    for column, value in (("scene_id", scene), ("relation", relation), ("anchor_id", anchor), ("subject_id", subject)):
        if value is not None:
            relations = _where(relations, column, value)
    return relations


def _list_edges(edges: Any, members: dict[str, Any], limit: int, as_json: bool) -> None:
    shown = edges.slice(0, limit or None).to_pylist()
    if as_json:
        print_json({"n_edges": edges.num_rows, "edges": shown})
        return

    def kind(instance_id: str) -> str:
        return (members[instance_id].category or ("unknown",))[0]

    def measured(edge: dict[str, Any]) -> str:
        return "" if edge["value"] is None else f"{edge['value']:.4g} {edge['unit']} (± {edge['margin']:.3g})"

    rows = (
        (s, kind(s), edge["relation"], a, kind(a), edge["verdict"], measured(edge))
        for edge, s, a in ((edge, edge["subject_id"], edge["anchor_id"]) for edge in shown)
    )
    out.print(make_table(("subject", "is a", "relation", "anchor", "is a", "verdict", "value (margin)"), rows))
    if len(shown) < edges.num_rows:
        say(f"{edges.num_rows - len(shown)} more edges; --limit 0 lists all")


def _sum_up_graph(scene: str, edges: Any, members: dict[str, Any], relations: Sequence[str], as_json: bool) -> None:
    counts = {name: {"TRUE": 0, "UNDECIDED": 0} for name in relations}
    for row in edges.group_by(["relation", "verdict"]).aggregate([([], "count_all")]).to_pylist():
        counts[row["relation"]][row["verdict"]] = row["count_all"]
    n_discrete = sum(row.countable for row in members.values())
    n_regions = len(members) - n_discrete
    if as_json:
        print_json({"scene_id": scene, "nodes": {"discrete": n_discrete, "regions": n_regions}, "edges": counts})
        return
    print_line(f"{scene}: {n_discrete} discrete instances, {n_regions} regions, {edges.num_rows} edges")
    out.print(make_table(("relation", "TRUE", "UNDECIDED"), ((name, *found.values()) for name, found in counts.items())))


# setting up


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of a configuration, with what every key means."""
    from trigpoint.config import ReleaseConfig

    print_json(ReleaseConfig.model_json_schema())


@config_app.command("check")
def config_check(config: ConfigArgument, as_json: JsonFlag = False) -> None:
    """Check a configuration: keys, values, whether its input files are there, names of its taxonomy, and licences."""
    from trigpoint.config import check_files, check_licences, check_names, load_config

    problems: list[str] = []
    loaded = None
    try:
        loaded = load_config(config)
        problems = check_files(loaded) or check_names(loaded) + check_licences(loaded)
    except (ConfigError, TaxonomyError) as error:
        if not as_json:
            raise
        lines = [line.strip() for line in str(error).splitlines()]
        problems = lines[1:] or lines
    if as_json:
        digest = None if loaded is None else loaded.sha256()
        declared = {} if loaded is None else loaded.licences.declared()
        print_json({"config": str(config), "good": not problems, "problems": problems, "config_sha256": digest, "licences": declared})
        raise typer.Exit(CANNOT_RUN if problems else GOOD)
    if problems:
        raise ConfigError(f"configuration {config}: {len(problems)} problem(s):\n  " + "\n  ".join(problems))
    if loaded is not None:
        n = len(loaded.sources)
        print_line(f"{config}: good ({n} source{'' if n == 1 else 's'}, digest {loaded.sha256()[:12]})")
        declared = loaded.licences.declared()
        print_line(
            f"licences: {', '.join(f'{layer} {name}' for layer, name in declared.items()) or 'those of the sources, which go together'}"
        )


@config_app.command("example")
def config_example() -> None:
    """Print a small configuration to start from."""
    from importlib.resources import files

    print_line(files("trigpoint").joinpath("example.yaml").read_text(encoding="utf-8").rstrip())


TaxonomyArgument = Annotated[Path, typer.Argument(help="Taxonomy file (YAML).", show_default=False)]


@taxonomy_app.command("check")
def taxonomy_check(path: TaxonomyArgument, as_json: JsonFlag = False) -> None:
    """Check a taxonomy file; also says what of it is unreviewed, and which published negatives may be there after all."""
    from trigpoint.categories import BASES, load_taxonomy

    taxonomy = load_taxonomy(path)
    filled = {field: {basis: found[basis] for basis in BASES} for field, found in taxonomy.filled_by_basis().items() if found}
    doubtful = [
        {"category": category.id, "negative": text, "is": relation}
        for category in taxonomy.categories
        for text in category.negatives
        if (relation := taxonomy.name_relation(text, category.id)) not in ("look_alike", "other")
    ]
    if as_json:
        counts = {"axes": len(taxonomy.axes), "categories": len(taxonomy.categories)}
        identity = {"taxonomy": str(path), "name": taxonomy.name, "version": taxonomy.version, "good": True}
        print_json({**identity, **counts, "filled": filled, "doubtful_negatives": doubtful})
        return
    print_line(
        f"{path}: good ({taxonomy.name} version {taxonomy.version}, {len(taxonomy.axes)} axes, {len(taxonomy.categories)} categories)"
    )
    if filled:
        out.print(make_table(("categories that fill", *BASES), ((field, *found.values()) for field, found in filled.items())))
    for row in doubtful:
        print_line(f"never a negative: {row['negative']!r} of {row['category']} is {row['is']}")


@taxonomy_app.command("show")
def taxonomy_show(
    path: TaxonomyArgument,
    category: Annotated[str | None, typer.Argument(help="One category, by id or name; else all are listed.", show_default=False)] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the categories of a taxonomy, or tell all of one."""
    from trigpoint.categories import load_taxonomy

    taxonomy = load_taxonomy(path)
    if category is not None:
        named = [category] if category in taxonomy.by_id else list(taxonomy.categories_named(category))
        for category_id in named or [category]:
            _tell_category(taxonomy, category_id, as_json)
        return
    if as_json:
        print_json(taxonomy.to_json())
        return
    rows: list[tuple[str, ...]] = []
    for one in taxonomy.categories:
        depth = "  " * (len(taxonomy.ancestors(one.id)) - 1)
        said = one.plural or one.phrase or ""
        rows.append((one.axis, depth + one.id, "yes" if one.countable else "region", said, "; ".join(one.osm)))
    out.print(make_table(("axis", "category", "counted", "said", "found by"), rows))


def _tell_category(taxonomy: Any, category_id: str, as_json: bool) -> None:
    from trigpoint.categories import EXTENDED_FIELDS

    known = taxonomy.get(category_id)
    filled = [field for field in EXTENDED_FIELDS if getattr(known, field)]
    if as_json:
        print_json({**known.to_json(), "basis": {field: taxonomy.basis_of(known.id, field) for field in filled}})
        return

    def told(value: Any) -> str:
        return "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)

    rows: list[tuple[str, str, str]] = [
        (name, told(value), taxonomy.basis_of(known.id, name) if name in filled else "")
        for name, value in ((name, getattr(known, name)) for name in type(known).model_fields if name != "basis")
        if value not in (None, ())
    ]
    out.print(make_table(("of " + known.id, "", "basis"), rows))


@taxonomy_app.command("find")
def taxonomy_find(
    path: TaxonomyArgument,
    text: Annotated[list[str], typer.Argument(help="A name, or tags as key=value.", show_default=False)],
    as_json: JsonFlag = False,
) -> None:
    """Say which categories a name means or touches, or which a feature with these tags gets."""
    from trigpoint.categories import load_taxonomy

    taxonomy = load_taxonomy(path)
    if any("=" in word for word in text):
        for tag in text:
            if not all(part.strip() for part in tag.partition("=")):
                raise InputError(f"tag {tag!r}: expected key=value, such as building=school")
        values, torn = taxonomy.values_from_tags({tag.partition("=")[0]: tag.partition("=")[2] for tag in text})
        if as_json:
            print_json({"categories": list(values), "disagree_on": list(torn)})
            return
        print_line(", ".join(values) or "none")
        if torn:
            print_line(f"tags disagree on: {', '.join(torn)}")
        return
    name = " ".join(text)
    if not name.strip():
        raise InputError("the name is empty; give a name such as 'swimming pool', or tags such as building=school")
    rows = [(relation, c.id) for c in taxonomy.categories if (relation := taxonomy.name_relation(name, c.id)) not in ("other", "unknown")]
    rows += [("tag", c.id) for c in taxonomy.categories if any(word in name.split() for word in _tag_words(c.osm))]
    if as_json:
        print_json([{"category": category_id, "is": relation} for relation, category_id in rows])
    elif rows:
        out.print(make_table((f"{name!r} is", "category"), rows))
    else:
        near = nearest(name, [said for c in taxonomy.categories for said in c.names])
        print_line(f"none{'; nearest: ' + ', '.join(near) if near else ''}")


def _tag_words(expressions: Iterable[str]) -> set[str]:
    """Return the keys and values of tag expressions."""
    return {word for text in expressions for word in re.split(r"[\s&|=!]+", text) if word}


@taxonomy_app.command("overlap")
def taxonomy_overlap(
    path: TaxonomyArgument,
    other: Annotated[
        Path, typer.Argument(help="Another taxonomy, one name a line, or a CSV with a column `category`.", show_default=False)
    ],
    as_json: JsonFlag = False,
) -> None:
    """Compare the categories with another data set's, both ways: exact, over the hierarchy, or unmatched."""
    from trigpoint.categories import load_taxonomy
    from trigpoint.overlap import MATCHES, compare, read_other

    taxonomy = load_taxonomy(path)
    found = compare(taxonomy, read_other(other))
    if as_json:
        sides = {side: [row._asdict() for row in rows] for side, rows in (("ours", found.ours), ("theirs", found.theirs))}
        print_json({"taxonomy": taxonomy.name, "other": other.name, "counts": found.counts(), "left_out": list(found.left_out), **sides})
        return
    counts = found.counts()
    sides = ((taxonomy.name, counts["ours"]), (other.name, counts["theirs"]))
    out.print(make_table(("categories of", *MATCHES), ((name, *(counted[match] for match in MATCHES)) for name, counted in sides)))
    print_line("")
    rows = ((row.name, row.match, ", ".join(f"{name} ({relation})" for name, relation in row.met)) for row in found.theirs)
    out.print(make_table((other.name, "match", taxonomy.name), rows))
    if found.left_out:
        print_line(f"catch-all classes left out: {', '.join(found.left_out)}")


@app.command(rich_help_panel="Setting up")
def doctor(as_json: JsonFlag = False) -> None:
    """Say what this installation can do, and what is missing for the rest."""
    from trigpoint.versions import library_versions

    groups = {
        "score, audit, show": (
            "numpy",
            "scipy",
            "shapely",
            "pyproj",
            "rasterio",
            "pyarrow",
            "pydantic",
            "pycocotools",
            "pillow",
            "networkx",
            "matplotlib",
        ),
        "build": ("prefect", "duckdb", "fsspec", "geopandas", "pyogrio", "osmium", "pystac"),
        "several machines (dask)": ("prefect-dask",),
        "SAM 2 proposals (sam2)": ("torch", "torchvision", "sam2"),
    }
    rows = {name: {lib: library_versions([lib]).get(lib) for lib in libraries} for name, libraries in groups.items()}
    has_checkout = _has_checkout()
    if as_json:
        print_json({"trigpoint": __version__, "python": sys.version.split()[0], "checkout": has_checkout, "libraries": rows})
    else:
        listed = ((name, lib, found or Text("missing", "red")) for name, libraries in rows.items() for lib, found in libraries.items())
        title = f"trigpoint {__version__}, Python {sys.version.split()[0]}"
        out.print(make_table(("for", "library", "installed"), listed, title=title))
        print_line(f"checkout: {'found' if has_checkout else 'not found; building needs it'}")
    core = rows["score, audit, show"]
    raise typer.Exit(GOOD if all(core.values()) else CANNOT_RUN)


def main() -> None:
    """Run the command line; see the module for exit codes."""
    try:
        app()
    except Exception as error:
        hint = "this is a fault in trigpoint; run again with --debug and report the traceback"
        _tell(error, f"{type(error).__name__}: {error}\n{hint}")
        sys.exit(CANNOT_RUN)
