"""The flows on a temporary Prefect server: few, since a server costs seconds."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.artifacts import Artifact
from prefect.flows import load_flow_from_entrypoint
from prefect.logging import disable_run_logger

from flows.build_release import build_release
from flows.run_stage import run_stage
from flows.score_submission import score_submission
from tasks.builds import BuildFailedError, conclude, run_until
from tasks.calls import report_calls
from tasks.doors import process_chunk
from tasks.engine import plan_step, start_build
from tasks.stages import STEPS
from tasks.workspace import Workspace
from tests.llm_server import LlmServer
from tests.tiny_project import ROOT, make_project, tree_digest
from tests.unit.tasks.test_build import build as build_plainly
from trigpoint.errors import InputError
from trigpoint.records.stage import StageName
from trigpoint.release.reader import Release
from trigpoint.scoring.baselines import predict_truth

# rasterio's own silencing of this warning is not safe in threads, and pytest makes errors of warnings
pytestmark = [pytest.mark.flow, pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")]

ENTRYPOINTS = sorted({d["entrypoint"] for d in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]})


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_deployed_entrypoint_loads_without_placeholder(entrypoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # `prefect deploy` accepts a file whose imports fail; this does not
    monkeypatch.chdir(ROOT)

    assert load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False).name


def test_a_chunk_is_worked_on_without_a_server(tmp_path: Path) -> None:
    workspace = Workspace(make_project(tmp_path / "p"))
    items = plan_step(workspace, STEPS["collect"], {}).items

    with disable_run_logger():
        results = process_chunk.fn(str(workspace.config_path), {}, "collect", 0, [item.to_json() for item in items])

    assert [(r["item_id"], r["status"]) for r in results] == [("a", "done"), ("b", "done")]


def test_flow_and_plain_call_build_the_same_bytes_and_a_stage_gives_the_same_artefacts(tmp_path: Path, prefect_server: None) -> None:
    plain, flow = make_project(tmp_path / "plain"), make_project(tmp_path / "flow")
    build_plainly(plain)

    ended = build_release(str(flow))
    by_flow = run_stage(str(flow), "graph", force=True)
    by_call = start_build(Workspace(plain), "test")
    run_until(by_call, "graph", force=True)

    assert tree_digest(tmp_path / "flow" / "release") == tree_digest(tmp_path / "plain" / "release")
    assert ended["release"] == str(tmp_path / "flow" / "release")
    assert {r.item_id: r.content_sha256 for r in by_call.done["graph"]} == by_flow["content_sha256"]["graph"]

    truth, report = tmp_path / "truth.jsonl", tmp_path / "report.json"
    release = Release.open(tmp_path / "flow" / "release")
    predict_truth(release, truth)
    score_submission(str(tmp_path / "flow" / "release"), str(truth), str(report))
    assert json.loads(report.read_text(encoding="utf-8"))["metrics"]["eqs"] == 1
    assert f"| eqs | 1.0000 | {len(release.queries)} |" in _artefact("score-summary")
    assert _artefact("sample-picture").startswith("data:image/jpeg;base64,")
    assert "| graph | 5 | 0 | 0 |" in _artefact("build-summary")
    assert float(_artefact("graph-progress")) == 100


def test_a_flow_asks_about_all_scenes_before_the_first_and_shows_how_far_it_is(
    tmp_path: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-flow")
    with LlmServer() as server:
        language = {"forms": ["referring"], "provider": "openai", "model": "test-model", "base_url": server.url}
        config = make_project(tmp_path / "p", language=language)
        for stage in ("collect", "annotate", "boxes", "graph", "query"):
            run_stage_plainly(Workspace(config), stage)
        ended = run_stage(str(config), "language", workers=2)
    told = report_calls(Workspace(config))

    assert len(ended["content_sha256"]["calls"]) == 5
    assert float(_artefact("language-model-calls-progress")) == 100
    assert told.spent.tokens == server.tokens > 0
    assert len({target.scene_id for target in told.targets}) >= 3
    assert Workspace(config).catalogue.table_counts()["llm_call"] == 2 * len(server.billed)


def run_stage_plainly(workspace: Workspace, stage: StageName) -> None:
    run = start_build(workspace, "test")
    run_until(run, stage)
    conclude(run, is_whole=False)


def _artefact(key: str) -> str:
    """Content of the newest artefact of a key."""
    found: Any = Artifact.get(key)
    assert found is not None
    return str(found.data)


def test_stage_that_no_build_has_is_refused(tmp_path: Path, prefect_server: None) -> None:
    config = make_project(tmp_path / "p")

    with pytest.raises(InputError, match="stage 'score' is not one of collect, annotate"):
        run_stage(str(config), "score")


def test_a_flow_that_lost_too_much_fails_with_the_reason(tmp_path: Path, prefect_server: None) -> None:
    config = make_project(tmp_path / "p")
    raster = tmp_path / "p" / "b.tif"
    raster.write_bytes(raster.read_bytes()[:50_000])

    with pytest.raises(BuildFailedError, match=r"2 item\(s\) were quarantined.*collect s-.*b\.tif"):
        build_release(str(config))
