"""Pictures of everything in a release for people: scenes, queries, relations, instances, annotations, sentences, decisions.

The same release gives the same picture, byte by byte (with one version of Pillow). Not here: how masks, boxes and arrows are drawn
(`trigpoint.release.show_canvas`), the page around them (`trigpoint.release.show_page`), what is said beside them
(`trigpoint.release.show_cards`), reading files (`trigpoint.release.reader`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from trigpoint.errors import InputError
from trigpoint.records.query import Query
from trigpoint.release.reader import InstanceRow, Release
from trigpoint.release.show_canvas import (
    ANCHOR,
    ANSWER,
    MAX_SIDE_PX,
    OTHER,
    OTHER_IN_LEGEND,
    UNSURE,
    Canvas,
    Style,
    View,
    bounds_of,
    corners_of_hbb,
    lighter,
)
from trigpoint.release.show_cards import Card, card_of, words_of_category
from trigpoint.release.show_documents import Document, document_of, explained_from
from trigpoint.release.show_page import Colour, Picture, contact_sheet, png_bytes
from trigpoint.release.show_programs import Explained, Hop, explain

__all__ = ["contact_sheet", "draw_item", "draw_query", "draw_relation", "draw_scene", "png_bytes"]

PALETTE: tuple[Colour, ...] = (
    (86, 180, 233), (230, 159, 0), (0, 200, 140), (240, 228, 66), (213, 94, 0), (204, 121, 167), (0, 114, 178), (220, 220, 220),
)  # fmt: skip
"""Colours of categories in order of frequency, used again when there are more. Source: Okabe and Ito, green and grey lightened."""

SECOND_ANCHOR: Colour = (190, 110, 255)
"""Of the second anchor of a program; further ones take turns, and an anchor's own anchors are lighter."""

OBB: Colour = (255, 90, 40)
HBB: Colour = (90, 200, 255)

CLOSE_UP_PX = 720
"""Longest side of an instance's picture."""

LEAST_CLOSE_UP_PX = 560
"""Small instances are enlarged by a whole factor until the longer side of their picture has this, as far as `CLOSE_UP_PX` lets them."""

_AROUND = 0.6
_LEAST_AROUND_PX = 16
_FEW = 25
_THIN = Style(OTHER, 0.0, 0.4, 1)
_CANDIDATE = Style(OTHER, 0.0, 0.95, 1, halo=1)
_FEW_CANDIDATES = Style(OTHER, 0.25, 1.0, 2, halo=1)
_FOUND = Style(ANSWER, 0.35, 1.0, 2, halo=2)


class _Link(NamedTuple):
    """An anchor as it is drawn: its letter and colour, what it is, what it is for, and what its arrows point at."""

    letter: str
    colour: Colour
    what: str
    anchor_id: str
    meaning: str
    subject_ids: tuple[str, ...]
    depth: int


def draw_scene(release: Release, scene_id: str, max_side_px: int = MAX_SIDE_PX, *, with_boxes: bool = True) -> Picture:
    """Draw a scene with everything in it: outlines by category, HBBs thin, OBBs thicker, regions as a tint.

    Args:
        release: The release.
        scene_id: Its scene.
        max_side_px: Longest side of the scene in the picture.
        with_boxes: Draw boxes too.

    Returns:
        RGB picture with a title above, and scale bar, north arrow and legend below.

    Raises:
        InputError: there is no such scene.
        ReleaseError: a raster or a mask cannot be read.
    """
    canvas, legend = _scene_canvas(release, scene_id, max_side_px, with_boxes=with_boxes)
    n_discrete = sum(row.countable for row in release.instances_of_scene[scene_id])
    n_regions = len(release.instances_of_scene[scene_id]) - n_discrete
    scene = canvas.scene
    size = f"{scene.width} × {scene.height} pixels of {scene.gsd_m:.3f} m"
    facts = f"{size}; discrete instances: {n_discrete}, regions: {n_regions}"
    return canvas.finish(f"Scene {scene_id}", [facts, *_attribution(release, scene_id)], legend)


def draw_query(release: Release, query_id: str, max_side_px: int = MAX_SIDE_PX) -> Picture:
    """Draw a query: its sentence, and in its scene the answer filled and boxed among thin outlines of everything else.

    The anchors of its relations are filled in colours of their own, with arrows to what is found through them; what it chose from is
    outlined more strongly. A query without an answer says why.

    Raises:
        InputError: there is no such query.
        ProgramError: its program cannot be executed.
        ReleaseError: a raster or a mask cannot be read.
    """
    query = release.query(query_id)
    return _draw_query(release, query, explain(release, query), max_side_px)


def _draw_query(release: Release, query: Query, explained: Explained | None, max_side_px: int = MAX_SIDE_PX) -> Picture:
    canvas = Canvas(release, release.scene(query.scene_id), max_side_px)
    rows = {row.instance_id: row for row in release.instances_of_scene[query.scene_id]}
    links = _links(explained, bool(query.answer_ids))
    answers = [rows[name] for name in query.answer_ids if name in rows]
    named = {*query.answer_ids, *(link.anchor_id for link in links)}
    candidates = [] if explained is None else [rows[name] for name in explained.candidate_ids if name not in named]
    listed = {*named, *(row.instance_id for row in candidates)}
    canvas.paint([row for row in rows.values() if row.countable and row.instance_id not in listed], _THIN)
    canvas.paint(candidates, _FEW_CANDIDATES if len(candidates) <= _FEW else _CANDIDATE)
    for link in reversed(links):
        canvas.paint([rows[link.anchor_id]], Style(link.colour, 0.4, 1.0, 2 if link.depth else 3, halo=2))
    canvas.paint(answers, _FOUND)
    canvas.draw_boxes([(row, ANSWER) for row in answers])
    for link in links:
        if link.anchor_id in query.answer_ids:
            canvas.paint([rows[link.anchor_id]], Style(link.colour, 0.0, 1.0, 3))
    n_arrows = 0
    for link in reversed(links):
        n_arrows = canvas.draw_arrows(rows[link.anchor_id], [rows[name] for name in link.subject_ids], link.colour)
    for link in links:
        canvas.draw_tag(rows[link.anchor_id], link.letter, link.colour)
    if explained is not None and explained.superlative is not None and len(answers) == 1:
        canvas.draw_tag(answers[0], explained.superlative, ANSWER)

    answer = "nothing" if not answers else f"{len(answers)} instance{'s' if len(answers) > 1 else ''}"
    level = "" if query.level is None else f"level {query.level}, "
    facts = [f"{query.query_id}, {level}{query.difficulty or query.form}, {query.kind.replace('_', ' ')}; answer: {answer}"]
    if explained is not None and explained.why_nothing is not None:
        facts.append(f"why: {explained.why_nothing}")
    if links and n_arrows < len(answers):
        facts.append(f"arrows to {n_arrows} of {len(answers)} answers")
    legend = [*([("answer", ANSWER)] if answers else []), *((f"{link.letter}, {link.what}: {link.meaning}", link.colour) for link in links)]
    if candidates and explained is not None:
        legend.append((f"{'other ' if answers else ''}{explained.chosen_from}", OTHER))
    legend.append(("other instances", OTHER_IN_LEGEND))
    title = query.sentences[0] if query.sentences else query.canonical or query.query_id
    return canvas.finish(title, [*facts, *_attribution(release, query.scene_id)], legend)


def draw_relation(release: Release, scene_id: str, relation: str, anchor_id: str, max_side_px: int = MAX_SIDE_PX) -> Picture:
    """Draw what stands in a relation to one anchor: arrows from the anchor to TRUE subjects; UNDECIDED ones in their own colour.

    Arrows start at the representative point of a discrete anchor, and at the point of a region that is nearest to the subject's. In a
    crowd they point at every k-th by direction.

    Raises:
        InputError: there is no such scene, or no such instance in it.
        ReleaseError: a file cannot be read or lacks a column.
    """
    canvas = Canvas(release, release.scene(scene_id), max_side_px)
    rows = {row.instance_id: row for row in release.instances_of_scene[scene_id]}
    if anchor_id not in rows:
        raise InputError(f"instance {anchor_id!r} is not in scene {scene_id!r}")
    subjects = {verdict: [rows[name] for name in ids] for verdict, ids in subjects_of(release, scene_id, relation, anchor_id).items()}
    named = {anchor_id, *(row.instance_id for found in subjects.values() for row in found)}
    canvas.paint([row for row in rows.values() if row.countable and row.instance_id not in named], _THIN)
    canvas.paint(subjects["UNDECIDED"], Style(UNSURE, 0.25, 1.0, 2, halo=1))
    canvas.paint(subjects["TRUE"], Style(ANSWER, 0.3, 1.0, 2, halo=2))
    canvas.paint([rows[anchor_id]], Style(ANCHOR, 0.35, 1.0, 3, halo=2))
    n_arrows = canvas.draw_arrows(rows[anchor_id], subjects["TRUE"])
    title = f"{relation.replace('_', ' ')}: {_name(rows[anchor_id])} {anchor_id}"
    n = len(subjects["TRUE"])
    shown = "" if n_arrows == n else f"; arrows to {n_arrows} of the TRUE"
    facts = f"scene {scene_id}; {n} TRUE, {len(subjects['UNDECIDED'])} UNDECIDED{shown}"
    legend = [("anchor", ANCHOR), ("TRUE", ANSWER), ("UNDECIDED", UNSURE), ("other instances", OTHER_IN_LEGEND)]
    return canvas.finish(title, [facts, *_attribution(release, scene_id)], legend)


def subjects_of(release: Release, scene_id: str, relation: str, anchor_id: str) -> dict[str, list[str]]:
    """Return what stands in a relation to an anchor: `TRUE` and `UNDECIDED` → instance ids in file order."""
    here = (pc.field("scene_id") == scene_id) & (pc.field("anchor_id") == anchor_id) & (pc.field("relation") == relation)
    edges = release.relations.filter(here).select(["subject_id", "verdict"]).to_pylist()
    return {verdict: [edge["subject_id"] for edge in edges if edge["verdict"] == verdict] for verdict in ("TRUE", "UNDECIDED")}


def draw_item(release: Release, item_id: str, document: Document | None = None) -> Picture:
    """Draw anything in a release that has an id.

    Args:
        release: The release.
        item_id: A scene, query, instance, annotation, sentence or decision.
        document: What `document_of` tells of it, when it is there already.

    Returns:
        The scene with the item in it, or a close-up of an instance, and beside it what was measured, checked and decided.

    Raises:
        InputError: there is no such item.
        ProgramError: a program cannot be executed.
        ReleaseError: a file is missing or cannot be read.
    """
    document = document or document_of(release, item_id)
    match document["type"]:
        case "scene":
            return draw_scene(release, item_id)
        case "query":
            return _draw_query(release, release.query(item_id), explained_from(document))
        case _:
            return _draw_told(release, document, card_of(document))


def _draw_told(release: Release, document: Mapping[str, Any], card: Card) -> Picture:
    """Draw an item with its card beside it."""
    scene_id = document["scene_id"]
    match document["type"]:
        case "instance":
            return _draw_instance(release, document["item"], card)
        case "annotation":
            return _draw_group(release, scene_id, document["annotation"]["instance_ids"], document["annotation"]["name"], card)
        case "sentence":
            about = document["annotation"]
            return _draw_group(release, scene_id, about["instance_ids"] if about else (), about["name"] if about else "nothing", card)
        case _ if document["about"] is not None:
            return _draw_told(release, document["about"], card)
        case _:
            canvas, legend = _scene_canvas(release, scene_id, MAX_SIDE_PX, with_boxes=False)
            return canvas.finish(card.title, [*card.facts, *_attribution(release, scene_id)], legend, card.sections)


def _draw_instance(release: Release, instance_id: str, card: Card) -> Picture:
    row = release.instance_by_id[instance_id]
    scene = release.scene(row.scene_id)
    canvas = Canvas(release, scene, CLOSE_UP_PX, _close_up(release, row), LEAST_CLOSE_UP_PX)
    canvas.paint([one for one in release.instances_of_scene[row.scene_id] if one.countable and one != row], _THIN)
    canvas.paint([row], Style(ANSWER, 0.12, 1.0, 2, halo=1))
    legend = [("outline", ANSWER)]
    if row.obb_px is not None:
        canvas.draw_ring(row.obb_px, OBB, 3)
        legend.append(("OBB", OBB))
    if row.hbb_px is not None:
        canvas.draw_ring(corners_of_hbb(row.hbb_px), HBB, 1)
        legend.append(("HBB", HBB))
    legend.append(("other instances", OTHER_IN_LEGEND))
    return canvas.finish(card.title, [*card.facts, *_attribution(release, row.scene_id)], legend, card.sections)


def _close_up(release: Release, row: InstanceRow) -> View:
    """The part of the scene around an instance, as square as the scene lets it be."""
    scene = release.scene(row.scene_id)
    bounds = bounds_of(release, row)
    if bounds is None:
        return View(0, 0, scene.height, scene.width)
    left, top, right, bottom = (round(v) for v in bounds)
    longest = max(right - left, bottom - top)
    side = longest + 2 * max(_LEAST_AROUND_PX, round(_AROUND * longest))
    (row_off, height), (col_off, width) = (
        _stretch(first, last, side, whole) for first, last, whole in ((top, bottom, scene.height), (left, right, scene.width))
    )
    return View(row_off, col_off, height, width)


def _stretch(first: int, last: int, side: int, whole: int) -> tuple[int, int]:
    """Lay `side` pixels around first to last, inside 0 to `whole`; returns the first and how many."""
    size = min(side, whole)
    return int(np.clip((first + last - size) // 2, 0, whole - size)), size


def _draw_group(release: Release, scene_id: str, instance_ids: Iterable[str], name: str, card: Card) -> Picture:
    """Draw a scene with some of its instances filled."""
    canvas = Canvas(release, release.scene(scene_id))
    wanted = set(instance_ids)
    rows = release.instances_of_scene[scene_id]
    chosen = [row for row in rows if row.instance_id in wanted]
    canvas.paint([row for row in rows if row.countable and row.instance_id not in wanted], _THIN)
    canvas.paint([row for row in chosen if not row.countable], Style(ANSWER, 0.25, 1.0, 2, halo=2))
    canvas.paint([row for row in chosen if row.countable], _FOUND)
    legend = [(f"{name} ({len(chosen)})", ANSWER), ("other instances", OTHER_IN_LEGEND)]
    return canvas.finish(card.title, [*card.facts, *_attribution(release, scene_id)], legend, card.sections)


def _scene_canvas(release: Release, scene_id: str, max_side_px: int, *, with_boxes: bool) -> tuple[Canvas, list[tuple[str, Colour]]]:
    """A scene with everything in it, and its legend."""
    canvas = Canvas(release, release.scene(scene_id), max_side_px)
    rows = release.instances_of_scene[scene_id]
    counts = Counter(_name(row) for row in rows)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    colour = {name: PALETTE[k % len(PALETTE)] for k, name in enumerate(names)}
    for name in names:
        of_name = [row for row in rows if _name(row) == name]
        canvas.paint([row for row in of_name if not row.countable], Style(colour[name], 0.18, 0.9, 2))
        canvas.paint([row for row in of_name if row.countable], Style(colour[name], 0.08, 1.0, 1))
    if with_boxes:
        canvas.draw_boxes([(row, colour[_name(row)]) for row in rows])
    return canvas, [(f"{name} ({counts[name]})", colour[name]) for name in names]


def _links(explained: Explained | None, is_answered: bool) -> list[_Link]:
    """The anchors of a query with letters and colours; relations from one anchor to the same things are one link."""
    if explained is None:
        return []
    grouped: dict[tuple[str, tuple[str, ...], int], list[Hop]] = {}
    for hop in explained.hops:
        grouped.setdefault((hop.anchor_id, hop.subject_ids, hop.depth), []).append(hop)
    letter_of = {anchor_id: chr(ord("A") + k) for k, anchor_id in enumerate(dict.fromkeys(hop.anchor_id for hop in explained.hops))}
    links: list[_Link] = []
    colour_at: dict[int, Colour] = {}
    for (anchor_id, subject_ids, depth), hops in grouped.items():
        if depth:
            colour_at[depth] = lighter(colour_at[depth - 1])
            subject = f"{letter_of.get(subject_ids[0], '')} is"
        else:
            n_before = sum(link.depth == 0 for link in links)
            colour_at[0] = (ANCHOR, SECOND_ANCHOR)[n_before % 2]
            subject = ("the answer is" if len(subject_ids) == 1 else "answers are") if is_answered else "asked to be"
        words = " and ".join(hop.words for hop in hops)
        meaning = f"{subject} {words} it"
        links.append(_Link(letter_of[anchor_id], colour_at[depth], hops[0].kind, anchor_id, meaning, subject_ids, depth))
    return links


def _name(row: InstanceRow) -> str:
    """The instance's value on its first axis, for a legend."""
    return words_of_category(row.category[:1])


def _attribution(release: Release, scene_id: str) -> list[str]:
    """What the picture's pixels must be credited with, when the release says so."""
    table = release.scenes
    if "attribution" not in table.column_names:
        return []
    text = table.column("attribution")[table.column("scene_id").to_pylist().index(scene_id)].as_py()
    return [text] if text else []
