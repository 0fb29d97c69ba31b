"""Which queries a split file takes; all that readers of a release need of splits."""

from collections.abc import Iterable, Mapping
from typing import Any

SPLITS: tuple[str, ...] = ("train", "val", "test")


def query_ids_of(document: Mapping[str, Any], split: str, queries: Iterable[tuple[str, str]]) -> set[str]:
    """Return the ids of the queries of a split.

    Args:
        document: A split file.
        split: train, val or test.
        queries: (query id, scene id) of all queries of the release.
    """
    listed: Mapping[str, list[str]] | None = document.get("queries")
    if listed is not None:
        return set(listed.get(split, ()))
    scenes = set(document["assignment"][split])
    return {query_id for query_id, scene_id in queries if scene_id in scenes}
