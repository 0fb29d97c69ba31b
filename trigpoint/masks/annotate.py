"""From polygons of footprints and annotators, and masks that machines propose, to the masks of one scene."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from trigpoint.categories import Taxonomy
from trigpoint.geometry.frames import SceneFrame, transformer
from trigpoint.geometry.repair import repair_polygon
from trigpoint.identity import digest_bytes, make_id
from trigpoint.masks.crops import polygon_of_record
from trigpoint.masks.ownership import Claim, decide_ownership
from trigpoint.masks.rasterise import BoolArray, CropMask, crop_mask
from trigpoint.proposals.duplicates import drop_duplicates, same_things
from trigpoint.proposals.masks import CropMasks, crop_iou
from trigpoint.records.proposal import MaskProposal
from trigpoint.records.stage import Drop
from trigpoint.rules import Rules

MAX_PLANES = 32
"""Bit planes that a uint32 raster holds."""

Origin = Literal["annotator", "vector", "sam2", "classical"]
"""Who says that there is a thing: a person, a map, or a machine."""

FOUNDED: tuple[Origin, ...] = ("annotator", "vector", "sam2", "classical")
"""Best founded first: of two masks of one thing from different origins the better founded one is kept."""


class Proposal(NamedTuple):
    """A polygon that says: here is a thing.

    Attributes:
        source_id: Where it comes from, such as `osm/way/123`.
        geometry: Polygon or MultiPolygon in `crs` coordinates, as found (may be invalid).
        crs: Its CRS.
        categories: At most one taxonomy value per axis.
        origin: `vector` for footprints, `annotator` for what a person drew on the picture, else the machine.
        separable: Whether instances can be told apart here at this resolution.
    """

    source_id: str
    geometry: BaseGeometry
    crs: str
    categories: tuple[str, ...]
    origin: Origin
    separable: bool = True


class Machine(NamedTuple):
    """A mask that a machine proposes.

    Attributes:
        proposal: As proposed.
        replaces: The footprint that prompted it is a prompt alone, and no instance.
    """

    proposal: MaskProposal
    replaces: bool = False


class Annotated(NamedTuple):
    """The masks of a scene.

    Attributes:
        labels: (height, width) uint16 index map. planes: (height, width) uint32 bit planes.
        n_planes: Number of planes used.
        rows: One dict per instance, keys of `MASK_SCHEMA`.
        drops: What did not become an instance, and why.
        n_in: Proposals that meet the scene.
    """

    labels: NDArray[np.uint16]
    planes: NDArray[np.uint32]
    n_planes: int
    rows: list[dict[str, Any]]
    drops: list[Drop]
    n_in: int


class Placed(NamedTuple):
    """A proposal that meets a scene.

    Attributes:
        polygon: In image coordinates, pixels; may reach outside the scene.
        whole_area_m2: Ground area of the whole polygon.
        categories: At most one taxonomy value per axis.
        source_ids: Where it comes from; several once people merge.
        review_state: `unreviewed`, `annotated`, `accepted` or `edited`.
        is_drawn: A person drew this very outline: it owns what it shares with others, and may be small.
        separable: Whether instances can be told apart here at this resolution.
    """

    instance_id: str
    proposal: Proposal
    polygon: BaseGeometry
    whole_area_m2: float
    categories: tuple[str, ...]
    source_ids: tuple[str, ...]
    review_state: str
    is_drawn: bool = False
    separable: bool = True


def annotate_scene(
    scene_id: str,
    proposals: list[Proposal],
    frame: SceneFrame,
    valid: BoolArray,
    taxonomy: Taxonomy,
    rules: Rules,
    review: Callable[[list[Placed], list[Drop]], list[Placed]] = lambda placed, _drops: placed,
    machine: Sequence[Machine] = (),
) -> Annotated:
    """Rasterise proposals by the pixel-centre rule, decide ownership, and stack regions as bit planes.

    Machines' masks take part exactly as they are. Of two masks of one thing (mask IoU) from different origins the better founded one is
    kept: what a person drew, a footprint, a model's, one made without weights. What a footprint prompted goes unless it replaces it.

    Args:
        scene_id: The scene.
        proposals: In any order; those that do not meet the scene are left out silently.
        frame: The scene's frame.
        valid: (height, width) bool.
        taxonomy: Says which categories are countable.
        rules: Smallest sizes.
        review: What people made of the placed proposals (`trigpoint.review.apply`); notes what they reject.
        machine: Masks that machines propose, in any order.
    """
    height, width = valid.shape
    drops: list[Drop] = []
    placed, n_in = _place(scene_id, proposals, frame, (width, height), drops)
    if machine or len({item.proposal.origin for item in placed}) > 1:
        placed = _with_machines(scene_id, placed, machine, frame, valid, taxonomy, drops)
        n_in += len(machine)
    placed = review(placed, drops)

    claims: list[Claim] = []
    regions: list[tuple[Placed, BoolArray]] = []
    for item in placed:
        crop = crop_mask(item.polygon, height, width)
        covered = int(np.count_nonzero(crop.mask & valid[crop.slices])) if crop.mask.size else 0
        is_drawn = item.is_drawn or item.proposal.origin == "annotator"
        min_px = rules.min_drawn_instance_px if is_drawn else rules.min_instance_px
        if covered == 0:
            why = "covers no valid pixel centre; it stays in the vector source"
            drops.append(_drop(scene_id, item, "below_one_pixel", why, "use finer imagery or leave it out"))
        elif covered < min_px:
            why = f"covers {covered} pixels, fewer than {min_px}"
            drops.append(_drop(scene_id, item, "below_min_pixels", why, "lower rules.min_instance_px or use finer imagery"))
        elif taxonomy.get(item.categories[0]).countable:
            claims.append(Claim(item.instance_id, item.whole_area_m2, crop, min_px, item.is_drawn))
        else:
            mask = np.zeros(valid.shape, dtype=bool)
            mask[crop.slices] = crop.mask
            regions.append((item, mask & valid))

    ownership = decide_ownership(claims, valid)
    by_id = {item.instance_id: item for item in placed}
    for instance_id, owned in sorted(ownership.dropped.items()):
        why = f"owns {owned} pixels once overlaps are decided"
        drops.append(_drop(scene_id, by_id[instance_id], "below_min_pixels_owned", why, "separate the overlapping outlines"))
    rows = [
        _row(scene_id, by_id[instance_id], taxonomy, label, None, ownership.owned_px[instance_id], ownership.moved_px[instance_id])
        for instance_id, label in sorted(ownership.label_of.items(), key=lambda pair: pair[1])
    ]
    regions.sort(key=lambda pair: pair[0].instance_id)
    for item, mask in regions[MAX_PLANES:]:
        why = f"the scene has {len(regions)} regions, more than {MAX_PLANES} planes; this one has {np.count_nonzero(mask)} pixels"
        drops.append(_drop(scene_id, item, "too_many_regions", why, "cut smaller scenes"))
    planes = np.zeros(valid.shape, dtype=np.uint32)
    for plane, (item, mask) in enumerate(regions[:MAX_PLANES]):
        planes |= mask.astype(np.uint32) << np.uint32(plane)
        rows.append(_row(scene_id, item, taxonomy, None, plane, int(np.count_nonzero(mask)), 0))
    return Annotated(ownership.labels, planes, min(len(regions), MAX_PLANES), rows, drops, n_in)


def _place(
    scene_id: str, proposals: list[Proposal], frame: SceneFrame, size: tuple[int, int], drops: list[Drop]
) -> tuple[list[Placed], int]:
    """Repair proposals and map those that meet the scene to image coordinates."""
    window = shapely.box(0, 0, *size)
    repeated = Counter(proposal.source_id for proposal in proposals)
    placed: list[Placed] = []
    n_in = 0
    for proposal in proposals:
        if proposal.geometry.is_empty:
            continue
        repaired = repair_polygon(proposal.geometry)
        to_image = image_from(proposal.crs, frame)
        if repaired.geometry.is_empty:
            where = shapely.transform(proposal.geometry, to_image)
            if np.all(np.isfinite(where.bounds)) and shapely.intersects(shapely.box(*where.bounds), window):
                n_in += 1
                why = f"encloses no area ({repaired.note})"
                drops.append(_source_drop(scene_id, proposal, "no_area", why, "draw it as a polygon"))
            continue
        polygon = image_polygon(repaired.geometry, proposal.crs, frame, size)
        if polygon is None:
            continue
        n_in += 1
        parts: list[Any] = [scene_id, proposal.source_id]
        if repeated[proposal.source_id] > 1:
            parts.append(digest_bytes(shapely.to_wkb(proposal.geometry)))
        state = "annotated" if proposal.origin == "annotator" else "unreviewed"
        area_m2 = float(polygon.area) * frame.record.pixel_area_m2
        placed.append(
            Placed(
                make_id("i", *parts),
                proposal,
                polygon,
                area_m2,
                proposal.categories,
                (proposal.source_id,),
                state,
                separable=proposal.separable,
            )
        )
    unique = {item.instance_id: item for item in placed}
    for item in placed:
        if unique[item.instance_id] is not item:
            drops.append(_drop(scene_id, item, "duplicate", "the same feature with the same outline appears twice", "remove one"))
    return sorted(unique.values(), key=lambda item: item.instance_id), n_in


def image_from(crs: str, frame: SceneFrame) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return what maps points (n, 2) of a CRS to image coordinates of a scene."""
    to_scene = transformer(crs, frame.crs)
    return lambda points: frame.image_from_crs(np.column_stack(to_scene.transform(points[:, 0], points[:, 1])))


def image_polygon(geometry: BaseGeometry, crs: str, frame: SceneFrame, size: tuple[int, int]) -> BaseGeometry | None:
    """Map a valid polygon to image coordinates of a scene; None where it does not meet it.

    Args:
        geometry: Polygon or MultiPolygon in `crs` coordinates.
        crs: Its CRS.
        frame: The scene's frame.
        size: Width and height of the scene.
    """
    window = shapely.box(0, 0, *size)
    polygon = shapely.transform(geometry, image_from(crs, frame))
    if polygon.is_empty or not np.all(np.isfinite(polygon.bounds)) or not shapely.intersects(shapely.box(*polygon.bounds), window):
        return None
    if not shapely.is_valid(polygon):
        polygon = repair_polygon(polygon).geometry
    return polygon if shapely.intersects(polygon, window) else None


def _with_machines(
    scene_id: str,
    placed: list[Placed],
    machine: Sequence[Machine],
    frame: SceneFrame,
    valid: BoolArray,
    taxonomy: Taxonomy,
    drops: list[Drop],
) -> list[Placed]:
    """Add what machines propose; of one thing from different origins keep the better founded."""
    kept = {item.instance_id: item for item in placed}
    crops = {item.instance_id: crop_mask(item.polygon, *valid.shape) for item in placed}
    by_source: dict[str, list[str]] = {}
    for item in placed:
        by_source.setdefault(item.proposal.source_id, []).append(item.instance_id)
    scores: dict[str, float] = {}
    replaced: dict[str, str] = {}
    for each in sorted(machine, key=lambda one: one.proposal.proposal_id):
        item = _placed_mask(scene_id, each.proposal, frame)
        name = each.proposal.proposal_id
        crop = crop_mask(item.polygon, *valid.shape)
        own = by_source.get(each.proposal.prompt.source_id, []) if each.proposal.prompt.origin == "footprint" else []
        if own and each.replaces:
            replaced.update(dict.fromkeys(own, name))
        elif own:
            iou = max(crop_iou(crop, crops[instance_id]) for instance_id in own)
            why = f"mask IoU {iou:.4f} with {each.proposal.prompt.source_id}, the footprint that prompted it, which is kept"
            drops.append(_drop(scene_id, item, "footprint_kept", why, "set proposals.replaces to take the proposal instead"))
            continue
        kept[item.instance_id], crops[item.instance_id] = item, crop
        scores[item.instance_id] = each.proposal.score or 0.0
    for instance_id, name in sorted(replaced.items()):
        why = f"prompted {name}, which is taken instead"
        drops.append(_drop(scene_id, kept.pop(instance_id), "replaced_by_proposal", why, "unset proposals.replaces to keep the footprint"))
    return _better_founded(scene_id, kept, crops, scores, taxonomy, drops)


def _placed_mask(scene_id: str, proposal: MaskProposal, frame: SceneFrame) -> Placed:
    polygon = polygon_of_record(proposal.mask)
    said = Proposal(
        proposal.proposal_id,
        shapely.transform(polygon, frame.crs_from_image),
        frame.crs,
        proposal.prompt.categories,
        proposal.identity.proposer,
    )
    sources = (proposal.proposal_id,) if proposal.prompt.origin == "automatic" else (proposal.prompt.source_id, proposal.proposal_id)
    area_m2 = float(polygon.area) * frame.record.pixel_area_m2
    return Placed(make_id("i", scene_id, proposal.proposal_id), said, polygon, area_m2, said.categories, sources, "unreviewed")


def _better_founded(
    scene_id: str,
    items: dict[str, Placed],
    crops: dict[str, CropMask],
    scores: dict[str, float],
    taxonomy: Taxonomy,
    drops: list[Drop],
) -> list[Placed]:
    """Drop what is one thing with something better founded; of machines' masks of one origin the better scored stays.

    Countable things are compared whatever they are called, regions with those of their own category alone, since regions of several kinds
    may cover the same ground. Two footprints, or two things that people drew, are never taken for one.
    """
    groups: dict[str, list[str]] = {}
    for instance_id in sorted(items):
        category = taxonomy.get(items[instance_id].categories[0])
        groups.setdefault("countable" if category.countable else category.id, []).append(instance_id)
    gone: set[str] = set()
    for members in groups.values():
        rank = {k: FOUNDED.index(items[name].proposal.origin) for k, name in enumerate(members)}
        masks = CropMasks([crops[name] for name in members])
        is_machine = [name in scores for name in members]
        pairs = [
            pair
            for pair in same_things(masks)
            if rank[pair.first] != rank[pair.second] or is_machine[pair.first] or is_machine[pair.second]
        ]
        order = sorted(rank, key=lambda k: (rank[k], is_machine[k], -scores.get(members[k], 0.0), members[k]))
        for place, pair in sorted(drop_duplicates(pairs, order).instead_of.items()):
            item, better = items[members[place]], items[members[pair.first]]
            why = f"mask IoU {pair.iou:.4f} with {better.source_ids[0]} ({better.proposal.origin}), which is better founded and kept"
            if item.proposal.origin == better.proposal.origin:
                why = f"mask IoU {pair.iou:.4f} with {better.source_ids[-1]} (also {better.proposal.origin}), which is kept"
            drops.append(_drop(scene_id, item, "same_thing", why, "nothing to do: one of the two is enough"))
            gone.add(item.instance_id)
    return [items[name] for name in sorted(items) if name not in gone]


def _drop(scene_id: str, item: Placed, reason_code: str, detail: str, remedy: str) -> Drop:
    return _source_drop(scene_id, item.proposal, reason_code, detail, remedy)


def _source_drop(scene_id: str, proposal: Proposal, reason_code: str, detail: str, remedy: str) -> Drop:
    return Drop(stage="annotate", scope_id=scene_id, item_id=proposal.source_id, reason_code=reason_code, detail=detail, remedy=remedy)


def _row(
    scene_id: str, item: Placed, taxonomy: Taxonomy, label: int | None, plane: int | None, area_px: int, moved_px: int
) -> dict[str, Any]:
    category = taxonomy.get(item.categories[0])
    return {
        "instance_id": item.instance_id,
        "scene_id": scene_id,
        "label": label,
        "plane": plane,
        "category": list(item.categories),
        "countable": category.countable,
        "boxable": category.countable and category.instanceable and item.separable,
        "area_px": area_px,
        "moved_px": moved_px,
        "source_ids": list(item.source_ids),
        "proposal": item.proposal.origin,
        "review_state": item.review_state,
    }
