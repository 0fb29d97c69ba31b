"""The certificate repeated: all outlines of a scene jittered as the format says, everything measured again, every answer compared.

Verdicts are sharp here: no undecided zones, thresholds in the middle of each zone (docs/release-format.md, "Certificate"). Only what
programs ask for is measured: the columns of their anchors, the members of their categories. Not here: verdicts of the release itself
(`relations.py`).
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy import ndimage

from trigpoint.audit.boxes import smallest_rectangles
from trigpoint.audit.findings import Notebook
from trigpoint.audit.outline import measuring_outline, pixel_edge_parts
from trigpoint.audit.ownership import Masks
from trigpoint.audit.programs import Node, ProgramError, Verdicts, World, anchors_of, cat
from trigpoint.audit.reading import Instance, Query, Release
from trigpoint.audit.relations import DIRECTIONS, FALSE, SHARE_FLOOR, TRUE, UNDECIDED, is_distance

MANIFEST, QUERIES = "manifest.json", "queries.jsonl"
REPEATED = 2
"""Jitters that every audit repeats (semantics, section 5)."""

MOST_JITTERS = 1000
"""More than this nobody has computed: the number in the manifest is not believed."""

LEVEL_KEYS = ("programs", "programs_changed", "answers", "answers_changed")
Window = tuple[slice, slice]


class Certificate(NamedTuple):
    """What the manifest says about the jitters: how many, the seed as it is written into their digests; and how many are repeated."""

    jitters: int
    seed: str
    repeated: int


def read_certificate(release: Release, at_most: int | None, notes: Notebook) -> Certificate | None:
    """Check that `manifest.json:certificate` is well formed and adds up; None when no jitter can be repeated from it.

    Args:
        release: The release.
        at_most: How many jitters to repeat at most; None for all of them.
        notes: Where findings go.
    """
    stored = release.manifest.get("certificate")
    if stored is None:
        notes.add("certificate_missing", MANIFEST, "certificate", "{jitters, seed, levels}", "none")
        return None
    with notes.guard("certificate_wrong", MANIFEST, "certificate"):
        jitters, seed, levels = (cast("dict[str, Any]", stored)[key] for key in ("jitters", "seed", "levels"))
        if type(jitters) is not int or not 1 <= jitters <= MOST_JITTERS:
            notes.add("certificate_wrong", MANIFEST, "certificate.jitters", f"a whole number from 1 to {MOST_JITTERS}", jitters)
            return None
        released = Counter(str(query.level) for query in release.queries.values())
        for level in sorted(set(released) | set(levels)):
            notes.count("certificate_levels")
            with notes.guard("certificate_wrong", MANIFEST, f"certificate.levels.{level}", f"{{{', '.join(LEVEL_KEYS)}}}"):
                _check_level(levels[level], jitters, released[level], f"certificate.levels.{level}", notes)
        return Certificate(jitters, str(seed), jitters if at_most is None else min(jitters, at_most))
    return None


def _check_level(row: dict[str, Any], jitters: int, released: int, item: str, notes: Notebook) -> None:
    programs, programs_changed, answers, answers_changed = (row[key] for key in LEVEL_KEYS)
    if any(type(row[key]) is not int or row[key] < 0 for key in LEVEL_KEYS):
        notes.add("certificate_wrong", MANIFEST, item, "whole numbers from 0 on", row)
        return
    facts = (
        (answers == programs * jitters, f"{programs} programs x {jitters} jitters", f"{answers} answers"),
        (programs_changed <= answers_changed <= programs_changed * jitters, "a change per program that changed, one per jitter at most",
         f"{programs_changed} programs, {answers_changed} answers changed"),
        (released + programs_changed <= programs, f"at least {released} released and {programs_changed} dropped", f"{programs} programs"),
    )  # fmt: skip
    for holds, expected, found in facts:
        if not holds:
            notes.add("certificate_wrong", MANIFEST, item, expected, found)


def jitter_mask(mask: NDArray[np.bool_], window: Window, valid: NDArray[np.bool_], digest: bytes) -> tuple[NDArray[np.bool_], Window]:
    """Grow, shrink or leave a mask and move it, as its digest says.

    Args:
        mask: The instance's mask within `window`.
        window: (rows, columns) slices of the scene around it.
        valid: (height, width) valid pixels of the scene.
        digest: At least three bytes: `[2] % 3` grows (2) or shrinks (0) it, `[0] % 3 - 1` columns and `[1] % 3 - 1` rows move it.

    Returns:
        The jittered mask and its window, two pixels larger where the scene has them; the mask as it was when nothing is left.
    """
    rows, columns = window
    wide = (
        slice(max(0, rows.start - 2), min(valid.shape[0], rows.stop + 2)),
        slice(max(0, columns.start - 2), min(valid.shape[1], columns.stop + 2)),
    )
    before = np.zeros((wide[0].stop - wide[0].start, wide[1].stop - wide[1].start), dtype=bool)
    before[rows.start - wide[0].start : rows.stop - wide[0].start, columns.start - wide[1].start : columns.stop - wide[1].start] = mask
    changed = before
    if digest[2] % 3 == 2:
        changed = ndimage.binary_dilation(before)
    elif digest[2] % 3 == 0:
        changed = ndimage.binary_erosion(before, border_value=1)
    right, down = digest[0] % 3 - 1, digest[1] % 3 - 1
    height, width = before.shape
    moved = np.zeros_like(before)
    moved[max(0, down) : height + min(0, down), max(0, right) : width + min(0, right)] = np.asarray(changed)[
        max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)
    ]
    moved &= valid[wide]
    return (moved if moved.any() else before), wide


def jitter_masks(masks: Masks, instances: list[Instance], prefix: str) -> Masks:
    """Jitter all masks of a scene and paint the discrete ones into one index map again, the smaller owning shared pixels.

    Args:
        masks: The release's.
        instances: Those that have a mask.
        prefix: `<seed>/<scene_id>/<jitter>/`: what comes before an instance's id in the text that its digest is of.

    Returns:
        Masks with the release's labels and planes. An instance that owns nothing although it was painted twice keeps the window and outline
        of the release.
    """
    jittered = Masks(np.zeros_like(masks.index), {}, masks.valid)
    painted: list[tuple[Instance, NDArray[np.bool_], Window]] = []
    for instance in sorted(sorted(instances, key=lambda i: i.instance_id, reverse=True), key=lambda i: -i.area_px):
        digest = hashlib.sha256(f"{prefix}{instance.instance_id}".encode()).digest()
        mask, window = jitter_mask(masks.window_of(instance), masks.windows[instance.instance_id], masks.valid, digest)
        if instance.countable:
            jittered.index[window][mask] = int(instance.label or 0)
            painted.append((instance, mask, window))
        else:
            plane = np.zeros(masks.index.shape, dtype=bool)
            plane[window] = mask
            jittered.planes[int(instance.plane or 0)] = plane
            jittered.windows[instance.instance_id] = window
            jittered.parts[instance.instance_id] = _shifted_parts(pixel_edge_parts(mask.astype(np.uint8))[1], window)
    # an instance painted again can hide another: until every one owns a pixel
    for _ in painted:
        owned = np.bincount(jittered.index.ravel(), minlength=65_536)
        hidden = [instance for instance, _, _ in painted if not owned[int(instance.label or 0)]]
        for instance in hidden:
            jittered.index[masks.windows[instance.instance_id]][masks.window_of(instance)] = int(instance.label or 0)
        if not hidden:
            break
    slices, parts = ndimage.find_objects(jittered.index.astype(np.int32)), pixel_edge_parts(jittered.index)
    for instance, _, _ in painted:
        label = int(instance.label or 0)
        owns = label in parts
        jittered.windows[instance.instance_id] = slices[label - 1] if owns else masks.windows[instance.instance_id]
        jittered.parts[instance.instance_id] = parts[label] if owns else masks.parts[instance.instance_id]
    return jittered


def _shifted_parts(parts: list[list[NDArray[np.float64]]], window: Window) -> list[list[NDArray[np.float64]]]:
    corner = np.array([window[1].start, window[0].start], dtype=np.float64)
    return [[ring + corner for ring in part] for part in parts]


@dataclass(frozen=True, kw_only=True)
class SharpWorld(World):
    """A jittered scene to execute programs in, with sharp verdicts.

    Attributes:
        calm: The scene as released: categories, which relations there are, what anchors denote.
        masks: The jittered masks.
        pixels: Pixels of every instance.
        columns: (relation, anchor) → verdicts of all subjects, once asked for.
    """

    calm: World
    masks: Masks
    pixels: NDArray[np.float64]
    columns: dict[tuple[str, int], Verdicts] = field(default_factory=dict[tuple[str, int], Verdicts])
    reached: dict[int, NDArray[np.float64]] = field(default_factory=dict[int, NDArray[np.float64]])

    @classmethod
    def of(cls, calm: World, masks: Masks, rows: NDArray[np.intp]) -> "SharpWorld":
        """Measure those instances of a jittered scene that programs may speak of."""
        m = calm.measures
        outlines = np.full(len(m.instances), None, dtype=object)
        for row in rows:
            outlines[row] = measuring_outline(masks.parts[m.instances[row].instance_id], m.limits.outline_px)
        outlines = shapely.transform(outlines, m.frame.to_ground)
        centroids = np.full((len(outlines), 2), np.nan)
        centroids[rows] = shapely.get_coordinates(shapely.centroid(outlines[rows])).reshape(-1, 2)
        pixels = np.array([masks.window_of(i).sum() for i in m.instances], dtype=np.float64)
        measures = replace(m, outlines=outlines, centroids=centroids, areas_m2=pixels * m.frame.pixel_area_m2)
        return cls(measures, calm.codes, calm.taxonomy, calm.unknown_is_other, calm.release, calm=calm, masks=masks, pixels=pixels)

    def members(self, category: str) -> Verdicts:
        """Return which instances are of a category: jitters do not change that."""
        return self.calm.execute(cat(category))

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """Long sides of the minimum-area rectangles of the pixel-edge outlines, metres."""
        m = self.measures
        long = np.full(len(m.instances), np.nan)
        for row in np.flatnonzero(~shapely.is_missing(m.outlines)):
            edges = np.vstack([part[0] for part in self.masks.parts[m.instances[row].instance_id]])
            long[row] = smallest_rectangles(m.frame.to_ground(edges))[0].long
        return long

    def value_of(self, key: str) -> NDArray[np.float64]:
        """Return area, length or position of every instance."""
        return self.lengths if key == "length" else super().value_of(key)

    def too_close(self, key: str, winner: int, value: NDArray[np.float64], behind: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say who is not worse than the winner: the margin is 0."""
        return behind <= 0

    def distances_to(self, anchor: int) -> NDArray[np.float64]:
        """Return the metres between the outlines of all instances and the anchor's."""
        if anchor not in self.reached:
            self.reached[anchor] = np.asarray(shapely.distance(self.measures.outlines, self.measures.outlines[anchor]), dtype=np.float64)
        return self.reached[anchor]

    def edges_to(self, name: str, anchor: int) -> Verdicts:
        """Return the sharp verdicts of a relation of all instances to an anchor."""
        if (name, anchor) not in self.columns:
            with np.errstate(invalid="ignore"):  # instances that no program speaks of have no measures
                holds = self._holds(name, anchor)
            holds[anchor] = False
            self.columns[name, anchor] = np.where(holds, TRUE, FALSE).astype(np.int8)
        return self.columns[name, anchor]

    def _holds(self, name: str, anchor: int) -> NDArray[np.bool_]:
        m, limits = self.measures, self.measures.limits
        inside = (limits.inside_share + limits.inside_undecided) / 2
        little = limits.outside_undecided / 2
        is_region = not m.countable[anchor]
        of_smaller = _floored(self._shared(anchor, filled=False) / np.minimum(self.pixels, self.pixels[anchor]))
        drowned = of_smaller >= limits.direction_shared / 2
        if name in DIRECTIONS:
            return self._within_sector(name, anchor) & ~drowned
        if is_distance(name):
            threshold, _ = limits.threshold(name)
            gap = self.distances_to(anchor)
            return gap >= threshold if name == "far" else (gap <= threshold) & ~(drowned & (name == "near"))
        if name == "touches":
            return (of_smaller == 0) & (self.distances_to(anchor) <= (limits.gsd_m + limits.two_tau_m) / 2)
        if name == "overlaps":
            return (is_region | ~m.countable) & (of_smaller >= little) & (of_smaller <= inside)
        if name == "contains":
            filled = np.array([self._shared(row, filled=True)[anchor] if not c else 0.0 for row, c in enumerate(m.countable)])
            return ~m.countable & (_floored(filled / self.pixels[anchor]) >= inside)
        share = _floored(self._shared(anchor, filled=True) / self.pixels)
        return is_region & (share >= inside if name == "inside" else share <= little)

    def _within_sector(self, name: str, anchor: int) -> NDArray[np.bool_]:
        """Say whose deciding ray, from the centroid of a countable anchor or a region's nearest point, lies in the sector."""
        m = self.measures
        start: NDArray[np.float64] = m.centroids[anchor]
        if not m.countable[anchor]:
            known = ~np.isnan(m.centroids[:, 0])
            start = np.full_like(m.centroids, np.nan)
            lines = shapely.shortest_line(m.outlines[anchor], shapely.points(m.centroids[known]))
            start[known] = shapely.get_coordinates(lines)[::2]
        ray = m.centroids - start
        azimuth = np.degrees(np.arctan2(ray[:, 0], ray[:, 1])) + m.frame.convergence_at(m.centroids[[anchor]])
        turn = np.abs((azimuth - DIRECTIONS[name] + 180) % 360 - 180)
        return (turn <= m.limits.sector(name)[0]) & (np.hypot(*ray.T) > 0)

    def _shared(self, anchor: int, *, filled: bool) -> NDArray[np.float64]:
        """Count the pixels that every instance shares with an anchor's mask, its holes filled or not; its own are not counted."""
        m, masks = self.measures, self.masks
        who = m.instances[anchor]
        counts = np.zeros(len(m.instances))
        if who.countable:
            window = masks.windows[who.instance_id]
            mask = masks.window_of(who)
            for row in np.flatnonzero(~m.countable):
                counts[row] = np.count_nonzero(masks.planes[int(m.instances[row].plane or 0)][window] & mask)
            return counts
        plane = masks.filled(int(who.plane or 0)) if filled else masks.planes[int(who.plane or 0)]
        owners = np.bincount(masks.index[plane], minlength=int(masks.index.max()) + 1)
        for row, instance in enumerate(m.instances):
            if instance.countable:
                counts[row] = owners[int(instance.label or 0)] if int(instance.label or 0) < len(owners) else 0
            elif row != anchor:
                counts[row] = np.count_nonzero(masks.planes[int(instance.plane or 0)] & plane)
        return counts


def _floored(share: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(share < SHARE_FLOOR, 0.0, share)


def _category_nodes(node: Node) -> Iterable[Node]:
    if node.categories():
        yield node
    else:
        for child in node.children:
            yield from _category_nodes(child)


def check_stability(
    calm: World, masks: Masks, scene_id: str, queries: list[tuple[Query, Node]], certificate: Certificate, notes: Notebook
) -> None:
    """Repeat jitters of one scene: anchors denote what they do, answers are exactly the stored ones.

    Args:
        calm: The scene as released.
        masks: Its masks.
        scene_id: For the digests.
        queries: Its queries and their programs.
        certificate: Which jitters.
        notes: Where findings go.
    """
    wanted: dict[str, tuple[Query, Node, list[int]]] = {}
    spoken_of = np.zeros(len(calm.measures.instances), dtype=bool)
    for query, node in queries:
        try:
            denoted = [calm.denote(anchor) for _, anchor in anchors_of(node)]
            for part in _category_nodes(node):
                spoken_of |= calm.execute(part) > FALSE
        except ProgramError:
            continue  # named by check_answer
        wanted[query.query_id] = query, node, denoted
    if not wanted:
        return
    for jitter in range(certificate.repeated):
        moved = jitter_masks(masks, calm.measures.instances, f"{certificate.seed}/{scene_id}/{jitter}/")
        sharp = SharpWorld.of(calm, moved, np.flatnonzero(spoken_of))
        for query, node, denoted in wanted.values():
            notes.count("certificate_answers")
            found = _answer_of(sharp, node, denoted)
            right = sorted(query.answer_ids)
            if found != right:
                notes.add("certificate_broken", QUERIES, query.query_id, f"jitter {jitter}: {right}", found)


def _answer_of(sharp: SharpWorld, node: Node, denoted: list[int]) -> list[str] | str:
    """Return the answer in a jittered scene; or what is wrong with an anchor, or undecided."""
    instances = sharp.measures.instances
    try:
        for (_, anchor), row in zip(anchors_of(node), denoted, strict=True):
            if sharp.denote(anchor) != row:
                return f"{anchor.canonical()} denotes {instances[sharp.denote(anchor)].instance_id}, not {instances[row].instance_id}"
        verdicts = sharp.execute(node)
    except ProgramError as problem:
        return str(problem)
    unsure = [instances[row].instance_id for row in np.flatnonzero(verdicts == UNDECIDED)]
    return f"undecided: {unsure}" if unsure else sorted(instances[row].instance_id for row in np.flatnonzero(verdicts == TRUE))
