"""The language stage on whole builds: offline, and by a server that speaks the API; both pass the same check."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.calls import report_calls
from tasks.workspace import Workspace
from tests.llm_server import LlmServer
from tests.tiny_project import make_project, tree_digest
from tests.unit.tasks.test_build import build
from trigpoint.language.items import RELEASED
from trigpoint.release.reader import Release

FORMS = ["vocabulary", "referring", "reasoning"]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = make_project(tmp_path_factory.mktemp("offline"), language={"forms": FORMS})
    report = build(config)
    assert report.findings == []
    assert report.state == "done"
    return config.parent / "release"


def test_offline_language_is_released_with_its_items_and_labelled(offline: Path) -> None:
    release = Release.open(offline)
    said = [query for query in release.queries if query.form != "program"]
    items = lines_of(offline / "language.jsonl")

    assert {query.form for query in said} == set(FORMS)
    assert {query.polarity for query in said} == {"positive", "negative"}
    assert release.manifest["language"]["provider"] == "offline"
    assert {item["provider"] for item in items} == {"offline"}
    assert {item["query_id"] for item in items if item["state"] in RELEASED} == {query.query_id for query in said}
    instances = {row["annotation_id"]: row["instance_ids"] for row in lines_of(offline / "annotations.jsonl")}
    for query in said:
        assert list(query.answer_ids) == ([] if query.polarity == "negative" else instances[query.annotation_id])
    assert "no language model" in (offline / "README.md").read_text(encoding="utf-8")


def test_a_model_that_is_wrong_about_directions_is_put_right_or_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-stage")
    with LlmServer({"school": ["wrong_directions"], "temple": ["refusal"]}) as server:
        language = {"forms": FORMS, "provider": "openai", "model": "test-model", "base_url": server.url, "attempts": 1}
        report = build(make_project(tmp_path, language=language))
        n_asked = len(server.billed)
    release = Release.open(tmp_path / "release")
    items = lines_of(tmp_path / "release" / "language.jsonl")

    assert report.findings == []
    assert n_asked > 0
    assert {item["provider"] for item in items} == {"test-model"}
    assert release.manifest["language"]["model"] == "test-model"
    assert {prompt["name"] for prompt in release.manifest["language"]["prompts"]} == {"generate", "verify", "repair"}
    assert (tmp_path / "release" / "prompts" / "generate.v1.md").is_file()
    assert release.manifest["counts"]["drops"]["language.refused"] >= 1
    released = [item for item in items if item["state"] in RELEASED]
    assert all(item["verdict"] == "supported" or item["state"] == "corrected" for item in released)
    for path in (tmp_path / "release").rglob("*"):
        assert not path.is_file() or b"sk-test-of-the-stage" not in path.read_bytes()


def test_recorded_answers_give_the_same_release_without_a_server_whatever_they_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    language = {"forms": FORMS, "provider": "openai", "model": "test-model", "attempts": 1}
    paid = {"prices": {"test-model": {"input": 1234.5, "output": 6789.5}}, "max_cost": 98765.5}
    with LlmServer() as server:
        build(make_project(tmp_path, language={**language, **paid, "base_url": server.url}))
    costs = {f"{target.cost}".encode() for target in report_calls(Workspace(tmp_path / "release.yaml")).targets}
    whole = tree_digest(tmp_path / "release")
    config = tmp_path / "release.yaml"
    places = {"work": "work2", "store": "work/store", "output": "release2", "workers": 1, "chunk_size": 2}
    replayed = {**language, "base_url": "http://127.0.0.1:9/v1", "mode": "replay"}
    said = yaml.safe_load(config.read_text(encoding="utf-8"))
    config.write_text(yaml.safe_dump({**said, "language": replayed, "run": places}), encoding="utf-8")

    build(config)

    assert tree_digest(tmp_path / "release2") == whole
    assert len(costs) > 1
    for text in (*costs, b"1234.5", b"6789.5", b"98765.5"):
        assert [name for name, data in whole.items() if text in data] == []
