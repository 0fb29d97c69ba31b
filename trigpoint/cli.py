"""The command line. Reading, auditing and scoring a release run from the wheel alone; building one needs the checkout.

Exit codes: 0 good; 1 findings, or more lost than allowed; 2 cannot run (bad arguments, configuration or files).
Heavy modules are imported inside the commands, so that `--help` answers at once.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from trigpoint import __version__
from trigpoint.errors import CheckoutError, TrigpointError

GOOD, FINDINGS, CANNOT_RUN = 0, 1, 2
"""Exit codes."""

app = typer.Typer(
    name="trigpoint",
    help="Build, audit and score Earth-observation vision-language benchmarks whose answers are measured, not guessed.\n\n"
    "Exit codes: 0 good, 1 findings or more lost than allowed, 2 cannot run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Look at and check release configurations.", no_args_is_help=True)
taxonomy_app = typer.Typer(help="Look at and check taxonomies.", no_args_is_help=True)
catalogue_app = typer.Typer(help="Look into the catalogue of a build (read only).", no_args_is_help=True)
app.add_typer(config_app, name="config", rich_help_panel="Setting up")
app.add_typer(taxonomy_app, name="taxonomy", rich_help_panel="Setting up")
app.add_typer(catalogue_app, name="catalogue", rich_help_panel="Building (needs the checkout)")

out = Console()
err = Console(stderr=True)

ConfigArgument = Annotated[Path, typer.Argument(help="Release configuration (YAML).", show_default=False)]
ReleaseArgument = Annotated[Path, typer.Argument(help="Release folder.", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print_line(f"trigpoint {__version__}")
        raise typer.Exit
    _State.is_debug = debug


class _State:
    is_debug = False


def print_line(text: str) -> None:
    """Write a line to standard output as it is: no markup, no wrapping."""
    sys.stdout.write(f"{text}\n")


def print_json(value: Any) -> None:
    """Write indented JSON to standard output."""
    print_line(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False))


def pipeline() -> ModuleType:
    """Load the pipeline commands from the checkout.

    Raises:
        CheckoutError: flows/ is not on the path, or a library of the `pipeline` extra is missing.
    """
    if importlib.util.find_spec("flows") is None or importlib.util.find_spec("flows.cli") is None:
        raise CheckoutError(
            "this command builds releases and needs the trigpoint repository, not only the wheel; clone it, run `make demo` once, and call"
            " `.venv/bin/trigpoint` there"
        )
    try:
        return importlib.import_module("flows.cli")
    except ModuleNotFoundError as error:
        raise CheckoutError(f"module {error.name!r} is missing; install it with `pip install -e '.[pipeline]'`") from error


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
    name: Annotated[str, typer.Argument(help="collect, annotate, boxes, graph, query, split, publish or audit.", show_default=False)],
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
def runs(
    config: ConfigArgument,
    run_id: Annotated[str | None, typer.Argument(help="One run, with its stages and drops.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Runs to list.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """List the runs of a configuration, or tell one: stages, drops, quarantine."""
    raise typer.Exit(pipeline().runs(config, run_id, limit=limit, as_json=as_json))


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


# releases


@app.command(rich_help_panel="Releases")
def audit(
    release: ReleaseArgument,
    sources: Annotated[Path | None, typer.Option(help="Folder with the original rasters: every window is cut again and compared.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Audit a release from its files alone: one line per finding, exit 0 only without any."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from trigpoint.audit import audit_release

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        bar = bars.add_task("audit", total=None)

        def show(check: str, position: int, total: int) -> None:
            bars.update(bar, description=check, completed=position, total=total)

        report = audit_release(release, sources=sources, progress=show)
    if as_json:
        print_json(report.to_json())
    else:
        for finding in report.findings:
            item = f" {finding.item}" if finding.item else ""
            print_line(f"{finding.severity} {finding.code}: {finding.file}{item}: expected {finding.expected}, found {finding.found}")
        summary = f"{len(report.findings)} findings in {release}"
        err.print(summary, style="green" if not report.findings else "red", highlight=False)
        for line in report.not_certified:
            err.print(f"not certified: {line}", style="dim", highlight=False)
    raise typer.Exit(FINDINGS if report.findings else GOOD)


@app.command(rich_help_panel="Releases")
def score(
    release: ReleaseArgument,
    predictions: Annotated[Path, typer.Argument(help="Predictions (JSONL or Parquet).", show_default=False)],
    json_file: Annotated[str | None, typer.Option("--json", help="Write the report as JSON to this file; - for standard output.")] = None,
    markdown_file: Annotated[str | None, typer.Option("--markdown", help="Write the report as Markdown; - for standard output.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Split protocol, such as scene-disjoint.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the protocol: train, val or test.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only queries of this kind: answerable, category_absent or relation_unsatisfied.")] = None,
) -> None:
    """Score predictions against a release. Default: all queries."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.predictions import read_predictions
    from trigpoint.scoring.report import score_release

    opened = Release.open(release)
    report = score_release(opened, read_predictions(predictions, opened), protocol=protocol, split=split, kind=kind)
    _write_text(json_file, json.dumps(report.to_json(), indent=2, sort_keys=True, ensure_ascii=False))
    _write_text(markdown_file, report.to_markdown())
    if "-" not in (json_file, markdown_file):
        out.print(report.to_table())


def _write_text(target: str | None, text: str) -> None:
    if target == "-":
        print_line(text)
    elif target is not None:
        Path(target).write_text(f"{text}\n", encoding="utf-8")


@app.command("predict-truth", rich_help_panel="Releases")
def predict_truth(release: ReleaseArgument, output: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)]) -> None:
    """Write the submission that gives every answer exactly; it scores 1 in every metric."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.baselines import predict_truth as write

    write(Release.open(release), output)


@app.command("predict-silence", rich_help_panel="Releases")
def predict_silence(release: ReleaseArgument, output: Annotated[Path, typer.Argument(help="JSONL file to write.", show_default=False)]) -> None:
    """Write the submission that never answers; it scores what silence earns."""
    from trigpoint.release.reader import Release
    from trigpoint.scoring.baselines import predict_silence as write

    write(Release.open(release), output)


@app.command(rich_help_panel="Releases")
def show(
    release: ReleaseArgument,
    item: Annotated[str | None, typer.Argument(help="A scene id or query id; without one the release is described.", show_default=False)] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="PNG to write; default <item>.png here.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Describe a release, or draw one of its scenes or queries."""
    from trigpoint.release.reader import Release

    opened = Release.open(release)
    if item is None:
        _describe(opened, as_json)
        return
    from trigpoint.release.show import draw_query, draw_scene

    query = opened.query_by_id.get(item)
    picture = draw_scene(opened, item) if query is None else draw_query(opened, item)
    target = output or Path(f"{item}.png")
    picture.save(target)
    if as_json:
        print_json({"picture": str(target), "query": None if query is None else query.to_json()})
        return
    if query is not None:
        print_line(query.sentences[0])
        print_line(query.canonical or "")
        print_line(f"answer: {', '.join(query.answer_ids) or 'nothing'}")
    err.print(f"wrote {target}", highlight=False)


def _describe(release: Any, as_json: bool) -> None:
    manifest = release.manifest
    if as_json:
        print_json({key: manifest[key] for key in ("name", "version", "format_version", "counts", "licences", "review", "versions")})
        return
    table = Table(title=f"{manifest['name']} {manifest['version']}", show_header=False)
    for key, value in manifest["counts"].items():
        table.add_row(key, ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value))
    out.print(table)
    scenes = Table("scene", "source", "size", "true pixel (m)", "queries")
    for row in release.scenes.select(["scene_id", "source", "width", "height", "gsd_m"]).to_pylist():
        n = sum(query.scene_id == row["scene_id"] for query in release.queries)
        scenes.add_row(row["scene_id"], row["source"], f"{row['width']} × {row['height']}", f"{row['gsd_m']:.4f}", str(n))
    out.print(scenes)


# setting up


@config_app.command("schema")
def config_schema() -> None:
    """Print the JSON schema of a configuration, with what every key means."""
    from trigpoint.config import ReleaseConfig

    print_json(ReleaseConfig.model_json_schema())


@config_app.command("check")
def config_check(config: ConfigArgument) -> None:
    """Check a configuration: keys, values, and whether its input files are there."""
    from trigpoint.config import check_files, load_config
    from trigpoint.errors import ConfigError

    loaded = load_config(config)
    missing = check_files(loaded)
    if missing:
        raise ConfigError(f"configuration {config}: {len(missing)} input file(s) are missing:\n  " + "\n  ".join(missing))
    print_line(f"{config}: good ({len(loaded.sources)} sources, digest {loaded.sha256()[:12]})")


@config_app.command("example")
def config_example() -> None:
    """Print a small configuration to start from."""
    from importlib.resources import files

    print_line(files("trigpoint").joinpath("example.yaml").read_text(encoding="utf-8").rstrip())


@taxonomy_app.command("check")
def taxonomy_check(path: Annotated[Path, typer.Argument(help="Taxonomy file (YAML).", show_default=False)]) -> None:
    """Check a taxonomy file."""
    from trigpoint.categories import load_taxonomy

    taxonomy = load_taxonomy(path)
    print_line(f"{path}: good ({taxonomy.name} version {taxonomy.version}, {len(taxonomy.axes)} axes, {len(taxonomy.categories)} categories)")


@taxonomy_app.command("show")
def taxonomy_show(path: Annotated[Path, typer.Argument(help="Taxonomy file (YAML).", show_default=False)], as_json: JsonFlag = False) -> None:
    """List the categories of a taxonomy."""
    from trigpoint.categories import load_taxonomy

    taxonomy = load_taxonomy(path)
    if as_json:
        print_json(taxonomy.to_json())
        return
    table = Table("axis", "category", "counted", "said", "found by")
    for category in taxonomy.categories:
        depth = "  " * (len(taxonomy.ancestors(category.id)) - 1)
        said = category.plural or category.phrase or ""
        table.add_row(category.axis, depth + category.id, "yes" if category.countable else "region", said, "; ".join(category.osm))
    out.print(table)


@taxonomy_app.command("find")
def taxonomy_find(
    path: Annotated[Path, typer.Argument(help="Taxonomy file (YAML).", show_default=False)],
    tags: Annotated[list[str], typer.Argument(help="Tags as key=value.", show_default=False)],
) -> None:
    """Say which categories a feature with these tags gets."""
    from trigpoint.categories import load_taxonomy

    taxonomy = load_taxonomy(path)
    values, torn = taxonomy.values_from_tags({tag.partition("=")[0]: tag.partition("=")[2] for tag in tags})
    print_line(", ".join(values) or "none")
    if torn:
        print_line(f"tags disagree on: {', '.join(torn)}")


@app.command(rich_help_panel="Setting up")
def doctor(as_json: JsonFlag = False) -> None:
    """Say what this installation can do, and what is missing for the rest."""
    from trigpoint.versions import library_versions

    groups = {
        "score, audit, show": ("numpy", "scipy", "shapely", "pyproj", "rasterio", "pyarrow", "pydantic", "pycocotools", "pillow"),
        "build": ("prefect", "duckdb", "fsspec", "geopandas", "pyogrio", "osmium", "pystac"),
        "several machines (dask)": ("prefect-dask",),
        "SAM 2 proposals (sam2)": ("torch", "torchvision", "sam2"),
    }
    rows = {name: {lib: library_versions([lib]).get(lib) for lib in libraries} for name, libraries in groups.items()}
    has_checkout = importlib.util.find_spec("flows") is not None
    if as_json:
        print_json({"trigpoint": __version__, "python": sys.version.split()[0], "checkout": has_checkout, "libraries": rows})
    else:
        table = Table("for", "library", "installed", title=f"trigpoint {__version__}, Python {sys.version.split()[0]}")
        for name, libraries in rows.items():
            for library, found in libraries.items():
                table.add_row(name, library, found or "[red]missing[/red]")
        out.print(table)
        print_line(f"checkout: {'found' if has_checkout else 'not found; building needs it'}")
    core = rows["score, audit, show"]
    raise typer.Exit(GOOD if all(core.values()) else CANNOT_RUN)


def _fail(error: BaseException) -> NoReturn:
    if _State.is_debug:
        raise error
    err.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(CANNOT_RUN)


def main() -> None:
    """Run the command line; see the module for exit codes."""
    from trigpoint.audit import AuditError

    try:
        app()
    except (TrigpointError, AuditError) as error:
        _fail(error)
    except KeyboardInterrupt:
        err.print("interrupted; what was finished is kept, the same command goes on from there", style="yellow")
        sys.exit(130)
    except OSError as error:
        _fail(error)
    except Exception as error:
        if _State.is_debug:
            raise
        err.print(
            f"error: {type(error).__name__}: {error}\nThis is a fault in trigpoint; run again with `trigpoint --debug …` and report the traceback.",
            style="red",
            markup=False,
            highlight=False,
        )
        sys.exit(CANNOT_RUN)
