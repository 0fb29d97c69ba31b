"""Score a submission against a release."""

from typing import Any

from prefect import flow

from tasks.doors import show_scores
from tasks.score import score_files


@flow(name="score-submission", flow_run_name="{predictions}")
def score_submission(
    release: str,
    predictions: str,
    report: str | None = None,
    protocol: str | None = None,
    split: str | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """Score one prediction file.

    Args:
        release: Release folder.
        predictions: JSONL or Parquet file.
        report: JSON file to write; none when null.
        protocol: Split protocol; all queries when null.
        split: Split of that protocol.
        kind: Only queries of this kind; all when null.
    """
    scores = score_files(release, predictions, report, protocol, split, kind)
    show_scores(scores)
    return scores
