"""The whole audit, in order: files, tables, then scene by scene (frame, masks, boxes, graph, answers), then what spans scenes.

Not here: any check.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import shapely

from trigpoint.audit.boxes import check_boxes, check_metric
from trigpoint.audit.certificate import REPEATED, Certificate, check_stability, read_certificate
from trigpoint.audit.exports import check_coco, check_dota
from trigpoint.audit.files import check_files, check_manifest, read_manifest
from trigpoint.audit.findings import AuditError, AuditReport, Notebook
from trigpoint.audit.forms import check_forms
from trigpoint.audit.georeferencing import SCALE_SLACK, SCALE_TOLERANCE, check_scene, shorter_side
from trigpoint.audit.hashing import Grid, check_hashes
from trigpoint.audit.language import check_language, check_language_queries, check_language_scene
from trigpoint.audit.origins import check_origins
from trigpoint.audit.outline import polygon_of
from trigpoint.audit.ownership import FILE as INSTANCES
from trigpoint.audit.ownership import Masks, check_ownership, read_masks
from trigpoint.audit.phrases import Lexicon
from trigpoint.audit.programs import Node, World
from trigpoint.audit.proposals import check_proposals
from trigpoint.audit.quality import check_quality
from trigpoint.audit.queries import check_absence, check_all, check_answer, check_difficulty, check_form
from trigpoint.audit.reading import Query, Release, Scene, read_release, scene_edges
from trigpoint.audit.relations import Limits, check_algebra, check_relations, expect_relations, measure, stored_verdicts
from trigpoint.audit.reviews import check_reviews
from trigpoint.audit.sentences import SentenceParser, check_sentences
from trigpoint.audit.sources import check_sources
from trigpoint.audit.splits import check_splits

Progress = Callable[[str, int, int], None]
"""Called with (step, done, total)."""

NOT_RECUT = "provenance is recorded, not re-cut: the original rasters were not given"
NOT_CERTIFIED = (
    "category names: whether a thing is what its category says",
    "naturalness of sentences: only their meaning is checked",
    "free language: what a text says beyond the grammar, and whether an absent concept is plausible",
    "completeness: whether every thing in the pixels has an instance",
    "drops: their counts by reason cannot be derived from a release",
    "review: whether digests are of what people saw, what a mask that is not in the release was, and how well people agree",
    "screening: the lists of other data sets are not in a release",
)
DEFAULT_RELATIONS = ("north_of", "east_of", "south_of", "west_of", "near", "far", "inside", "contains", "outside", "overlaps")


def audit_release(folder: Path, sources: Path | None = None, progress: Progress | None = None, *, certificate: bool = False) -> AuditReport:
    """Audit a release folder with nothing but its files.

    Args:
        folder: The release.
        sources: Folder with the original rasters; each scene's source is found in it by SHA-256 and its window cut again.
        progress: Told how far the audit is.
        certificate: Repeat all jitters of the certificate and not just the first two.

    Returns:
        All findings. A damaged release gives findings, never an exception.

    Raises:
        AuditError: `folder` has no readable manifest.json.
    """
    tell: Progress = progress or (lambda step, done, total: None)
    manifest, manifest_sha256 = read_manifest(folder)
    hidden = {str(folder), str(folder.resolve()), *({str(sources), str(sources.resolve())} if sources else set[str]())} - {".", "/"}
    notes = Notebook(hidden=tuple(sorted(hidden, key=len, reverse=True)))
    tell("files", 0, 1)
    with notes.guard("check_failed", "manifest.json", "files"):
        check_files(folder, manifest, manifest_sha256, notes)
    tell("files", 1, 1)
    release = Release(folder, manifest)
    with notes.guard("check_failed", "manifest.json", "tables"):
        release = read_release(folder, manifest, notes)
    with notes.guard("check_failed", "manifest.json", "manifest"):
        check_manifest(release, notes)
    with notes.guard("check_failed", "manifest.json", "forms"):
        check_forms(release, notes)
    with notes.guard("check_failed", "manifest.json", "origins"):
        check_origins(release, notes)
    nodes: dict[str, Node] = {}
    for query in release.queries.values():
        with notes.guard("row_unreadable", "queries.jsonl", query.query_id):
            node = check_form(query, notes)
            if node is not None:
                nodes[query.query_id] = node
    lexicon = Lexicon(release.taxonomy)
    with notes.guard("check_failed", "queries.jsonl", "language"):
        check_language_queries(release, lexicon, notes)
    jitters = read_certificate(release, None if certificate else REPEATED, notes)
    grids: dict[str, Grid] = {}
    for done, scene in enumerate(release.scenes.values()):
        tell("scenes", done, len(release.scenes))
        with notes.guard("check_failed", scene.path, scene.scene_id, "a scene that can be checked"):
            _audit_scene(release, scene, nodes, jitters, grids, lexicon, notes)
    tell("scenes", len(release.scenes), len(release.scenes))
    _audit_across(release, nodes, grids, lexicon, sources, notes, tell)
    left_open = [NOT_RECUT] if sources is None else []
    if jitters is not None and jitters.repeated < jitters.jitters:
        left_open.append(f"stability of answers: {jitters.repeated} of the certificate's {jitters.jitters} jitters were repeated")
    return notes.report(manifest_sha256, (*NOT_CERTIFIED, *left_open))


def _audit_scene(
    release: Release,
    scene: Scene,
    nodes: dict[str, Node],
    jitters: Certificate | None,
    grids: dict[str, Grid],
    lexicon: Lexicon,
    notes: Notebook,
) -> None:
    """Audit all that belongs to one scene."""
    derived = check_scene(release, scene, notes)
    if derived is None:
        return
    frame, valid = derived
    check_quality(release, scene, valid, notes)
    grid = check_hashes(release, scene, valid, notes)
    if grid is not None:
        grids[scene.scene_id] = grid
    masks = read_masks(release, scene, frame, valid, notes)
    present = check_ownership(scene, release.instances_of(scene.scene_id), masks, frame, notes)
    for instance in present:
        with notes.guard("box_unreadable", INSTANCES, instance.instance_id):
            rows, columns = masks.windows[instance.instance_id]
            extent = (columns.start, rows.start, columns.stop, rows.stop)
            check_boxes(instance, polygon_of(masks.parts[instance.instance_id]), extent, INSTANCES, notes)
    edges = scene_edges(release, scene.scene_id, [i.instance_id for i in present], notes)
    parser = SentenceParser(release.taxonomy, north_up=scene.north_up)
    if not present:
        check_language_scene(release, scene.scene_id, None, lexicon, parser, notes)
        return
    limits = Limits.of(release, frame, shorter_side(frame, masks.valid))
    m = measure(present, masks, frame, limits)
    for row, instance in enumerate(present):
        with notes.guard("box_unreadable", INSTANCES, instance.instance_id):
            edges_m = frame.to_ground(shapely.get_coordinates(polygon_of(masks.parts[instance.instance_id])))
            check_metric(instance, m.outlines[row], edges_m, frame, INSTANCES, notes)
    names = _relation_names(release)
    codes = stored_verdicts(edges, m, scene.scene_id, names, notes)
    if frame.scale_spread > SCALE_TOLERANCE + SCALE_SLACK:
        if len(edges.code):
            notes.add(
                "graph_unwanted",
                "relations.parquet",
                scene.scene_id,
                "no graph: the scale varies by more than 0.1 %",
                f"{len(edges.code)} edges",
            )
    else:
        check_relations(expect_relations(m, masks, names), codes, edges, m, notes)
        check_algebra(codes, m, notes)
    other = release.manifest.get("unknown_is_other")
    axes = frozenset(str(axis) for axis in cast("dict[str, Any]", other)) if isinstance(other, dict) else frozenset[str]()
    world = World(m, codes, release.taxonomy, axes, release)
    queries = [(q, nodes[q.query_id]) for q in release.queries.values() if q.scene_id == scene.scene_id and q.query_id in nodes]
    for query, node in queries:
        with notes.guard("query_unreadable", "queries.jsonl", query.query_id):
            _audit_query(release, query, node, world, masks, notes)
    if jitters is not None:
        with notes.guard("check_failed", "queries.jsonl", scene.scene_id, "a certificate that can be repeated"):
            check_stability(world, masks, scene.scene_id, queries, jitters, notes)
    with notes.guard("check_failed", "queries.jsonl", scene.scene_id, "language that can be checked"):
        check_language_scene(release, scene.scene_id, world, lexicon, parser, notes)


def _audit_query(release: Release, query: Query, node: Node, world: World, masks: Masks, notes: Notebook) -> None:
    check_answer(release, query, node, world, notes)
    check_absence(query, node, world, masks, notes)
    check_difficulty(release, query, node, world, masks, notes)


def _audit_across(
    release: Release,
    nodes: dict[str, Node],
    grids: dict[str, Grid],
    lexicon: Lexicon,
    sources: Path | None,
    notes: Notebook,
    tell: Progress,
) -> None:
    """Audit what spans scenes: queries against each other, sentences, splits, exports, and the sources when they are given."""
    steps: list[tuple[str, str, Callable[[], None]]] = [
        ("queries", "queries.jsonl", lambda: check_all(release, nodes, notes)),
        ("sentences", "queries.jsonl", lambda: check_sentences(release, notes)),
        ("language", "language.jsonl", lambda: check_language(release, lexicon, notes)),
        ("proposals", "proposals.jsonl", lambda: check_proposals(release, notes)),
        ("reviews", "reviews.jsonl", lambda: check_reviews(release, notes)),
        ("splits", "splits", lambda: check_splits(release, nodes, grids, notes)),
        ("coco", "exports/coco.json", lambda: check_coco(release, notes)),
        ("dota", "exports/dota", lambda: check_dota(release, notes)),
    ]
    if sources is not None:
        steps.append(("sources", "scenes.parquet", lambda: check_sources(release, sources, notes)))
    for done, (name, file, step) in enumerate(steps):
        tell(name, done, len(steps))
        with notes.guard("check_failed", file, name):
            step()
    tell("done", len(steps), len(steps))


def _relation_names(release: Release) -> tuple[str, ...]:
    """Return the relations that are stored: `rules.relations`, and `within_<d>m` for every d of `rules.within_m`."""
    rules = release.manifest.get("rules")
    known = cast("dict[str, Any]", rules) if isinstance(rules, dict) else {}
    names, reaches = known.get("relations"), known.get("within_m")
    stored: list[str] = [str(name) for name in cast("list[Any]", names)] if isinstance(names, list) else list(DEFAULT_RELATIONS)
    for reach in cast("list[Any]", reaches) if isinstance(reaches, list) else []:
        stored.append(f"within_{reach:g}m" if isinstance(reach, int | float) else str(reach))
    return tuple(dict.fromkeys(stored))


__all__ = ["AuditError", "AuditReport", "audit_release"]
