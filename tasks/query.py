"""query: candidate programs per scene, certified on jittered outlines; then one global selection with its sentences."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import shapely

from tasks.boxes import read_masks
from tasks.graph import load_graph, masks_of_rows
from tasks.scenes import collected_scenes, open_scene, results_by_item, scene_items
from tasks.steps import Done, Item, Made
from tasks.tables import item_table, table_digest
from tasks.workspace import Workspace
from trigpoint.categories import Taxonomy
from trigpoint.errors import InputError, TaxonomyError
from trigpoint.geometry.frames import SceneFrame
from trigpoint.geometry.places import reach_into_scene
from trigpoint.identity import digest_json
from trigpoint.language.parser import SentenceParser, accept_paraphrase
from trigpoint.language.sentences import sentences
from trigpoint.programs.certificate import MeasuredScene, certify
from trigpoint.programs.generate import Candidate, Limits, generate_candidates
from trigpoint.programs.language import parse, to_json
from trigpoint.programs.resolver import Resolver
from trigpoint.programs.sectors import sector_shares
from trigpoint.programs.select import Quota, select_queries
from trigpoint.records.stage import Drop, ItemResult
from trigpoint.records.tables import CANDIDATE_SCHEMA, CERTIFICATE_SCHEMA, PROGRAM_SCHEMA, SENTENCE_SCHEMA
from trigpoint.scene_graph.build import outlines_to_ground


def plan_candidates(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene with a graph."""
    return items_with_pois(workspace, done, ("annotate", "boxes", "graph"))


def items_with_pois(workspace: Workspace, done: Done, needs: Sequence[str]) -> list[Item]:
    """Return `scene_items` that hold, and depend on, the points of interest of their source too."""
    sources = results_by_item(done, "collect")
    poi_digest = {
        name: [table_digest(item_table(workspace, result, table)) for table in ("poi", "mapped")] for name, result in sources.items()
    }
    items: list[Item] = []
    for item in scene_items(workspace, done, needs):
        source = item.payload["scene"]["source"]
        payload = {**item.payload, "collect": sources[source].to_json()}
        items.append(item.model_copy(update={"inputs": (*item.inputs, *poi_digest[source]), "payload": payload}))
    return items


def make_candidates(workspace: Workspace, item: Item) -> Made:
    """Enumerate, execute, prune and certify the programs of one scene."""
    scene, frame, valid = open_scene(workspace, item.payload)
    config = workspace.config
    boxes = ItemResult.model_validate(item.payload["boxes"])
    rows = item_table(workspace, boxes, "instance").to_pylist()
    graph = load_graph(workspace, item.payload["scene"], rows, ItemResult.model_validate(item.payload["graph"]))
    if graph is None:
        return Made({"candidate": CANDIDATE_SCHEMA.empty_table(), "certificate": CERTIFICATE_SCHEMA.empty_table()})
    resolver = Resolver(graph, workspace.taxonomy, config.rules, config.unknown_is_other)
    in_pixels = shapely.from_wkb(item_table(workspace, boxes, "outline").column("outline").to_numpy(zero_copy_only=False))
    outlines = outlines_to_ground(in_pixels, frame)
    generated = generate_candidates(
        resolver,
        sector_shares(graph.nodes.countable, graph.nodes.centroid_m, outlines, valid, frame),
        poi_categories(workspace, item, frame, (scene.width, scene.height)),
        config.seed,
        Limits(category_absent=config.query.category_absent_per_scene),
    )
    labels, planes = read_masks(workspace, ItemResult.model_validate(item.payload["annotate"]))
    measured = MeasuredScene(scene.scene_id, graph.nodes, masks_of_rows(rows, labels, planes), valid, frame, scene.shorter_side_m)
    certified = certify(generated.candidates, resolver, measured, config.seed, config.query.certificate_jitters)
    n_unstable = len(generated.candidates) - len(certified.candidates)
    reasons = {**generated.rejected, "answer_changes_with_the_outlines": n_unstable}
    drops = [
        Drop(
            stage="query",
            scope_id=scene.scene_id,
            item_id=scene.scene_id,
            reason_code=reason,
            detail="programs that may not be asked",
            remedy="none needed",
            n=n,
        )
        for reason, n in reasons.items()
        if n
    ]
    candidates = pa.Table.from_pylist([_candidate_row(candidate) for candidate in certified.candidates], schema=CANDIDATE_SCHEMA)
    levels = [{"level": level, **tried._asdict()} for level, tried in certified.levels.items()]
    tables = {"candidate": candidates, "certificate": pa.Table.from_pylist(levels, schema=CERTIFICATE_SCHEMA)}
    return Made(tables, drops=drops, n_in=candidates.num_rows + sum(reasons.values()), n_out=candidates.num_rows)


def poi_categories(workspace: Workspace, item: Item, frame: SceneFrame, size: tuple[int, int]) -> frozenset[str]:
    """Categories that the tags of the POIs in the scene name: a river that crosses it is in it, wherever its own point lies."""
    return categories_in_scene(item_table(workspace, ItemResult.model_validate(item.payload["collect"]), "poi"), frame, size)


def categories_in_scene(pois: pa.Table, frame: SceneFrame, size: tuple[int, int]) -> frozenset[str]:
    """Categories of the POIs (`POI_SCHEMA`) that share a point with a scene of `size` (width, height)."""
    if pois.num_rows == 0:
        return frozenset()
    geometries = shapely.from_wkb(pois.column("geometry").to_numpy(zero_copy_only=False))
    is_point = shapely.is_missing(geometries)
    lonlat = np.column_stack([pois.column(name).to_numpy() for name in ("lon", "lat")])
    geometries[is_point] = shapely.points(lonlat[is_point])
    inside = reach_into_scene(geometries, frame, size)
    categories = pois.column("categories").to_pylist()
    return frozenset(name for k in np.flatnonzero(inside) for name in categories[k])


def _candidate_row(candidate: Candidate) -> dict[str, Any]:
    row = candidate._asdict()
    row["canonical"] = row.pop("node").canonical()
    return row


def plan_selection(workspace: Workspace, done: Done) -> list[Item]:
    """One item: all candidates of all scenes, and which of these are north-up."""
    results = done["candidates"]
    north_up = [entry.scene.scene_id for entry in collected_scenes(workspace, done) if entry.scene.frame.is_north_up]
    return [
        Item(
            item_id="all",
            inputs=(*(f"{result.item_id}:{result.content_sha256}" for result in results), digest_json(north_up)),
            payload={"candidates": [result.to_json() for result in results], "north_up": north_up},
        )
    ]


def _candidates(workspace: Workspace, results: Iterable[ItemResult]) -> Iterator[list[Candidate]]:
    """The candidates of every scene, a scene at a time, in the order of scene ids."""
    for result in results:
        yield [
            Candidate(
                query_id=row["query_id"],
                scene_id=row["scene_id"],
                level=row["level"],
                node=parse(row["canonical"]),
                kind=row["kind"],
                answer_ids=tuple(row["answer_ids"]),
                category=tuple(row["category"]),
                relations=tuple(row["relations"]),
                anchor_ids=tuple(row["anchor_ids"]),
                n_category=row["n_category"],
                difficulty=row["difficulty"],
                flips=tuple(row["flips"]),
            )
            for row in item_table(workspace, result, "candidate").to_pylist()
        ]


def make_selection(workspace: Workspace, item: Item) -> Made:
    """Select the queries of the release and say them."""
    results = sorted((ItemResult.model_validate(value) for value in item.payload["candidates"]), key=lambda result: result.item_id)
    settings = workspace.config.query
    quota = Quota(
        dict(settings.per_scene),
        workspace.config.rules.unanswerable_share,
        settings.paired_share,
        settings.max_per_answer,
        settings.max_per_category,
        settings.max_per_scene,
    )
    selection = select_queries(_candidates(workspace, results), quota)
    programs = [
        {
            "query_id": c.query_id,
            "scene_id": c.scene_id,
            "level": c.level,
            "program": json.dumps(to_json(c.node), sort_keys=True),
            "canonical": c.node.canonical(),
            "answer_ids": list(c.answer_ids),
            "answerable": c.kind == "answerable",
            "kind": c.kind,
            "counterfactual_of": selection.counterfactual_of.get(c.query_id),
            "difficulty": c.difficulty,
            "category": list(c.category),
        }
        for c in selection.chosen
    ]
    north_up = set(item.payload["north_up"])
    parsers = {is_north_up: SentenceParser(workspace.taxonomy, is_north_up) for is_north_up in (False, True)}
    said = {c.query_id: _say(c, workspace.taxonomy, parsers[c.scene_id in north_up]) for c in selection.chosen}
    drops = _add_paraphrases(workspace, {c.query_id: c for c in selection.chosen}, north_up, parsers, said)
    rows = [
        {"query_id": c.query_id, "scene_id": c.scene_id, "position": position, "text": text}
        for c in selection.chosen
        for position, text in enumerate(said[c.query_id])
    ]
    tables = {
        "program": pa.Table.from_pylist(programs, schema=PROGRAM_SCHEMA),
        "sentence": pa.Table.from_pylist(rows, schema=SENTENCE_SCHEMA),
        "note": pa.table({"text": pa.array(selection.shortfalls, pa.string())}),
    }
    return Made(tables, drops=drops, n_in=sum(result.n_out for result in results), n_out=len(programs))


def _say(candidate: Candidate, taxonomy: Taxonomy, parser: SentenceParser) -> list[str]:
    """Return the sentences of a query, each read back.

    Raises:
        TaxonomyError: one can mean something else, because nouns or phrases of the taxonomy run into each other.
    """
    said = list(sentences(candidate.node, taxonomy))
    for text in said:
        reason = accept_paraphrase(text, candidate.node, parser)
        if reason is not None:
            raise TaxonomyError(f"taxonomy {taxonomy.name!r}: {reason}; change a noun, plural or phrase so that each reads as one category")
    return said


def _add_paraphrases(
    workspace: Workspace,
    chosen: dict[str, Candidate],
    north_up: set[str],
    parsers: dict[bool, SentenceParser],
    said: dict[str, list[str]],
) -> list[Drop]:
    """Add the sentences of the paraphrase files that mean exactly their query; the others are dropped with the reason."""
    drops: list[Drop] = []
    for path in workspace.config.query.paraphrases:
        for number, line in enumerate(_lines_of(path), start=1):
            if line.strip():
                query_id, text = _paraphrase(path, number, line)
                if query_id not in chosen:
                    reason, detail = "paraphrase_of_no_query", f"{path.name}:{number}: no query {query_id!r} is in this release"
                elif text in said[query_id]:
                    reason, detail = "paraphrase_known", f"{path.name}:{number}: {text!r} is said already"
                else:
                    parser = parsers[chosen[query_id].scene_id in north_up]
                    reason, detail = "paraphrase_means_something_else", accept_paraphrase(text, chosen[query_id].node, parser)
                if detail is None:
                    said[query_id].append(text)
                else:
                    drops.append(Drop(stage="query", scope_id="all", item_id=query_id, reason_code=reason, detail=detail))
    return drops


def _lines_of(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check query.paraphrases") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 at byte {error.start}; convert it to UTF-8") from error


def _paraphrase(path: Path, number: int, line: str) -> tuple[str, str]:
    try:
        row: Any = json.loads(line)
        return str(row["query_id"]), " ".join(str(row["sentence"]).split())
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}:{number}: {line[:80]!r} is no object with query_id and sentence ({error})") from error
