"""The split file and its proof; every number is recomputed from scenes, queries and assignment. Format: docs/release-format.md."""

from collections import Counter
from typing import Any

import numpy as np

from trigpoint.config import SplitConfig
from trigpoint.errors import LeakageError
from trigpoint.splits.duplicates import smallest_bits
from trigpoint.splits.membership import SPLITS, query_ids_of
from trigpoint.splits.protocols import Division, Material

SPLIT_VERSION = 1
"""Version of the split file."""


def split_document(protocol: str, material: Material, division: Division, screening: dict[str, Any] | None) -> dict[str, Any]:
    """Return the split file of a protocol.

    Raises:
        LeakageError: scenes of different splits share a native pixel.
    """
    config = material.config
    document: dict[str, Any] = {
        "protocol": protocol,
        "version": SPLIT_VERSION,
        "seed": material.seed,
        "assignment": division.assignment,
        "left_out": dict(sorted(division.left_out.items())),
        "rule": division.rule,
        "grouping": {
            "buffer_m": _buffers(config),
            "same_place_share": config.same_place_share,
            "near_duplicate": config.near_duplicate.model_dump(mode="json"),
        },
        "groups": [
            {
                "group_id": group.group_id,
                "scenes": list(group.scenes),
                "reasons": [{"scenes": [r.first, r.second], "why": r.why, "value": r.value} for r in group.reasons],
            }
            for group in material.groups
        ],
        "screening": screening,
        "proof": _proof(material, division),
    }
    if division.queries is not None:
        document["queries"] = division.queries
    return document


def _buffers(config: SplitConfig) -> dict[str, float]:
    return {"same_source": config.buffer_m_same_source, "other_source": config.buffer_m_other_source}


def _proof(material: Material, division: Division) -> dict[str, Any]:
    scene_set, rule = material.scene_set, material.config.near_duplicate
    place = {s: SPLITS.index(name) for name, ids in division.assignment.items() for s in ids}
    label = np.array([place.get(scene.scene_id, -1) for scene in scene_set.scenes], dtype=np.int64)
    _refuse_leaks(material, label)
    members = [np.flatnonzero(label == k) for k in range(len(SPLITS))]
    kept = scene_set.informative(rule)
    bits = smallest_bits(scene_set.hashes(kept), label[kept], len(SPLITS))
    distance: dict[str, float | None] = {}
    fewest: dict[str, int | None] = {}
    for i, one in enumerate(SPLITS):
        for j in range(i + 1, len(SPLITS)):
            metres = scene_set.footprints.smallest_m(members[i], members[j])
            distance[f"{one}-{SPLITS[j]}"] = None if metres is None else round(metres, 3)
            fewest[f"{one}-{SPLITS[j]}"] = None if bits[i, j] == 255 else int(bits[i, j])
    sizes = _sizes(material, division)
    total = sum(sizes["queries"].values()) or 1
    return {
        "shared_pixels_between_splits": 0,
        "smallest_distance_m": distance,
        "smallest_hash_bits": fewest,
        "scenes": {name: len(division.assignment[name]) for name in SPLITS},
        **sizes,
        "target_share": material.shares,
        "reached_share": {name: round(n / total, 6) for name, n in sizes["queries"].items()},
        "buffer_m": _buffers(material.config),
    }


def _refuse_leaks(material: Material, label: np.ndarray) -> None:
    pairs, pixels = material.scene_set.shared
    across = (label[pairs.first] != label[pairs.second]) & (label[pairs.first] >= 0) & (label[pairs.second] >= 0)
    if across.any():
        ids = [scene.scene_id for scene in material.scene_set.scenes]
        leaks = [(ids[i], ids[j]) for i, j in zip(pairs.first[across], pairs.second[across], strict=True)]
        raise LeakageError(f"{len(leaks)} pairs of scenes in different splits share {int(pixels[across].sum())} native pixels", leaks)


def _sizes(material: Material, division: Division) -> dict[str, Any]:
    """Queries, levels and answerable share by split."""
    everything = [(query.query_id, query.scene_id) for query in material.queries]
    document = {"assignment": division.assignment, "queries": division.queries}
    inside = {name: query_ids_of(document, name, everything) for name in SPLITS}
    chosen = {name: [query for query in material.queries if query.query_id in inside[name]] for name in SPLITS}
    return {
        "queries": {name: len(queries) for name, queries in chosen.items()},
        "levels": {
            name: {str(level): n for level, n in sorted(Counter(q.level for q in queries if q.level is not None).items())}
            for name, queries in chosen.items()
        },
        "answerable_share": {
            name: round(sum(q.answerable for q in queries) / len(queries), 6) if queries else None for name, queries in chosen.items()
        },
    }
