"""What a release knows of one item, as plain JSON: any scene, query, instance, annotation, sentence or decision by its id.

Not here: how that is told (`trigpoint.release.show_cards`) or drawn (`trigpoint.release.show`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import pyarrow.compute as pc

from trigpoint.errors import InputError
from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.release.show_programs import Explained, Hop, explain, queries_by_anchor

ItemType = Literal["scene", "query", "instance", "annotation", "sentence", "decision"]
Document = dict[str, Any]


def item_ids(release: Release) -> dict[ItemType, list[str]]:
    """Return the ids of everything in a release that can be shown, by type, in file order."""
    return {
        "scene": list(release.scene_by_id),
        "query": list(release.query_by_id),
        "instance": list(release.instance_by_id),
        "annotation": [one["annotation_id"] for one in release.annotations],
        "sentence": [one["item_id"] for one in release.language],
        "decision": [one["decision_id"] for one in release.reviews],
    }


def item_type(release: Release, item_id: str) -> ItemType:
    """Return what an id names.

    Raises:
        InputError: the release has no such item; says who rejected it where it was there before.
    """
    for name, ids in item_ids(release).items():
        if item_id in ids:
            return name
    history = history_of(release, item_id)
    if history:
        last = history[-1]
        what = f"{last['who']} ({last['role']}) decided to {last['action']} it"
        raise InputError(f"{item_id!r} is not in release {release.name} any more: {what}; show {last['decision_id']!r}")
    raise InputError(f"{item_id!r} is nothing in release {release.name}")


def document_of(release: Release, item_id: str) -> Document:
    """Tell everything that a release knows of an item.

    Returns:
        `item`, `type`, `scene_id`, and by type: `scene`, `query`, `instance`, `annotation`, `sentence` or `decision` as the files have
        it (an instance without its geometry); what is derived is beside it: `explained` of a query, `queries` and `sentences` of an
        instance or annotation, `history` (see `history_of`) of what people decide about.

    Raises:
        InputError: there is no such item.
        ProgramError: a program cannot be executed.
        ReleaseError: a file of the release is missing or cannot be read.
    """
    name = item_type(release, item_id)
    told = {
        "scene": _scene, "query": _query, "instance": _instance, "annotation": _annotation, "sentence": _sentence, "decision": _decision,
    }[name](release, item_id)  # fmt: skip
    return {"item": item_id, "type": name, **told}


def history_of(release: Release, item_id: str) -> list[Document]:
    """Return the decisions that touch an item, in order of writing, each with `counts`: false where it was undone, or is an undo."""
    undone = {one["undoes"] for one in release.reviews if one["undoes"] is not None}
    return [
        {**one, "counts": one["decision_id"] not in undone and one["action"] != "undo"}
        for one in release.reviews
        if item_id in (one["item_id"], *one["merged"], *one["made"])
    ]


def explained_from(document: Document) -> Explained | None:
    """Return what stands behind the answer of a query, from the document of the query."""
    told = document["explained"]
    if told is None:
        return None
    others = {name: value for name, value in told.items() if name != "hops"}
    return Explained(tuple(Hop(**hop) for hop in told["hops"]), **others)


def _scene(release: Release, scene_id: str) -> Document:
    table = release.scenes.filter(pc.field("scene_id") == scene_id)
    row = table.select([name for name in table.column_names if name != "geometry"]).to_pylist()[0]
    queries = [query for query in release.queries if query.scene_id == scene_id]
    rows = release.instances_of_scene[scene_id]
    return {
        "scene_id": scene_id,
        "scene": row,
        "instances": _counts(row.category[0] if row.category else "unknown" for row in rows if row.countable),
        "regions": _counts(row.category[0] if row.category else "unknown" for row in rows if not row.countable),
        "queries": {"levels": _counts(query.level for query in queries if query.level), "forms": _counts(query.form for query in queries)},
        "decisions": _counts(one["action"] for one in release.reviews if one["scene_id"] == scene_id),
    }


def _query(release: Release, query_id: str) -> Document:
    query = release.query(query_id)
    explained = explain(release, query)
    sentence = next((one for one in release.language if one["query_id"] == query_id), None)
    return {
        "scene_id": query.scene_id,
        "query": query.to_json(),
        "explained": None if explained is None else {**explained._asdict(), "hops": [hop._asdict() for hop in explained.hops]},
        "sentence": sentence,
        "history": [] if sentence is None else history_of(release, sentence["item_id"]),
    }


def _instance(release: Release, instance_id: str) -> Document:
    table = release.instances.filter(pc.field("instance_id") == instance_id)
    row = table.select([name for name in table.column_names if name != "geometry"]).to_pylist()[0]
    scene_id = row["scene_id"]
    anchor_of = set(queries_by_anchor(release, scene_id).get(instance_id, ()))
    here = [query for query in release.queries if query.scene_id == scene_id]
    annotations = [one for one in release.annotations if instance_id in one["instance_ids"]]
    return {
        "scene_id": scene_id,
        "instance": row,
        "queries": {
            "answer_of": [_short(query) for query in here if instance_id in query.answer_ids],
            "anchor_of": [_short(query) for query in here if query.query_id in anchor_of],
        },
        "annotations": annotations,
        "sentences": _sentences_of(release, {one["annotation_id"] for one in annotations}),
        "history": history_of(release, instance_id),
    }


def _annotation(release: Release, annotation_id: str) -> Document:
    annotation = next(one for one in release.annotations if one["annotation_id"] == annotation_id)
    return {
        "scene_id": annotation["scene_id"],
        "annotation": annotation,
        "queries": [_short(query) for query in release.queries if query.annotation_id == annotation_id],
        "sentences": _sentences_of(release, {annotation_id}),
        "history": [one for item in annotation["instance_ids"] for one in history_of(release, item)],
    }


def _sentence(release: Release, item_id: str) -> Document:
    sentence = next(one for one in release.language if one["item_id"] == item_id)
    annotation = next((one for one in release.annotations if one["annotation_id"] == sentence["annotation_id"]), None)
    return {
        "scene_id": sentence["scene_id"],
        "sentence": sentence,
        "annotation": annotation,
        "history": history_of(release, item_id),
    }


def _decision(release: Release, decision_id: str) -> Document:
    decision = next(one for one in release.reviews if one["decision_id"] == decision_id)
    ids = item_ids(release)
    is_there = any(decision["item_id"] in ids[name] for name in ("instance", "sentence"))
    return {
        "scene_id": decision["scene_id"],
        "decision": decision,
        "about": document_of(release, decision["item_id"]) if is_there else None,
        "history": history_of(release, decision["item_id"]),
    }


def _sentences_of(release: Release, annotation_ids: set[str]) -> list[Document]:
    return [one for one in release.language if one["annotation_id"] in annotation_ids]


def _short(query: Query) -> Document:
    return {"query_id": query.query_id, "form": query.form, "level": query.level, "sentence": query.sentences[0] if query.sentences else ""}


def _counts(values: Iterable[Any]) -> dict[str, int]:
    found = Counter(map(str, values))
    return {name: found[name] for name in sorted(found, key=lambda name: (-found[name], name))}
