"""docs/scores.md explains what there is."""

import re
from pathlib import Path

import pytest

from trigpoint.scoring.failures import FAILURES
from trigpoint.scoring.metrics import METRICS
from trigpoint.scoring.predictions import PARQUET_SCHEMA, SPACES
from trigpoint.scoring.references import REFERENCES

DOCUMENT = (Path(__file__).parents[3] / "docs" / "scores.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z0-9_]+)`", DOCUMENT))


@pytest.mark.parametrize("name", [*FAILURES, *REFERENCES, *SPACES, *PARQUET_SCHEMA.names, "polygons"])
def test_every_kind_reference_space_and_key_is_explained(name: str) -> None:
    assert name in NAMED


@pytest.mark.parametrize("metric_id", [metric.metric_id for metric in METRICS])
def test_every_metric_is_explained(metric_id: str) -> None:
    # oriented boxes are explained with the horizontal ones, levels as a row
    assert re.sub(r"^obb_", "hbb_", re.sub(r"^eqs_l[2-4]$", "eqs_l1", metric_id)) in NAMED


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.metric_id)
def test_an_id_ends_in_its_matcher_where_pairs_are_counted(metric: object) -> None:
    metric_id, matcher = metric.metric_id, metric.matcher  # type: ignore[attr-defined]
    ending = metric_id.rpartition("_")[2]

    expected = {"maxcard": "maximum_cardinality", "hungarian": "hungarian_then_threshold", "greedy": "greedy"}
    assert matcher in (expected.get(ending, "has_perfect_matching"), None)
    assert metric_id.startswith(("hbb", "obb")) == (matcher in ("maximum_cardinality", "greedy") or metric_id.endswith("f1_50_hungarian"))
