"""Score submissions against a release."""

from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from tasks.doors import show_scores
from tasks.score import score_predictions
from trigpoint.scoring.comparison import Comparison, Settings


@flow(name="score-submission", flow_run_name="{predictions}")
def score_submission(
    release: str,
    predictions: str | list[str],
    report: str | None = None,
    protocol: str | None = None,
    split: str | None = None,
    kind: str | None = None,
    resamples: int = Settings().resamples,
    significance: float = Settings().significance,
    seed: int = Settings().seed,
) -> dict[str, Any]:
    """Score one prediction file, or several and compare them.

    Args:
        release: Release folder.
        predictions: JSONL or Parquet file, or a list of them.
        report: JSON file to write; none when null.
        protocol: Split protocol; all queries when null.
        split: Split of that protocol.
        kind: Only queries of this kind; all when null.
        resamples: Bootstrap resamples of the scenes, for several files.
        significance: Level at which two files differ, for several files.
        seed: Of the resamples.
    """
    files = [predictions] if isinstance(predictions, str) else predictions
    scores = score_predictions(release, files, report, protocol, split, kind, Settings(resamples, significance, seed))
    if isinstance(scores, Comparison):
        create_markdown_artifact(scores.to_markdown(), key="score-comparison", description="Several submissions compared")
    for one in scores.reports if isinstance(scores, Comparison) else [scores]:
        show_scores(one.to_json())
    return scores.to_json()
