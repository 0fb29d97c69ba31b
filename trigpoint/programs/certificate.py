"""The certificate of stability: would slightly different outlines have given the same answers?

Every scene is measured again on jittered masks, without undecided zones, and every candidate is executed on each. What changes is dropped,
and how often that happened is told per level. Definition: docs/release-format.md, "Certificate".
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.boxes.calipers import min_area_rectangles
from trigpoint.errors import ProgramError
from trigpoint.geometry.frames import SceneFrame
from trigpoint.geometry.outlines import measuring_outlines, polygon_from_mask, polygons_from_labels
from trigpoint.masks.jitter import Window, jitter_masks, nudge_of, windows_of
from trigpoint.programs.generate import Candidate
from trigpoint.programs.language import Node, anchors_of
from trigpoint.programs.resolver import Resolver
from trigpoint.rules import Rules
from trigpoint.scene_graph.build import SceneMasks, build_graph
from trigpoint.scene_graph.graph import Nodes, SceneGraph


class MeasuredScene(NamedTuple):
    """What a scene is measured from.

    Attributes:
        scene_id: Its id.
        nodes: Its instances as released.
        masks: Their masks.
        valid: (height, width) bool.
        frame: The scene's frame.
        shorter_side_m: Ground length of the shorter side of the valid area.
    """

    scene_id: str
    nodes: Nodes
    masks: SceneMasks
    valid: NDArray[np.bool_]
    frame: SceneFrame
    shorter_side_m: float


class Tried(NamedTuple):
    """How one level did: programs and those that changed in any jitter; answers (programs × jitters) and those that changed."""

    programs: int
    programs_changed: int
    answers: int
    answers_changed: int


class Certified(NamedTuple):
    """The candidates whose answers no jitter changes, and what was tried, by level."""

    candidates: list[Candidate]
    levels: dict[int, Tried]


def certify(
    candidates: Sequence[Candidate],
    resolver: Resolver,
    scene: MeasuredScene,
    seed: int,
    n_jitters: int,
) -> Certified:
    """Execute candidates on jittered copies of their scene and keep those that never change.

    A program changes when an anchor of it denotes another instance or none, or its answer is another or undecided.

    Args:
        candidates: Of this scene.
        resolver: On the scene's own graph.
        scene: What it is measured from.
        seed: Release seed.
        n_jitters: Copies to try.
    """
    stored = [Stored(c.query_id, c.node, resolver.execute(c.node).sure, tuple(anchors_of(c.node))) for c in candidates]
    anchors = {anchor: resolver.denoted(anchor) for each in stored for anchor in each.anchors}
    windows = windows_of(scene.masks.labels, scene.masks.label_of_node, scene.masks.planes)
    changes: Counter[str] = Counter()
    for jitter in range(n_jitters if candidates else 0):
        graph = measure_jittered(scene, windows, resolver.rules, sorted(set(anchors.values())), seed, jitter)
        sharp = Resolver(graph, resolver.taxonomy, resolver.rules, resolver.unknown_is_other, is_sharp=True)
        changes.update(_changed(stored, anchors, sharp))
    stable = [candidate for candidate in candidates if not changes[candidate.query_id]]
    kept = {candidate.query_id for candidate in stable}
    levels = {
        level: Tried(
            programs=len(of_level),
            programs_changed=sum(changes[c.query_id] > 0 for c in of_level),
            answers=len(of_level) * n_jitters,
            answers_changed=sum(changes[c.query_id] for c in of_level),
        )
        for level in sorted({c.level for c in candidates})
        if (of_level := [c for c in candidates if c.level == level])
    }
    return Certified([c._replace(flips=tuple(flip for flip in c.flips if flip in kept)) for c in stable], levels)


class Stored(NamedTuple):
    """A candidate as it is tried: its program, its answer as a bitset, its anchors outermost first."""

    query_id: str
    node: Node
    answer: int
    anchors: tuple[Node, ...]


def _changed(stored: Iterable[Stored], anchors: dict[Node, int], sharp: Resolver) -> list[str]:
    """Query ids of the candidates that a jittered graph answers otherwise."""
    moved: set[Node] = set()
    # the inner anchor first: an outer one is executed only when everything in it stayed, so that every column was measured
    for anchor in sorted(anchors, key=lambda node: len(anchors_of(node))):
        if any(inner in moved for inner in anchors_of(anchor)) or not _denotes(anchor, anchors[anchor], sharp):
            moved.add(anchor)
    changed: list[str] = []
    for each in stored:
        if any(anchor in moved for anchor in each.anchors):
            changed.append(each.query_id)
            continue
        found = sharp.execute(each.node)
        if not found.is_decided or found.sure != each.answer:
            changed.append(each.query_id)
    return changed


def _denotes(anchor: Node, position: int, sharp: Resolver) -> bool:
    try:
        return sharp.denoted(anchor) == position
    except ProgramError:
        return False


def measure_jittered(
    scene: MeasuredScene, windows: dict[int, Window], rules: Rules, anchors: Sequence[int], seed: int, jitter: int
) -> SceneGraph:
    """Measure a jittered copy of a scene without undecided zones.

    Args:
        scene: What it is measured from.
        windows: Where its nodes are, from `windows_of`.
        rules: Thresholds.
        anchors: Positions of the anchors that are asked for, ascending.
        seed: Release seed.
        jitter: Number of the copy, from 0.
    """
    nodes = scene.nodes
    nudges = [nudge_of(seed, scene.scene_id, jitter, instance_id) for instance_id in nodes.instance_ids]
    label_of_node = scene.masks.label_of_node
    labels, planes = jitter_masks(
        scene.masks.labels, label_of_node, scene.masks.planes, windows, nodes.area_px, nodes.instance_ids, nudges, scene.valid
    )
    traced = polygons_from_labels(labels)
    polygons = np.empty(len(nodes), dtype=object)
    for k, label in enumerate(label_of_node):
        polygons[k] = polygon_from_mask(planes[k]) if k in planes else traced[int(label)]
    counted = np.bincount(labels.ravel(), minlength=int(label_of_node.max(initial=0)) + 1).astype(np.float64)
    area_px = counted[label_of_node]
    for k, plane in planes.items():
        area_px[k] = np.count_nonzero(plane)
    to_ground = scene.frame.ground_from_image
    outlines = shapely.transform(measuring_outlines(polygons, rules.outline.tolerance_px), to_ground)
    hulls = shapely.transform(shapely.convex_hull(polygons), to_ground)
    moved = replace(
        nodes,
        area_px=area_px,
        area_m2=area_px * scene.frame.record.pixel_area_m2,
        perimeter_m=np.asarray(shapely.length(outlines)),
        length_m=min_area_rectangles(hulls).length,
        centroid_m=shapely.get_coordinates(shapely.centroid(outlines)),
    )
    return build_graph(
        scene.scene_id,
        moved,
        outlines,
        SceneMasks(labels, label_of_node, planes),
        scene.frame,
        scene.shorter_side_m,
        int(np.count_nonzero(scene.valid)),
        rules,
        anchors=np.array(anchors, dtype=np.int64),
        is_sharp=True,
    )
