"""score: release + predictions → report."""

from pathlib import Path
from typing import Any

from trigpoint.release.content import write_json
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import score_release


def score_files(
    release: str, predictions: str, report: str | None, protocol: str | None, split: str | None, kind: str | None
) -> dict[str, Any]:
    """Score a prediction file and write the report when asked; returns its JSON."""
    opened = Release.open(Path(release))
    made = score_release(opened, read_predictions(Path(predictions), opened), protocol=protocol, split=split, kind=kind).to_json()
    if report is not None:
        write_json(Path(report), made)
    return made
