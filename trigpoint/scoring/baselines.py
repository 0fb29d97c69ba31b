"""The two trivial submissions: everything right, and nothing at all. They show that a release and its scorer agree."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trigpoint.errors import ReleaseError
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import Submission, write_predictions
from trigpoint.scoring.report import MASK_FORMS


def predict_truth(release: Release, out: Path | str) -> int:
    """Write the answers of a release as a submission; scores exactly 1 wherever a mask score is defined.

    Returns:
        The number of records.

    Raises:
        ReleaseError: an answer has no mask in the release.
    """
    records = list(_truth(release))
    write_predictions(out, Submission("truth", ("masks",), "pixel"), records)
    return len(records)


def _truth(release: Release) -> Iterator[dict[str, Any]]:
    for query in release.queries:
        if query.form in MASK_FORMS:
            masks = release.answer_masks(query)
            if masks is None:
                raise ReleaseError(
                    f"query {query.query_id!r}: an answer instance has no mask in release {release.name}; run trigpoint audit"
                )
            yield {"query_id": query.query_id, "sentence": 0, "masks": [mask.to_json() for mask in masks]}


def predict_silence(release: Release, out: Path | str) -> int:
    """Write a submission that finds nothing anywhere; its EQS is exactly the share of unanswerable queries.

    Returns:
        The number of records.
    """
    records: list[dict[str, Any]] = [
        {"query_id": query.query_id, "sentence": 0, "masks": []} for query in release.queries if query.form in MASK_FORMS
    ]
    write_predictions(out, Submission("silence", ("masks",), "pixel"), records)
    return len(records)
