"""score: release + predictions → report."""

from collections.abc import Sequence
from pathlib import Path

from trigpoint.release.content import write_json
from trigpoint.scoring.comparison import Comparison, Settings
from trigpoint.scoring.report import ScoreReport
from trigpoint.scoring.scorecard import score_files


def score_predictions(
    release: str,
    predictions: Sequence[str],
    report: str | None,
    protocol: str | None,
    split: str | None,
    kind: str | None,
    settings: Settings,
) -> ScoreReport | Comparison:
    """Score prediction files; writes the JSON report when asked."""
    made = score_files(release, predictions, protocol, split, kind, settings)
    if report is not None:
        write_json(Path(report), made.to_json())
    return made
