"""A release with everything in it that can be shown: free language, and decisions of people on masks and sentences."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tasks.builds import run_stage
from tasks.engine import finish_build, start_build
from tasks.stages import STAGES, StageName
from tasks.tables import item_records
from tasks.workspace import Workspace
from tests.tiny_project import make_project
from tests.unit.tasks.test_build import build
from tests.unit.tasks.test_language import FORMS
from tests.unit.tasks.test_review import as_item, decide, ledger_of, shifted
from trigpoint.records.review import Decision, MaskValue, SentenceValue
from trigpoint.release.reader import Release
from trigpoint.review.ledger import item_from_json


class Reviewed(NamedTuple):
    """The release, its configuration, and what was decided: by item, in order."""

    release: Release
    config: Path
    edited: str
    rejected: str
    sentence: str
    decisions: dict[str, list[Decision]]


def records_of(config: Path, last: StageName, table: str) -> list[dict[str, Any]]:
    """Build up to a stage; returns the records of a table of it."""
    run = start_build(Workspace(config), "test")
    for stage in STAGES[: STAGES.index(last) + 1]:
        run_stage(run, stage)
    finish_build(run, "done")
    return [record for result in run.done[last] for record in item_records(run.workspace, result, table)]


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    config = make_project(tmp_path_factory.mktemp("reviewed"), language={"forms": FORMS}, review={"publish_names": True})
    data = yaml.safe_load(config.read_text(encoding="utf-8"))
    source = data["sources"][0]
    config.write_text(yaml.safe_dump({**data, "sources": [{**source, "scenes": {"grid": {"sizes_px": [240]}}}]}), encoding="utf-8")
    proposed = records_of(config, "annotate", "review_item")
    ledger = ledger_of(config)
    houses = [item for item in map(item_from_json, proposed) if "building" in item.value.category]  # type: ignore[union-attr]
    edited, rejected = [item for item in houses if min(item.value.mask.origin_px) > 30][:2]  # type: ignore[union-attr]
    assert isinstance(edited.value, MaskValue)
    sentences = records_of(config, "language", "language_item")
    sentence = next(item for item in sentences if item["state"] == "accepted" and item["form"] == "referring")
    decisions = {
        edited.item_id: [
            decide(ledger, edited, "return", who="Maya Rai", role="manager", reason="the roof goes on to the east"),
            decide(ledger, edited, "edit", after=MaskValue(mask=shifted(edited.value.mask, 1), category=edited.value.category)),
            decide(ledger, edited, "accept", who="Maya Rai", role="manager"),
        ],
        rejected.item_id: [decide(ledger, rejected, "reject", reason="no roof under it")],
        sentence["item_id"]: [
            decide(ledger, as_item(sentence), "edit", who="lin", after=SentenceValue(text=f"{sentence['text']} by day")),
        ],
    }
    assert build(config).findings == []
    return Reviewed(Release.open(config.parent / "release"), config, edited.item_id, rejected.item_id, sentence["item_id"], decisions)
