"""Score one or several prediction files: the one way that the command line and the flow share."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trigpoint.errors import InputError
from trigpoint.release.reader import Release
from trigpoint.scoring.comparison import Comparison, Settings, compare_reports
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import ScoreReport, prepare_ground, score_on


def score_files(
    release: Path | str,
    files: Sequence[Path | str],
    protocol: str | None = None,
    split: str | None = None,
    kind: str | None = None,
    settings: Settings | None = None,
) -> ScoreReport | Comparison:
    """Score prediction files on a release.

    Args:
        release: Release folder.
        files: One file gives a report, several a comparison that holds their reports.
        protocol: Which queries, see `trigpoint.scoring.report.prepare_ground`.
        split: Likewise.
        kind: Likewise.
        settings: How several are compared; None is the default.

    Raises:
        InputError: no file, a file twice, or a selection or setting that cannot be used.
        ReleaseError: the release cannot be read. PredictionError: a prediction file cannot be read.
    """
    settings = settings or Settings()
    settings.check()
    paths = [Path(file) for file in files]
    twice = sorted(str(path) for path, n in Counter(path.resolve() for path in paths).items() if n > 1)
    if twice or not paths:
        raise InputError(f"prediction file {twice[0]!r} is given twice" if twice else "no prediction file is given")
    ground = prepare_ground(Release.open(release), protocol, split, kind)
    reports = [score_on(ground, read_predictions(path, ground.release)) for path in paths]
    if len(reports) == 1:
        return reports[0]
    return compare_reports(reports, ground.queries, _labels([report.name for report in reports], paths), settings)


def _labels(names: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """Name submissions by their own names; those that share one by their files too."""
    shared = Counter(names)
    return [name if shared[name] == 1 else f"{name} ({path})" for name, path in zip(names, paths, strict=True)]
