"""The command line as people and programs use it, on one tiny project built once."""

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from rich.text import Text
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner, Result

from tasks.stages import STEPS
from tests.tiny_project import ROOT, make_project
from trigpoint import cli
from trigpoint.cli import app, err, make_table, nearest

TAXONOMY = ROOT / "taxonomy" / "settlement.v1.yaml"


class Project(NamedTuple):
    """The tiny project: its configuration, its release, the ids of a scene and a query of it, and a perfect submission."""

    config: Path
    release: Path
    scene_id: str
    query_id: str
    truth: Path


def call(*args: Any) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def told(*args: Any) -> str:
    """Standard output of a call that must go well."""
    result = call(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*args: Any) -> str:
    """What is said by a call that must not be possible: exit code 2, nothing on standard output, no traceback."""
    result = call(*args)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def no_constants(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


def parsed(text: str) -> Any:
    return json.loads(text, parse_constant=no_constants)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("cli")
    config = make_project(folder / "p")
    report = parsed(told("build", config, "--plain", "--json"))
    assert (report["state"], report["findings"], report["quarantined"]) == ("done", [], [])
    assert [Path(report["release"]), len(report["stages"])] == [folder / "p" / "release", 13]
    release = folder / "p" / "release"
    first = parsed((release / "queries.jsonl").read_text(encoding="utf-8").splitlines()[0])
    truth = folder / "truth.jsonl"
    assert call("predict-truth", release, truth).exit_code == 0
    return Project(config, release, first["scene_id"], first["query_id"], truth)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A project that was never built."""
    return make_project(tmp_path / "fresh")


@pytest.fixture
def damaged(project: Project, tmp_path: Path) -> Path:
    """A release with one changed file."""
    folder = tmp_path / "damaged"
    shutil.copytree(project.release, folder)
    (folder / "README.md").write_text("nothing of before\n", encoding="utf-8")
    return folder


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group = group or get_command(app)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


# help and arguments


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_every_command_says_what_it_does_and_names_its_arguments(path: tuple[str, ...]) -> None:
    text = told(*path, "--help")

    command = COMMANDS[path]
    assert command.help.split(".")[0].split(",")[0].split()[0] in text
    for parameter in command.params:
        if parameter.name != "help":
            assert parameter.name in text or any(name in text for name in parameter.opts)
            assert parameter.help, f"{path}: {parameter.name} has no help"


def test_help_lists_every_command_and_the_exit_codes() -> None:
    text = told("-h")

    assert {path[0] for path in COMMANDS} <= set(re.findall(r"[a-z-]+", text))
    assert "Exit codes: 0 good" in text


def test_version_is_printed_without_a_command() -> None:
    assert told("--version") == f"trigpoint {cli.__version__}\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("bogus",), "No such command"),
        (("plan",), "Missing argument"),
        (("score", "a"), "Missing argument"),
        (("build", "x.yaml", "--workers", "0"), "greater than or equal to 1"),
        (("audit", "a", "--nope"), "No such option"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_wrong_arguments_are_refused_with_exit_code_2(args: tuple[str, ...], said: str) -> None:
    assert said in refused(*args)


@pytest.mark.parametrize("command", [("plan",), ("build",), ("retry",), ("stage", "graph"), ("runs",), ("config", "check")], ids=" ".join)
def test_a_configuration_that_is_not_there_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    said = refused(*command, tmp_path / "nope.yaml")

    assert str(tmp_path / "nope.yaml") in said
    assert "trigpoint config example" in said


@pytest.mark.parametrize("command", [("audit",), ("show",), ("score", "x"), ("predict-truth", "x"), ("predict-silence", "x")], ids=" ".join)
def test_a_folder_that_is_no_release_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    said = refused(command[0], tmp_path, *(tmp_path / name for name in command[1:]))

    assert f"release {tmp_path}" in said
    assert "manifest.json" in said


def test_a_typing_error_in_a_configuration_gets_the_nearest_key(fresh: Path) -> None:
    fresh.write_text(fresh.read_text(encoding="utf-8").replace("seed:", "sede:"), encoding="utf-8")

    said = refused("plan", fresh)

    assert "unknown key 'sede'; did you mean 'seed'?" in said


def test_long_paths_are_not_broken_over_lines(tmp_path: Path) -> None:
    path = tmp_path / ("a-long-name-" * 12) / "release.yaml"

    assert str(path) in refused("plan", path)


# debugging, interrupts, faults


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after the command"])
def test_debug_shows_the_traceback_wherever_it_stands(before: bool, tmp_path: Path) -> None:
    args = ["plan", str(tmp_path / "nope.yaml")]

    result = call(*(["--debug", *args] if before else [*args, "--debug"]))

    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "ConfigError" in result.stderr


def test_an_interrupt_says_what_is_kept_and_ends_with_130(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("flows.cli.build", interrupt)
    result = call("build", fresh)

    assert result.exit_code == 130
    assert "what was finished is kept" in result.stderr


def test_a_fault_of_ours_is_one_line_with_what_to_do(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> int:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("flows.cli.plan", fail)
    monkeypatch.setattr("sys.argv", ["trigpoint", "plan", str(project.config)])
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 2
    said = capfd.readouterr().err
    assert "ZeroDivisionError: a fault" in said
    assert "run again with --debug" in said
    assert "Traceback" not in said


# what is printed


def test_text_is_never_read_as_markup_and_long_cells_fold(capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(("[red]head", "n"), [("[bold]a name[/bold] " + "x" * 200, 3), (Text("[b]"), 4)])
    cli.out.print(table)

    printed = capsys.readouterr().out
    assert "[red]head" in printed
    assert "[bold]a name[/bold]" in printed
    assert printed.count("x") == 200
    assert max(map(len, printed.splitlines())) <= max(cli.PIPED_WIDTH, cli.out.width)


def test_what_is_said_keeps_brackets_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    err.width = 40
    cli.say("error: scene '[a]' " + "long " * 30)

    assert capsys.readouterr().err.count("\n") == 1


def test_nearest_names_begin_alike_or_look_alike() -> None:
    assert nearest("grph", ["graph", "split"]) == ["graph"]
    assert nearest("s-1", ["s-12", "s-13", "q-1"]) == ["s-12", "s-13"]
    assert nearest("zzz", ["graph"]) == []


# building


def test_plan_of_a_built_release_says_that_there_is_nothing_to_do(project: Project) -> None:
    text = told("plan", project.config)

    assert "nothing to do" in text
    assert text.count("up to date") == len(STEPS) + 1


def test_plan_of_a_new_project_says_what_comes_first_and_makes_no_release(fresh: Path) -> None:
    text = told("plan", fresh)

    assert "new or changed: a, b" in text
    assert "known once collect is done" in text
    assert f"a build would work on 2 of 2 items of collect, then on what follows from it in {len(STEPS) - 1} later steps" in text
    assert not (fresh.parent / "release").exists()


def test_plan_as_json_has_one_row_per_step(project: Project) -> None:
    rows = parsed(told("plan", project.config, "--json"))

    assert [row["step"] for row in rows] == list(STEPS)
    assert {row["n_todo"] for row in rows} == {0}


def test_a_build_with_nothing_to_do_has_the_keys_of_any_build(project: Project) -> None:
    report = parsed(told("build", project.config, "--json"))

    assert report["state"] == "up to date"
    assert set(report) == {"run_id", "state", "release", "manifest_sha256", "findings", "quarantined", "stages"}
    assert "nothing to do" in told("build", project.config)


def test_retry_says_that_nothing_is_quarantined(project: Project) -> None:
    result = call("retry", project.config)

    assert result.exit_code == 0
    assert "nothing is quarantined" in result.stderr
    assert parsed(told("retry", project.config, "--json"))["state"] == "up to date"


def test_more_lost_than_allowed_is_exit_code_1(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.config.parent, tmp_path / "p")
    config, raster = tmp_path / "p" / "release.yaml", tmp_path / "p" / "b.tif"
    raster.write_bytes(raster.read_bytes()[: raster.stat().st_size // 2])

    lost = call("build", config, "--plain")
    again = call("build", config)
    as_json = call("build", config, "--json")
    planned = told("plan", config)
    retried = call("retry", config)

    assert [lost.exit_code, again.exit_code, as_json.exit_code, retried.exit_code] == [1, 1, 1, 1]
    assert "quarantined in collect" in lost.stdout
    assert "b.tif" in lost.stdout
    assert "more than allowed" in lost.stderr
    assert "trigpoint retry" in again.stdout
    assert parsed(as_json.stdout)["quarantined"][0]["stage"] == "collect"
    assert "quarantined, more than quarantine.allowed_share 0" in planned
    assert "taking up 1 quarantined item" in retried.stderr


def test_a_stage_runs_alone_and_as_json(project: Project) -> None:
    assert "graph" in told("stage", "graph", project.config)
    report = parsed(told("stage", "boxes", project.config, "--json"))

    assert [row["stage"] for row in report["stages"]] == ["boxes"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("grph", "did you mean 'graph'?"), ("candidates", "a step of stage 'query'"), ("zzz", "is not one of collect, annotate, boxes")],
)
def test_a_wrong_stage_is_refused_with_a_guess(name: str, said: str, project: Project) -> None:
    assert said in refused("stage", name, project.config)


def test_swapped_arguments_of_stage_are_recognised() -> None:
    assert "the stage stands first: `trigpoint stage graph release.yaml`" in refused("stage", "release.yaml", "graph")


def test_a_stage_says_what_it_needs_first(fresh: Path) -> None:
    assert "needs 'collect' first" in refused("stage", "graph", fresh)


# runs and catalogue


def test_runs_are_listed_and_told_by_the_beginning_of_their_id(project: Project) -> None:
    listed = parsed(told("runs", project.config, "--json"))
    first = listed[-1]

    text = told("runs", project.config)
    one = told("runs", project.config, first["run_id"][:8])
    as_json = parsed(told("runs", project.config, first["run_id"], "--json"))

    assert first["run_id"][:8] in text
    assert first["config"]["name"] == "tiny"
    assert isinstance(first["versions"], dict)
    assert first["run_id"] in one
    assert "below_min_pixels" in one
    assert [as_json["run"]["state"], len(as_json["stages"])] == ["done", len(STEPS)]
    assert as_json["drops"]


def test_an_unknown_run_is_refused(project: Project) -> None:
    assert "run 'nope' is not in the catalogue" in refused("runs", project.config, "nope")


def test_looking_at_a_project_that_was_never_built_makes_nothing(fresh: Path) -> None:
    assert "no runs yet" in told("runs", fresh)
    assert parsed(told("runs", fresh, "--json")) == []
    assert "run 'x' is not in the catalogue, which has 0 runs" in refused("runs", fresh, "x")
    assert "there is none yet" in refused("catalogue", "tables", fresh)
    assert not (fresh.parent / "work").exists()


def test_the_catalogue_answers_questions_and_changes_nothing(project: Project) -> None:
    sql = "select scene_id, null as nothing, 0.5 as half from scene order by all"
    rows = parsed(told("catalogue", "sql", project.config, sql, "--json"))
    short = call("catalogue", "sql", project.config, sql, "--limit", "2")

    assert parsed(told("catalogue", "tables", project.config, "--json"))["scene"] == len(rows) == 5
    assert "scene" in told("catalogue", "tables", project.config)
    assert rows[0]["nothing"] is None
    assert rows[0]["half"] == 0.5
    assert "the first 2 rows" in short.stderr
    assert "null" in short.stdout
    assert "read-only" in refused("catalogue", "sql", project.config, "drop table run")
    assert "syntax error" in refused("catalogue", "sql", project.config, "selct 1")


# releases


def test_an_audit_of_a_good_release_prints_nothing_and_is_0(project: Project) -> None:
    result = call("audit", project.release)

    assert [result.exit_code, result.stdout] == [0, ""]
    assert "no findings" in result.stderr
    assert parsed(told("audit", project.release, "--json"))["findings"] == []


def test_an_audit_compares_with_the_sources(project: Project, tmp_path: Path) -> None:
    assert told("audit", project.release, "--sources", project.config.parent) == ""
    assert "is no folder" in refused("audit", project.release, "--sources", tmp_path / "nope")


def test_an_audit_prints_one_line_per_finding_and_is_1(damaged: Path) -> None:
    result = call("audit", damaged)
    findings = parsed(call("audit", damaged, "--json").stdout)["findings"]

    assert result.exit_code == 1
    assert len(findings) >= 1
    assert len(result.stdout.splitlines()) == len(findings)
    assert all(set(row) == {"code", "severity", "file", "item", "expected", "found"} for row in findings)
    assert "README.md" in result.stdout


def test_a_missing_file_is_a_finding_and_a_missing_manifest_is_not(damaged: Path) -> None:
    (damaged / "relations.parquet").unlink()
    without_a_table = call("audit", damaged)
    (damaged / "manifest.json").write_text("{", encoding="utf-8")

    assert without_a_table.exit_code == 1
    assert "relations.parquet" in without_a_table.stdout
    assert "manifest.json" in refused("audit", damaged)
    assert refused("audit", damaged, "--json")


def test_scores_are_printed_as_a_table_as_json_and_to_files(project: Project, tmp_path: Path) -> None:
    table = told("score", project.release, project.truth)
    report = parsed(told("score", project.release, project.truth, "--json", "-"))
    markdown = told("score", project.release, project.truth, "--markdown", "-", "--json", tmp_path / "s.json")

    assert "ma_iou" in table
    assert [report["metrics"][name] for name in ("eqs", "ma_iou")] == [1.0, 1.0]
    assert parsed((tmp_path / "s.json").read_text(encoding="utf-8")) == report
    assert markdown.startswith("# truth on tiny 0.1.0")


def test_silence_earns_the_share_of_unanswerable_queries(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "silence.jsonl"
    written = call("predict-silence", project.release, path)
    report = parsed(told("score", project.release, path, "--json", "-"))

    selection = report["selection"]
    assert f"wrote {path}" in written.stderr
    assert report["metrics"]["eqs"] == pytest.approx(1 - selection["n_answerable"] / selection["n_queries"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kind", "nope"), "kind 'nope' is not in release tiny 0.1.0"),
        (("--split", "test"), "a split needs a protocol"),
        (("--protocol", "nope", "--split", "test"), "protocol 'nope'"),
        (("--json", "-", "--markdown", "-"), "give one of them a file"),
        (("--json", "nowhere/s.json"), "nowhere/s.json: No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_score_that_cannot_be_given_is_refused(options: tuple[str, ...], said: str, project: Project) -> None:
    assert said in refused("score", project.release, project.truth, *options)


def test_predictions_that_cannot_be_read_are_named(project: Project, tmp_path: Path) -> None:
    assert str(tmp_path / "nope.jsonl") in refused("score", project.release, tmp_path / "nope.jsonl")
    assert str(project.config) in refused("score", project.release, project.config)


def test_show_describes_a_release(project: Project) -> None:
    text = told("show", project.release)
    described = parsed(told("show", project.release, "--json"))

    assert project.scene_id in text
    assert described["name"] == "tiny"
    assert described["counts"]["scenes"] == 5


def test_show_tells_and_draws_scenes_queries_and_instances(project: Project, tmp_path: Path) -> None:
    query = parsed(told("show", project.release, project.query_id, "-o", tmp_path / "q.png", "--json"))
    instance_id = (query["query"]["answer_ids"] or [query["explained"]["hops"][0]["anchor_id"]])[0]
    for item, said in ((project.scene_id, "Queries"), (project.query_id, "Answer"), (instance_id, "Measured")):
        target = tmp_path / f"{item}.png"

        text = told("show", project.release, item, "-o", target)
        described = parsed(told("show", project.release, item, "-o", target, "--json"))

        assert target.read_bytes()[:4] == b"\x89PNG"
        assert said in text
        assert (described["item"], described["scene_id"], described["picture"]) == (item, project.scene_id, str(target))
    assert query["query"]["query_id"] == project.query_id


def test_show_names_the_nearest_ids_of_an_unknown_one(project: Project, tmp_path: Path) -> None:
    assert f"the nearest ids are {project.scene_id}" in refused("show", project.release, project.scene_id[:-1])
    assert project.query_id in refused("show", project.release, f"{project.query_id}0")
    assert f"it has ids such as {project.scene_id} (scene), {project.query_id} (query)" in refused("show", project.release, "?")
    assert "end its name in .png" in refused("show", project.release, project.scene_id, "-o", tmp_path / "x.jpg")


def test_show_of_a_manifest_without_its_keys_says_which(damaged: Path) -> None:
    (damaged / "manifest.json").write_text('{"format_version": 1, "name": "x"}', encoding="utf-8")

    assert "manifest.json lacks version, counts" in refused("show", damaged)


# setting up


def test_config_check_tells_good_from_bad_also_as_json(project: Project, fresh: Path) -> None:
    good = parsed(told("config", "check", project.config, "--json"))
    (fresh.parent / "a.tif").unlink()
    bad = call("config", "check", fresh, "--json")

    assert "good (2 sources" in told("config", "check", project.config)
    assert [good["good"], good["problems"], len(good["config_sha256"])] == [True, [], 64]
    assert bad.exit_code == 2
    assert str(fresh.parent / "a.tif") in parsed(bad.stdout)["problems"][0]
    assert "1 problem(s)" in refused("config", "check", fresh)


def test_config_check_knows_the_categories_of_the_taxonomy(fresh: Path) -> None:
    fresh.write_text(fresh.read_text(encoding="utf-8").replace("- school", "- scool"), encoding="utf-8")

    assert "'scool' is not in taxonomy settlement.v1.yaml; nearest: school" in refused("config", "check", fresh)
    assert "scool" in parsed(call("config", "check", fresh, "--json").stdout)["problems"][0]


def test_the_example_configuration_obeys_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(told("config", "example"), encoding="utf-8")
    schema = parsed(told("config", "schema"))

    assert {"name", "version", "taxonomy", "sources"} <= set(schema["properties"])
    assert refused("config", "check", path).count("does not exist") == 5  # keys and values are good


def test_taxonomies_are_checked_shown_and_searched(tmp_path: Path) -> None:
    assert "good (settlement version 1" in told("taxonomy", "check", TAXONOMY)
    assert "school" in told("taxonomy", "show", TAXONOMY)
    assert parsed(told("taxonomy", "show", TAXONOMY, "--json"))["name"] == "settlement"
    assert told("taxonomy", "find", TAXONOMY, "building=school") == "school\n"
    for words in (("building", "amenity=school"), ("=school",), ("amenity=",)):
        assert "expected key=value" in refused("taxonomy", "find", TAXONOMY, *words)
    assert "the name is empty" in refused("taxonomy", "find", TAXONOMY, " ")
    assert str(tmp_path / "nope.yaml") in refused("taxonomy", "check", tmp_path / "nope.yaml")


def test_taxonomy_names_basis_and_overlap(tmp_path: Path) -> None:
    ovearth = ROOT / "taxonomy" / "ovearth.v1.yaml"

    assert {"category": "soccer_field", "is": "synonym"} in parsed(told("taxonomy", "find", ovearth, "football", "pitches", "--json"))
    assert {"category": "lake", "is": "tag"} in parsed(told("taxonomy", "find", ovearth, "pond", "--json"))
    assert "synonym" in told("taxonomy", "find", ovearth, "automobile")
    assert "nearest: school" in told("taxonomy", "find", TAXONOMY, "scool")
    assert parsed(told("taxonomy", "find", TAXONOMY, "building=school", "--json")) == {"categories": ["school"], "disagree_on": []}
    assert parsed(told("taxonomy", "show", ovearth, "automobile", "--json"))["basis"]["functions"] == "unreviewed"
    assert "unreviewed" in told("taxonomy", "show", ovearth, "car")
    assert "nearest: school" in refused("taxonomy", "show", TAXONOMY, "scool")
    checked = parsed(told("taxonomy", "check", ovearth, "--json"))
    assert checked["filled"]["functions"] == {"paper": 0, "observed": 0, "unreviewed": 172}
    assert {"category": "stupa", "negative": "pagoda", "is": "synonym"} in checked["doubtful_negatives"]
    assert "never a negative: 'pagoda' of stupa is synonym" in told("taxonomy", "check", ovearth)
    other = tmp_path / "other.txt"
    other.write_text("airplane\ncontainer crane\nbackground\nzeppelin\n", encoding="utf-8")
    found = parsed(told("taxonomy", "overlap", ovearth, other, "--json"))
    assert found["counts"]["theirs"] == {"exact": 1, "hierarchy": 1, "unmatched": 1}
    assert "left out: background" in told("taxonomy", "overlap", ovearth, other)
    assert "holds no category names" in refused("taxonomy", "overlap", ovearth, empty_file(tmp_path))


def empty_file(folder: Path) -> Path:
    path = folder / "empty.txt"
    path.write_text("", encoding="utf-8")
    return path


def test_config_check_names_licences_that_do_not_fit(fresh: Path) -> None:
    assert "licences: those of the sources" in told("config", "check", fresh)
    data = yaml.safe_load(fresh.read_text(encoding="utf-8"))
    fresh.write_text(yaml.safe_dump({**data, "licences": {"pixels": "CC0-1.0"}}), encoding="utf-8")

    assert "CC-BY-4.0, which asks for attribution" in refused("config", "check", fresh)


def test_doctor_lists_libraries() -> None:
    rows = parsed(told("doctor", "--json"))

    assert rows["checkout"] is True
    assert rows["libraries"]["score, audit, show"]["numpy"]
    assert "duckdb" in told("doctor")


# as a program of its own


def run(*args: Any, env: dict[str, str] | None = None, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(str(arg) for arg in args)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_without_a_checkout_releases_are_read_and_building_says_what_it_needs(project: Project, tmp_path: Path) -> None:
    # the wheel alone: a copy of the library and no .pth files (-S), so that flows/ is not on the path
    shutil.copytree(ROOT / "trigpoint", tmp_path / "wheel" / "trigpoint", ignore=shutil.ignore_patterns("__pycache__"))
    paths = [str(tmp_path / "wheel"), *site.getsitepackages()]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    built = run("-S", "-m", "trigpoint", "build", project.config, env=env, cwd=tmp_path)
    audited = run("-S", "-m", "trigpoint", "audit", project.release, env=env, cwd=tmp_path)

    assert built.returncode == 2
    assert "needs the trigpoint repository, not only the wheel" in built.stderr
    assert audited.returncode == 0, audited.stderr


def test_a_process_that_is_interrupted_ends_with_130_and_no_traceback(project: Project) -> None:
    code = (
        "import os, signal, sys, flows.cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs are started deaf to it
        "flows.cli.build = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)\n"
        "from trigpoint.cli import main\n"
        "sys.argv = ['trigpoint', 'build', sys.argv[1]]; main()"
    )
    ended = run("-c", code, project.config)

    assert ended.returncode == 128 + signal.SIGINT
    assert ended.stderr == "interrupted; what was finished is kept, the same command goes on from there\n"


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from trigpoint.cli import main; sys.argv = ['trigpoint', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert not {'numpy', 'shapely', 'rasterio', 'pandas', 'prefect', 'duckdb'} & set(sys.modules)"
    )
    ended = run("-c", code)

    assert ended.returncode == 0, ended.stderr


def test_the_app_has_the_commands_of_the_issue() -> None:
    wanted = {"build", "plan", "stage", "retry", "audit", "score", "show", "runs", "catalogue", "config", "taxonomy", "doctor"}

    assert isinstance(app, typer.Typer)
    assert wanted | {"predict-truth", "predict-silence"} <= {path[0] for path in COMMANDS}
