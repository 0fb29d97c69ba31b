"""What a stage is made of: steps, items and what is made of them. Not here: running them (`tasks.engine`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from tasks.workspace import Workspace
from trigpoint.records.base import Record
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult, StageName


class Item(Record):
    """One piece of work of a step.

    Attributes:
        item_id: A scene id, a source name, or `all`.
        inputs: Digests of everything it is made from.
        payload: What `make` needs, as JSON: ids and artefact references, no pixels.
        key: Its key, set once when it is planned: code may be edited while a build runs.
    """

    item_id: str
    inputs: tuple[str, ...]
    payload: dict[str, Any] = {}
    key: str = ""


class Made(NamedTuple):
    """What `make` returns: tables (to be sharded), files already in the store, drops and counts."""

    tables: dict[str, pa.Table]
    files: dict[str, ArtefactRef] = {}
    drops: Sequence[Drop] = ()
    n_in: int = 0
    n_out: int = 0


class Preparation(Protocol):
    """Who watches what a step prepares."""

    def prepared(self, what: str, n: int, n_total: int, note: str) -> None:
        """`n` of `n_total` are done; `note` says what that took so far."""
        ...

    def say(self, text: str) -> None:
        """Something worth knowing happened."""
        ...


Done = dict[str, list[ItemResult]]
"""Step name → results of earlier steps, in order of item id."""


@dataclass(frozen=True)
class Step:
    """One step of a stage.

    Attributes:
        name: Unique over all stages. stage: The stage it belongs to.
        module: Module whose code enters the key.
        plan: Items from earlier results.
        make: Work on one item, in any process.
        settings: The part of the configuration that matters.
        data_files: Files whose content enters the key (taxonomy, prompts).
        libraries: Distributions whose version enters the key.
        catalogue_tables: Tables of the result that are copied into the catalogue.
        is_parallel: Whether items may run in worker processes.
        prepare: Called once before the chunks, in the flow's own process, with all items to be worked on; makes nothing itself, but sees
            to it that `make` finds what it needs outside. What it raises ends the stage; what is wrong with one item is left to `make`.
        why_stale: Says why a known result must be made again although its artefacts are whole, or None.
    """

    name: str
    stage: StageName
    module: str
    plan: Callable[[Workspace, Done], list[Item]]
    make: Callable[[Workspace, Item], Made]
    settings: Callable[[Workspace], Any]
    data_files: Callable[[Workspace], list[Path]] = lambda _: []
    libraries: tuple[str, ...] = ("numpy", "pyarrow")
    catalogue_tables: tuple[str, ...] = ()
    is_parallel: bool = True
    prepare: Callable[[Workspace, list[Item], Preparation], None] | None = None
    why_stale: Callable[[Workspace, ItemResult], str | None] = lambda _workspace, _result: None
