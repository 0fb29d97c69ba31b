"""The record of proposals: what models answered about scenes, written for good before anything relies on it.

    records/proposal-<request>/ab/<digest>.json    one small record per inference (`InferenceRecord`), all of a request together
    sha256/ab/<digest>.parquet                     its raw answers with their prompts

A request is what the configuration and the inputs decide; a record adds which weights answered, on which class of device, with which
packages. So a record is found where the weights are not, and a rebuild asks no model again. Not here: asking (`tasks.propose`).
"""

from collections.abc import Sequence

import pyarrow as pa
from pydantic import ValidationError

from storage.artefacts import ArtefactStore
from trigpoint.errors import ArtefactError, InputError
from trigpoint.identity import canonical_json, digest_json
from trigpoint.records.mask import MaskCrop
from trigpoint.records.proposal import DeviceClass, InferenceRecord, Prompt, ProposalRequest, ProposerIdentity, RawAnswer
from trigpoint.records.scene import Window

_REQUEST_DIGITS = 32
"""Hex digits of a request's digest in the name of its folder: 128 bits."""

ANSWER_SCHEMA = pa.schema(
    [
        ("prompt", pa.int32()),
        ("prompt_json", pa.string()),
        ("tile", pa.list_(pa.int64())),
        ("reduced_by", pa.int32()),
        ("origin_px", pa.list_(pa.int64())),
        ("size_px", pa.list_(pa.int64())),
        ("counts", pa.string()),
        ("score", pa.float64()),
    ]
)
"""Raw answers; `tile` is col_off, row_off, width, height; `counts` are compressed COCO counts of the window."""


class ProposalRecord:
    """The record in a store."""

    def __init__(self, store: ArtefactStore) -> None:
        self._store = store

    def find(self, request: ProposalRequest, model_sha256: str | None, device: DeviceClass | None) -> InferenceRecord | None:
        """Return the record of a request.

        Args:
            request: What is asked for.
            model_sha256: Digest of the model, where it is known; None takes the record of whatever model answered.
            device: Class of the device that must have answered; None takes any.

        Returns:
            None when there is none. Of several (one made on each class of device) always the same one.

        Raises:
            InputError: the model is not known and several models have answered.
            ArtefactError: a record is damaged.
        """
        found = [
            record
            for record in self._records(request)
            if model_sha256 in (None, record.model_sha256) and device in (None, record.identity.device)
        ]
        models = sorted({record.model_sha256 for record in found})
        if len(models) > 1:
            raise InputError(
                f"{len(models)} models called {request.model!r} have answered the same request, and the checkpoint is not here to say "
                f"which is meant; set sam2.sha256, or put the checkpoint back (digests: {', '.join(models)})"
            )
        return min(found, key=lambda record: digest_json(record.to_json())) if found else None

    def _records(self, request: ProposalRequest) -> list[InferenceRecord]:
        wanted = request.to_json()
        records: list[InferenceRecord] = []
        for value in self._store.iter_records(_stream(request)):
            try:
                record = InferenceRecord.model_validate(value)
            except ValidationError as error:
                raise ArtefactError(
                    f"record of proposals by {request.model!r} in store {self._store.location!r} is not of this version: {error}; remove "
                    "it to have the model asked again"
                ) from error
            if record.request.to_json() == wanted:
                records.append(record)
        return records

    def answers(self, record: InferenceRecord) -> list[RawAnswer]:
        """Return the raw answers of an inference, in their order.

        Raises:
            ArtefactError: they are missing or damaged.
        """
        return [
            RawAnswer(
                prompt=row["prompt"],
                tile=Window(**dict(zip(("col_off", "row_off", "width", "height"), row["tile"], strict=True))),
                reduced_by=row["reduced_by"],
                mask=MaskCrop(origin_px=tuple(row["origin_px"]), size_px=tuple(row["size_px"]), counts=row["counts"]),
                score=row["score"],
            )
            for row in self._store.get_table(record.answers).to_pylist()
        ]

    def add(
        self,
        request: ProposalRequest,
        identity: ProposerIdentity,
        model_sha256: str,
        versions: dict[str, str],
        prompts: Sequence[Prompt],
        answers: Sequence[RawAnswer],
    ) -> InferenceRecord:
        """Write raw answers and then the record of their inference, both for good; returns the record.

        Args:
            request: What was asked for.
            identity: Who answered.
            model_sha256: Digest of the model.
            versions: Packages that computed.
            prompts: What was asked.
            answers: What came back.
        """
        texts = [canonical_json(prompt.to_json()) for prompt in prompts]
        rows = [
            {
                "prompt": answer.prompt,
                "prompt_json": texts[answer.prompt],
                "tile": list(answer.tile.as_tuple()),
                "reduced_by": answer.reduced_by,
                "origin_px": list(answer.mask.origin_px),
                "size_px": list(answer.mask.size_px),
                "counts": answer.mask.counts,
                "score": answer.score,
            }
            for answer in answers
        ]
        ref = self._store.put_table(pa.Table.from_pylist(rows, schema=ANSWER_SCHEMA))
        record = InferenceRecord(
            request=request, identity=identity, model_sha256=model_sha256, versions=versions, answers=ref, n_answers=len(rows)
        )
        self._store.append_record(_stream(request), record.to_json())
        return record


def _stream(request: ProposalRequest) -> str:
    return f"proposal-{digest_json(request.to_json())[:_REQUEST_DIGITS]}"
