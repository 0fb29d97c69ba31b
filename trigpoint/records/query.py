"""A released query: one line of queries.jsonl, fields as in docs/release-format.md."""

from typing import Any, Literal

from pydantic import Field

from trigpoint.records.base import Record

QueryForm = Literal["program", "vocabulary", "referring", "reasoning", "choice", "text"]
Difficulty = Literal["easy", "medium", "hard"]


class Query(Record):
    """One query of a release.

    Attributes:
        query_id: `q-` and 16 hex digits of scene id and canonical form.
        form: What kind of question it is. `program` and `level` are None where the form has none.
        program: The program tree as plain JSON. canonical: Its s-expression.
        answer_ids: Sorted instance ids; empty when unanswerable.
        kind: `answerable`, `category_absent`, `relation_unsatisfied`, …
        polarity: Whether something is to be found (`positive`) or nothing (`negative`).
        sentences: The first is scored, the others are paraphrases.
        counterfactual_of: Query with exactly one relation flipped.
        category: Categories of the selected set, one per axis.
    """

    query_id: str
    scene_id: str
    form: QueryForm
    level: int | None = Field(default=None, ge=1, le=5)
    program: Any = None
    canonical: str | None = None
    answer_ids: tuple[str, ...]
    answerable: bool
    kind: str
    polarity: Literal["positive", "negative"]
    sentences: tuple[str, ...]
    counterfactual_of: str | None = None
    difficulty: Difficulty | None = None
    annotation_id: str | None = None
    category: tuple[str, ...] = ()
