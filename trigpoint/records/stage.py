"""What a stage says of its work: references to artefacts, results per item, drops, summaries."""

from typing import Literal

from pydantic import Field

from trigpoint.records.base import Record, Sha256

StageName = Literal["collect", "annotate", "boxes", "graph", "query", "language", "review", "split", "publish", "audit", "score"]


class ArtefactRef(Record):
    """A file in the artefact store.

    Attributes:
        sha256: Digest of the file's bytes, and its name in the store.
        n_bytes: Size.
        suffix: Extension with its dot (`.parquet`, `.tif`, `.json`).
    """

    sha256: Sha256
    n_bytes: int = Field(ge=0)
    suffix: str = Field(pattern=r"^\.[a-z0-9]{1,12}$")


class Drop(Record):
    """Something that did not go on, and why.

    Attributes:
        stage: Where it was dropped.
        scope_id: The item (scene, source) being worked on.
        item_id: What was dropped (a POI, a footprint, a scene).
        reason_code: Short stable code, `below_one_pixel`.
        detail: What was found, for people.
        remedy: What to do about it, for people.
        is_quarantined: True when an error kept it out; `trigpoint retry` takes it up again.
        n: How many things this stands for.
    """

    stage: StageName
    scope_id: str
    item_id: str
    reason_code: str = Field(pattern=r"^[a-z0-9_]+$")
    detail: str
    remedy: str = ""
    is_quarantined: bool = False
    n: int = Field(default=1, ge=0)


class ItemResult(Record):
    """What one stage made of one item.

    Attributes:
        item_id: A scene id, a source name, or `all`.
        item_key: Digest of inputs, configuration part and code: the same key means the same result.
        content_sha256: Digest of what was made, independent of sharding; the next stage's keys are made of it.
        tables: Table name → Parquet shard that holds this item's rows (column `item_id`).
        files: File name → artefact (a GeoTIFF, a JSON document).
        n_in: Things looked at. n_out: things made.
    """

    stage: StageName
    item_id: str
    item_key: Sha256
    status: Literal["done", "quarantined"]
    content_sha256: Sha256
    tables: dict[str, ArtefactRef] = {}
    files: dict[str, ArtefactRef] = {}
    drops: tuple[Drop, ...] = ()
    n_in: int = Field(default=0, ge=0)
    n_out: int = Field(default=0, ge=0)


class StageSummary(Record):
    """Counts of one stage of one run, for people and the catalogue."""

    stage: StageName
    n_items: int = 0
    n_done: int = 0
    n_reused: int = 0
    n_quarantined: int = 0
    n_in: int = 0
    n_out: int = 0
    drops: dict[str, int] = {}
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
