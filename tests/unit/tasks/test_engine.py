"""The engine on a toy step: reuse, damage, quarantine, retry, dead workers."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from storage.digests import list_code
from tasks import engine, tables
from tasks.builds import forget_quarantined
from tasks.engine import Build, plan_step, run_step, start_build
from tasks.stages import STAGES, STEPS
from tasks.steps import Done, Item, Made, Preparation, Step
from tasks.tables import all_rows, item_table
from tasks.workspace import Workspace
from trigpoint.errors import BudgetError, ConfigError, InputError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "a.tif").write_bytes(b"raster")
    config = {
        "name": "toy",
        "version": "0.1.0",
        "taxonomy": str(ROOT / "taxonomy" / "settlement.v1.yaml"),
        "sources": [
            {"name": "here", "imagery": {"path": "a.tif", "licence": "CC0-1.0", "attribution": "us"}, "scenes": {"windows": [[0, 0, 8, 8]]}}
        ],
        "run": {"work": "work", "output": "out", "workers": 1, "chunk_size": 2},
    }
    path = tmp_path / "release.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return Workspace(path)


Make = Callable[[Workspace, Item], Made]


def double(_: Workspace, item: Item) -> Made:
    """A toy stage: one table row and no file."""
    return Made({"poi": pa.table({"poi_id": [f"{item.item_id}-{item.inputs[0]}"]})}, n_in=1, n_out=1)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Step, list[str]]]:
    """Make a toy step over items; returns it and the list of items it was called for."""

    def make_step(inputs: dict[str, str], make: Make = double, settings: Any = None) -> tuple[Step, list[str]]:
        called: list[str] = []

        def plan(_: Workspace, _done: Done) -> list[Item]:
            return [Item(item_id=name, inputs=(value,)) for name, value in inputs.items()]

        def counted(workspace: Workspace, item: Item) -> Made:
            called.append(item.item_id)
            return make(workspace, item)

        step = Step(name="toy", stage="collect", module="trigpoint.identity", plan=plan, make=counted, settings=lambda _: settings)
        return step, called

    return make_step


def run(workspace: Workspace, step: Step) -> Build:
    build = start_build(workspace, "test")
    run_step(build, step)
    return build


Toy = Callable[..., tuple[Step, list[str]]]


def test_known_items_are_reused_and_only_what_changed_is_made_again(workspace: Workspace, toy: Toy) -> None:
    step, called = toy({"a": "1", "b": "1", "c": "1"})
    run(workspace, step)
    run(workspace, step)
    assert called == ["a", "b", "c"]

    step, called = toy({"a": "1", "b": "2", "c": "1"})
    build = run(workspace, step)

    assert called == ["b"]
    assert build.summaries[0].n_reused == 2
    assert all_rows(workspace, build.done["toy"], "poi").column("poi_id").to_pylist() == ["a-1", "b-2", "c-1"]  # type: ignore[union-attr]


def test_a_changed_setting_makes_all_again(workspace: Workspace, toy: Toy) -> None:
    run(workspace, toy({"a": "1"}, settings={"x": 1})[0])
    step, called = toy({"a": "1"}, settings={"x": 2})
    run(workspace, step)

    assert called == ["a"]


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_bytes(b"x"), lambda p: p.write_bytes(p.read_bytes()[:-1])])
def test_missing_or_damaged_artefacts_are_noticed_and_made_again(workspace: Workspace, toy: Toy, damage: Callable[[Path], None]) -> None:
    step, called = toy({"a": "1", "b": "1", "c": "1"})
    first = run(workspace, step)
    shard = first.done["toy"][2].tables["poi"]
    damage(workspace.store.local_path(shard))
    tables._shard.cache_clear()

    planned = plan_step(workspace, step, {})
    second = run(workspace, step)

    assert list(planned.stale) == ["c"]
    assert "missing" in planned.stale["c"] or "damaged" in planned.stale["c"]
    assert called == ["a", "b", "c", "c"]
    assert [r.content_sha256 for r in second.done["toy"]] == [r.content_sha256 for r in first.done["toy"]]


def test_a_bad_item_is_quarantined_with_its_cause_and_the_rest_goes_on(workspace: Workspace, toy: Toy) -> None:
    def make(workspace: Workspace, item: Item) -> Made:
        if item.item_id == "b":
            raise InputError("b is broken; mend it")
        if item.item_id == "c":
            raise ZeroDivisionError("oops")
        return double(workspace, item)

    build = run(workspace, toy({"a": "1", "b": "1", "c": "1"}, make)[0])
    drops = workspace.catalogue.list_drops(run_id=build.run_id, quarantined_only=True)

    assert [r.item_id for r in build.done["toy"]] == ["a"]
    assert {d.item_id: d.reason_code for d in drops} == {"b": "failed", "c": "crashed"}
    assert "b is broken; mend it" in [d.detail for d in drops]
    assert any("ZeroDivisionError: oops" in d.detail and "test_engine.py" in d.detail for d in drops)
    assert not build.is_within_quarantine


def test_quarantine_stays_until_retry_takes_it_up(workspace: Workspace, toy: Toy) -> None:
    def broken(workspace: Workspace, item: Item) -> Made:
        raise InputError("not yet")

    run(workspace, toy({"a": "1"}, broken)[0])
    step, called = toy({"a": "1"})
    again = run(workspace, step)
    assert called == []
    assert again.summaries[0].n_quarantined == 1

    assert forget_quarantined(workspace) == 1
    retried = run(workspace, step)

    assert called == ["a"]
    assert [r.item_id for r in retried.done["toy"]] == ["a"]


def test_results_do_not_depend_on_chunks(tmp_path: Path, workspace: Workspace, toy: Toy) -> None:
    step, _ = toy(dict.fromkeys("abcde", "1"))
    contents = []
    for size in (1, 2, 5):
        fresh = Workspace(workspace.config_path, {"chunk_size": size, "work": tmp_path / f"work{size}"})
        contents.append([(r.item_id, r.item_key, r.content_sha256) for r in run(fresh, step).done["toy"]])

    assert contents[0] == contents[1] == contents[2]


def test_a_build_that_dies_keeps_the_chunks_it_recorded(workspace: Workspace, toy: Toy) -> None:
    def make(workspace: Workspace, item: Item) -> Made:
        if item.item_id == "d":
            raise KeyboardInterrupt
        return double(workspace, item)

    with pytest.raises(KeyboardInterrupt):
        run(workspace, toy(dict.fromkeys("abcd", "1"), make)[0])
    step, called = toy(dict.fromkeys("abcd", "1"))
    run(workspace, step)

    assert called == ["c", "d"]


def test_item_table_returns_that_items_rows_alone(workspace: Workspace, toy: Toy) -> None:
    build = run(workspace, toy({"a": "1", "b": "1"})[0])

    assert [item_table(workspace, r, "poi").to_pylist() for r in build.done["toy"]] == [[{"poi_id": "a-1"}], [{"poi_id": "b-1"}]]


def test_a_step_prepares_once_with_what_is_to_be_worked_on_before_any_of_it(workspace: Workspace, toy: Toy) -> None:
    run(workspace, toy({"a": "1", "b": "1"})[0])
    step, called = toy({"a": "1", "b": "2", "c": "1", "d": "1"})
    prepared: list[list[str]] = []

    def prepare(_: Workspace, items: list[Item], _watch: Preparation) -> None:
        assert called == []
        prepared.append([item.item_id for item in items])

    run(workspace, replace(step, prepare=prepare))
    run(workspace, replace(step, prepare=prepare))

    assert prepared == [["b", "c", "d"]]
    assert called == ["b", "c", "d"]


def test_what_cannot_be_prepared_ends_the_run_as_stopped_and_the_next_one_goes_on(workspace: Workspace, toy: Toy) -> None:
    step, called = toy({"a": "1", "b": "1"})

    def prepare(_: Workspace, items: list[Item], _watch: Preparation) -> None:
        raise BudgetError("no more money")

    with pytest.raises(BudgetError, match="no more money"):
        run(workspace, replace(step, prepare=prepare))
    stopped = workspace.catalogue.list_runs(1)[0]
    build = run(workspace, step)

    assert (stopped.state, stopped.note) == ("stopped", "toy: no more money")
    assert [row.state for row in workspace.catalogue.list_stage_runs(stopped.run_id)] == ["stopped"]
    assert called == ["a", "b"]
    assert [result.item_id for result in build.done["toy"]] == ["a", "b"]


def _die(step_name: str) -> None:
    os._exit(9)


def test_a_worker_that_dies_costs_only_its_own_item(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    # real processes: the items name real steps that cannot work, and one kills its process
    two = Workspace(workspace.config_path, {"workers": 2})
    items = [Item(item_id=name, inputs=("1",)) for name in ("a", "b", "c")]
    monkeypatch.setattr(engine, "work_item", _work_or_die)
    try:
        outcomes = engine._outcomes(two, STEPS["collect"], items)
    finally:
        engine.close_pool()

    assert {o.item.item_id: o.error for o in outcomes} == {
        "a": "worked",
        "b": "the worker process died on this item (out of memory, or a crash in a library)",
        "c": "worked",
    }


def _work_or_die(config_path: str, overrides: dict[str, Any], step_name: str, item: Item) -> engine._Outcome:
    if item.item_id == "b":
        os._exit(9)
    return engine._Outcome(item, None, "worked", True)


def test_a_missing_input_stops_the_build_before_any_work(workspace: Workspace) -> None:
    (workspace.config_path.parent / "a.tif").unlink()

    with pytest.raises(ConfigError, match=r"sources\.here\.imagery: .*a\.tif does not exist"):
        start_build(workspace, "test")


def test_stages_come_in_the_documented_order() -> None:
    assert STAGES == ("collect", "annotate", "boxes", "graph", "query", "language", "review", "split", "publish", "audit")


def test_a_stage_does_not_depend_on_the_code_of_later_ones() -> None:
    code = {name: set(list_code(STEPS[name].module)) for name in STEPS}

    assert not any(module.startswith(("trigpoint.release", "trigpoint.audit", "trigpoint.programs")) for module in code["graph"])
    assert "tasks.publish" not in code["candidates"]
    assert "trigpoint.scene_graph.build" in code["graph"]
    assert "trigpoint.geometry.frames" in code["collect"]
