"""The calls of a build against a server of ours: all scenes at once, one batch a round, kills, budgets, the catalogue, what it cost."""

import io
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

import flows.cli
from storage.calls import CallRecord
from storage.catalogue import Catalogue
from tasks import calls
from tasks.builds import BuildReport, conclude, forget_quarantined, run_stage
from tasks.calls import calls_folder, copy_calls, report_calls
from tasks.engine import Pace, Progress, Silent, close_pool, start_build
from tasks.stages import STAGES
from tasks.steps import Item
from tasks.workspace import Workspace
from tests.llm_server import LlmServer
from tests.tiny_project import ROOT, make_project
from trigpoint.cli import app
from trigpoint.errors import BudgetError, ConfigError, InputError, ModelError
from trigpoint.records.calls import CallAnswered, CallAsked

CONTEXT = ssl.create_default_context()
PRICES = {"test-model": {"input": 1000.0, "output": 4000.0}}
UP_TO_LANGUAGE = STAGES[: STAGES.index("language") + 1]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-calls")
    # reading all certificates for each client takes longer than the calls
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: CONTEXT)


@pytest.fixture(scope="module")
def until_query(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project with every stage before `language` done."""
    folder = tmp_path_factory.mktemp("until-query") / "p"
    config = make_project(folder)
    build = start_build(Workspace(config), "test")
    for stage in UP_TO_LANGUAGE[:-1]:
        run_stage(build, stage)
    conclude(build, is_whole=False)
    return config


@pytest.fixture
def project(until_query: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    shutil.copytree(until_query.parent, tmp_path / "p")
    return tmp_path / "p" / until_query.name


def ask(config: Path, server: LlmServer | None, **more: Any) -> Path:
    """Have a project ask a server (None: one that is not there); returns its configuration."""
    data = yaml.safe_load(config.read_text(encoding="utf-8"))
    quick = {"backoff_s": 0.005, "batch_poll_s": 0.01, "attempts": 1, "max_output_tokens": 2000}
    url = "http://127.0.0.1:9/v1" if server is None else server.url
    data["language"] = {"forms": ["referring"], "provider": "openai", "model": "test-model", "base_url": url, **quick, **more}
    config.write_text(yaml.safe_dump(data), encoding="utf-8")
    return config


def run(config: Path, progress: Progress | None = None, **overrides: Any) -> BuildReport:
    build = start_build(Workspace(config, overrides), "test", progress=progress)
    for stage in UP_TO_LANGUAGE:
        run_stage(build, stage)
    return conclude(build, is_whole=False)


def lines_of(config: Path) -> list[Any]:
    record = CallRecord(calls_folder(Workspace(config)))
    lines = [line for _, line in record.lines()]
    record.close()
    return lines


def scene_of_keys(config: Path) -> dict[str, str]:
    return {line.key: line.scene_id for line in lines_of(config) if isinstance(line, CallAsked)}


def copied(config: Path, sql: str = "SELECT status, count(*) FROM llm_call GROUP BY 1") -> list[tuple[Any, ...]]:
    return Workspace(config).catalogue.select(sql).rows


class Listener(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.prepared_calls: list[tuple[str, int, int, str]] = []
        self.said: list[str] = []

    def prepared(self, what: str, n: int, n_total: int, note: str) -> None:
        self.prepared_calls.append((what, n, n_total, note))

    def say(self, text: str) -> None:
        self.said.append(text)


def test_calls_about_several_scenes_are_under_way_at_once_and_no_more_than_allowed(project: Path) -> None:
    listener = Listener()
    with LlmServer(latency_s=0.1) as server:
        report = run(ask(project, server, concurrency=3, prices=PRICES, max_tokens=10_000_000), listener)
    scene_of = scene_of_keys(project)
    targets = report_calls(Workspace(project)).targets

    together = [
        (scene_of[one], scene_of[other])
        for k, (_, end, one) in enumerate(sorted(server.spans))
        for begin, _, other in sorted(server.spans)[k + 1 :]
        if begin < end
    ]
    assert report.quarantined == []
    assert len(set(scene_of.values())) >= 3
    assert any(one != other for one, other in together)
    assert server.most_at_once == 3
    assert server.complaints == []
    # every target is told, with the whole cost at the end
    assert [told[:3] for told in listener.prepared_calls] == [
        ("language model calls", n, len(targets), ) for n in range(len(targets) + 1)
    ]  # fmt: skip
    assert "eta" in listener.prepared_calls[len(targets) // 2][3]
    assert listener.prepared_calls[-1][3] == f"{server.tokens:,} of 1e+07 tokens, cost {expected_cost(server):.4f}"


def expected_cost(server: LlmServer) -> float:
    price = PRICES["test-model"]
    return sum(each.tokens_in * price["input"] + each.tokens_out * price["output"] for each in server.billed) / 1e6


def test_a_batch_of_every_round_holds_the_calls_of_all_scenes(project: Path, until_query: Path, tmp_path: Path) -> None:
    with LlmServer({"school": ["broken", "good"]}) as server:
        report = run(ask(project, server, mode="batch"))
    scene_of = scene_of_keys(project)
    rounds = [
        [json.loads(line)["custom_id"] for line in server.files[batch["input_file_id"]].splitlines()] for batch in server.batches.values()
    ]
    shutil.copytree(until_query.parent, tmp_path / "live")
    with LlmServer({"school": ["broken", "good"]}) as other:
        run(ask(tmp_path / "live" / project.name, other))

    assert report.quarantined == []
    # stage 1; stage 2 and the repeats of stage 1; stage 2 of those
    assert len(rounds) == 3
    assert len({scene_of[key] for key in rounds[0]}) >= 3
    assert sum(map(len, rounds)) == len({key for one in rounds for key in one}) == len(server.billed)
    assert Counter(each[1:3] for each in server.billed) == Counter(each[1:3] for each in other.billed)


KILLED = """
import ssl, sys
from pathlib import Path
context = ssl.create_default_context()
ssl.create_default_context = lambda *_, **__: context
from tests.unit.tasks.test_calls import run
run(Path(sys.argv[1]))
"""


def test_a_build_killed_while_it_asks_goes_on_without_asking_twice_and_can_be_watched(project: Path) -> None:
    with LlmServer(latency_s=0.05, honours_keys=False) as server:
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(ask(project, server, concurrency=2, prices=PRICES))], cwd=ROOT)
        while len(server.billed) < 5:
            time.sleep(0.005)
            assert process.poll() is None
        watched = json.loads(CliRunner().invoke(app, ["calls", str(project), "--json"]).stdout)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(0.2)  # what is under way at the server is billed, too
        under_way = {line.key for line in lines_of(project) if isinstance(line, CallAsked)} - answered(project)
        known = answered(project)
        server.latency_s = 0.0
        report = run(project)

    billed = Counter(each.idempotency_key for each in server.billed)
    assert report.quarantined == []
    assert len(watched["targets"]) >= 3
    assert watched["spent"]["n_unsettled"] >= 1
    assert "unanswered" in {target["generated"] for target in watched["targets"]} | {target["verified"] for target in watched["targets"]}
    assert len(known) >= 4
    assert {key for key, n in billed.items() if n > 1} <= under_way
    assert len(under_way) <= 2
    assert max(billed.values()) <= 2
    # every line is in the catalogue once, those of the killed process too
    calls_in_record = Counter(line.line if isinstance(line, CallAsked) else line.outcome for line in lines_of(project))
    assert dict(copied(project)) == calls_in_record
    n_requests = server.n_requests
    assert run(project).summaries[-1].n_reused > 0
    assert server.n_requests == n_requests


def answered(config: Path) -> set[str]:
    return {line.key for line in lines_of(config) if isinstance(line, CallAnswered) and line.outcome == "answered"}


def test_answers_are_replayed_without_a_network(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlmServer() as server:
        first = run(ask(project, server))
        n = server.n_requests
    contents = [summary.n_out for summary in first.summaries]
    Workspace(project).catalogue.forget_results("language", [row[0] for row in copied(project, "SELECT item_key FROM item_result")])
    monkeypatch.delenv("OPENAI_API_KEY")

    again = run(ask(project, None, mode="replay"))

    assert n > 0
    assert again.quarantined == []
    assert again.summaries[-2].n_reused == again.summaries[-1].n_reused == 0
    assert [summary.n_out for summary in again.summaries] == contents


def test_a_spent_budget_stops_the_build_with_all_answers_recorded_and_more_money_goes_on(project: Path) -> None:
    with LlmServer() as server:
        with pytest.raises(BudgetError, match=r"language\.max_tokens.* targets remain"):
            run(ask(project, server, max_tokens=12_000))
        newest = Workspace(project).catalogue.list_runs(1)[0]
        stopped = report_calls(Workspace(project))
        rows = dict(copied(project))
        n_paid = len(server.billed)
        report = run(ask(project, server, max_tokens=10_000_000))

    assert newest.state == "stopped"
    assert "raise the limit and run again to go on" in newest.note
    assert 0 < n_paid == stopped.spent.n_calls == rows["answered"]
    assert stopped.spent.n_unsettled == 0
    assert stopped.tokens_left is not None
    assert 0 <= stopped.tokens_left < 12_000
    assert report.quarantined == []
    assert max(Counter(each.idempotency_key for each in server.billed).values()) == 1


def test_a_batch_that_is_not_done_stops_the_build_and_the_next_night_takes_it_up(project: Path) -> None:
    with LlmServer(polls_until_done=10_000) as server:
        with pytest.raises(ModelError, match="run again later"):
            run(ask(project, server, mode="batch", batch_wait_s=0.05))
        server.polls_until_done = 0
        report = run(ask(project, server, mode="batch"))

    assert report.quarantined == []
    assert max(Counter(each.idempotency_key for each in server.billed).values()) == 1


def test_a_scene_that_cannot_be_shown_is_quarantined_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_requests, broken = calls._requests, copied(project, "SELECT scene_id FROM scene ORDER BY 1")[0][0]

    def requests(workspace: Workspace, item: Item, targets: Any) -> Any:
        if item.item_id == broken:
            raise InputError(f"{broken} cannot be shown")
        return make_requests(workspace, item, targets)

    monkeypatch.setattr(calls, "_requests", requests)
    with LlmServer() as server:
        report = run(ask(project, server))

    assert [(drop.item_id, drop.detail) for drop in report.quarantined] == [(broken, f"{broken} cannot be shown")]
    assert len(set(scene_of_keys(project).values())) >= 2
    assert broken not in scene_of_keys(project).values()


def test_a_call_that_failed_is_quarantined_and_retry_asks_again(project: Path) -> None:
    with LlmServer({"temple": ["500", "good"]}) as server:
        report = run(ask(project, server))
        failed = report_calls(Workspace(project))
        forget_quarantined(Workspace(project))
        retried = run(project)

    assert {(drop.reason_code, drop.remedy) for drop in report.quarantined} == {("failed", "`trigpoint retry` asks again")}
    assert [target.category for target in failed.targets if target.generated == "failed"] == ["temple"]
    assert retried.quarantined == []
    assert report_calls(Workspace(project)).spent.tokens == server.tokens


def test_more_workers_ask_in_the_process_of_the_build_and_give_the_same(project: Path, until_query: Path, tmp_path: Path) -> None:
    shutil.copytree(until_query.parent, tmp_path / "two")
    with LlmServer() as server:
        one = run(ask(project, server))
        n = len(server.billed)
        try:
            two = run(ask(tmp_path / "two" / project.name, server), workers=2, chunk_size=1)
        finally:
            close_pool()

    content = "SELECT item_id, content_sha256 FROM item_result WHERE stage = 'language' ORDER BY ALL"
    assert one.quarantined == two.quarantined == []
    assert copied(project, content) == copied(tmp_path / "two" / project.name, content)
    assert {each.idempotency_key for each in server.billed[:n]} == {each.idempotency_key for each in server.billed}


def test_the_catalogue_takes_every_line_once_also_when_copying_was_cut_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LlmServer() as server:
        run(ask(project, server))
    workspace = Workspace(project)
    n = len(lines_of(project))
    assert copied(project, "SELECT count(*) FROM llm_call") == [(n,)]
    assert copy_calls(workspace) == 0

    fresh = Workspace(project, {"work": project.parent / "fresh", "calls": calls_folder(workspace)})
    monkeypatch.setattr(calls, "ROWS_AT_ONCE", 5)
    take = Catalogue.import_records
    taken: list[int] = []

    def cut_off(*given: Any) -> int:
        if len(taken) == 2:
            raise KeyboardInterrupt
        taken.append(1)
        return take(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Catalogue, "import_records", cut_off)
        with pytest.raises(KeyboardInterrupt):
            copy_calls(fresh)

    assert copy_calls(fresh) == n - 10
    assert fresh.catalogue.table_counts()["llm_call"] == n
    [(tokens, n_targets)] = fresh.catalogue.select("SELECT sum(input_tokens + output_tokens), count(DISTINCT target_id) FROM llm_call").rows
    assert tokens == server.tokens
    assert n_targets == len(report_calls(workspace).targets)


def test_the_table_of_costs_is_the_servers_own_count(project: Path) -> None:
    plays = {"school": ["broken", "good"], "temple": ["refusal"], "road|Verified": ["forgets", "good"]}
    with LlmServer(plays) as server:
        run(ask(project, server, prices=PRICES, max_cost=1000.0))
    told = json.loads(CliRunner().invoke(app, ["calls", str(project), "--json"]).stdout)
    shown = CliRunner().invoke(app, ["calls", str(project)])
    listed = CliRunner().invoke(app, ["catalogue", "sql", str(project), "SELECT sum(cost) AS paid FROM llm_call", "--json"])

    targets = told["targets"]
    by_category: Counter[str] = Counter()
    for each in server.billed:
        by_category[each.category] += each.tokens_in + each.tokens_out
    counted: Counter[str] = Counter()
    for target in targets:
        counted[target["category"]] += target["tokens_in"] + target["tokens_out"]
    assert counted == by_category
    assert sum(target["n_calls"] for target in targets) == len(server.billed) == told["spent"]["n_calls"]
    assert sum(target["cost"] for target in targets) == pytest.approx(expected_cost(server))
    assert told["left"] == {"tokens": None, "cost": pytest.approx(1000 - expected_cost(server))}
    assert {target["generated"] for target in targets if target["category"] == "temple"} == {"refused"}
    assert {target["verified"] for target in targets if target["category"] == "temple"} == {"not asked"}
    assert {(target["generated"], target["verified"]) for target in targets if target["category"] != "temple"} == {("ok", "ok")}
    assert len({target["target_id"] for target in targets}) == len(targets)
    assert shown.exit_code == 0
    assert f"{len(server.billed)} calls, {server.tokens} tokens, cost {expected_cost(server):.4f}" in shown.stdout
    assert "of 1000" in shown.stdout
    assert json.loads(listed.stdout)[0]["paid"] == pytest.approx(expected_cost(server))


def test_calls_of_a_project_that_asked_nobody(project: Path) -> None:
    assert CliRunner().invoke(app, ["calls", str(project)]).stdout == "no language model was asked for tiny-0.1.0\n"
    assert json.loads(CliRunner().invoke(app, ["calls", str(project), "--json"]).stdout)["targets"] == []
    assert not calls_folder(Workspace(project)).exists()


def test_answers_that_another_version_paid_for_cost_this_one_nothing(project: Path) -> None:
    with LlmServer() as server:
        run(ask(project, server))
        n = len(server.billed)
        project.write_text(project.read_text(encoding="utf-8").replace("version: 0.1.0", "version: 0.2.0"), encoding="utf-8")
        report = run(project)
    told = report_calls(Workspace(project))

    assert report.quarantined == []
    assert len(server.billed) == n == told.n_others
    assert (told.budget_id, told.targets, told.spent.tokens) == ("tiny-0.2.0", [], 0)
    assert f"the record has {n} calls of other releases or versions" in CliRunner().invoke(app, ["calls", str(project)]).stdout


def test_where_the_record_is(project: Path, tmp_path: Path) -> None:
    def folder(**places: Any) -> Path:
        data = yaml.safe_load(project.read_text(encoding="utf-8"))
        data["run"] |= places
        data["language"] = {"forms": ["referring"], "provider": "openai"}
        path = project.with_name("elsewhere.yaml")
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        return calls_folder(Workspace(path))

    assert folder() == project.parent / "work" / "store" / "calls"
    assert folder(store="shared") == project.parent / "shared" / "calls"
    assert folder(store=f"file://{tmp_path}/s") == tmp_path / "s" / "calls"
    assert folder(store="s3://bucket/store", calls="paid") == project.parent / "paid"
    with pytest.raises(ConfigError, match=r"run\.calls: run\.store 's3://bucket/store' is no local folder.* give run\.calls a folder"):
        folder(store="s3://bucket/store")


# who watches


def test_bars_of_calls_stand_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def watched(is_terminal: bool) -> str:
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=140)
        monkeypatch.setattr(flows.cli, "err", console)
        monkeypatch.setattr("trigpoint.cli.err", console)
        with flows.cli.Bars() as bars:
            for n in range(4):
                bars.prepared("language model calls", n, 3, f"{1000 * n} tokens, cost {n}.5, eta 3 s")
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    assert watched(is_terminal=False).splitlines() == [
        "language model calls: 0 of 3, 0 tokens, cost 0.5, eta 3 s",
        "language model calls: 3 of 3, 3000 tokens, cost 3.5, eta 3 s",
    ]
    bar = watched(is_terminal=True)
    assert "language model calls" in bar
    assert "3/3" in bar
    assert "3000 tokens, cost 3.5, eta 3 s" in bar


def test_a_line_is_due_at_the_start_at_the_end_and_after_a_while() -> None:
    assert [Pace(every_s=1000).is_due("calls", n, 3) for n in (0,)] == [True]
    slow, quick = Pace(every_s=1000), Pace(every_s=0)

    assert [slow.is_due("calls", n, 3) for n in range(4)] == [True, False, False, True]
    assert [quick.is_due("calls", n, 3) for n in range(4)] == [True] * 4
    assert slow.is_due("other", 1, 3)
