"""The two trivial submissions: everything right, and nothing at all. They show that a release and its scorer agree."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trigpoint.errors import ReleaseError
from trigpoint.release.reader import Release
from trigpoint.scoring.metrics import MASK_FORMS
from trigpoint.scoring.predictions import Submission, write_predictions


def predict_truth(release: Release, out: Path | str) -> int:
    """Write the answers of a release as a submission: masks, and boxes where all instances of an answer have them.

    Every sentence of a query has its record. Scores the best that there is in every metric that is defined.

    Returns:
        The number of records.

    Raises:
        ReleaseError: an answer has no mask in the release.
    """
    records = list(_truth(release))
    write_predictions(out, Submission("truth", MODALITIES, "pixel"), records)
    return len(records)


MODALITIES = ("masks", "boxes", "obbs")
"""What both declare."""


def _truth(release: Release) -> Iterator[dict[str, Any]]:
    for query in release.queries:
        if query.form not in MASK_FORMS:
            continue
        masks = release.answer_masks(query)
        if masks is None:
            raise ReleaseError(f"query {query.query_id!r}: an answer instance has no mask in release {release.name}; run trigpoint audit")
        rows = [release.instance_by_id[instance_id] for instance_id in query.answer_ids]
        answer: dict[str, Any] = {"masks": [mask.to_json() for mask in masks]}
        for key, boxes in (("boxes", [row.hbb_px for row in rows]), ("obbs", [row.obb_px for row in rows])):
            if None not in boxes:
                answer[key] = [list(box) for box in boxes if box is not None]
        for sentence in range(max(1, len(query.sentences))):
            yield {"query_id": query.query_id, "sentence": sentence, **answer}


def predict_silence(release: Release, out: Path | str) -> int:
    """Write a submission that finds nothing anywhere; its EQS is exactly the share of unanswerable queries.

    Returns:
        The number of records.
    """
    records: list[dict[str, Any]] = [
        {"query_id": query.query_id, "sentence": sentence, **{modality: [] for modality in MODALITIES}}
        for query in release.queries
        if query.form in MASK_FORMS
        for sentence in range(max(1, len(query.sentences)))
    ]
    write_predictions(out, Submission("silence", MODALITIES, "pixel"), records)
    return len(records)
