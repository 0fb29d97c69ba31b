"""The card of a release: README.md and its picture. Every number in it is computed from the release."""

from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from PIL import Image

from trigpoint.release.content import ReleaseContent
from trigpoint.release.reader import Release
from trigpoint.release.show import contact_sheet, draw_query, draw_scene

PICTURE_COLOURS = 256
"""Colours of the card's picture: a quarter of the bytes, and no one can tell."""

PICTURED_SCENES = 3
"""Scenes on the card's picture, those with the most instances; a query is drawn beside each."""


def write_card(folder: Path, content: ReleaseContent) -> None:
    """Write README.md and sample.png from the files that are in the folder (its manifest must be there)."""
    release = Release.open(folder)
    template = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False, keep_trailing_newline=True
    ).from_string(files("trigpoint.release").joinpath("card.md.j2").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(template.render(card_facts(release, content.notes)), encoding="utf-8")
    scenes = release.scenes.column("scene_id").to_pylist()
    members = Counter(release.instances.column("scene_id").to_pylist())
    chosen = sorted(sorted(scenes), key=lambda scene_id: -members[scene_id])[:PICTURED_SCENES]
    pictures: list[Any] = []
    for scene_id in chosen:
        pictures.append(draw_scene(release, scene_id))
        queries = [q for q in release.queries if q.scene_id == scene_id and q.answerable and q.level is not None]
        if queries:
            pictures.append(draw_query(release, max(queries, key=lambda q: (q.level or 0, q.query_id)).query_id))
    if pictures:
        sheet = contact_sheet(pictures).convert("RGB").quantize(PICTURE_COLOURS, dither=Image.Dither.NONE)
        sheet.save(folder / "sample.png", optimize=True)


def card_facts(release: Release, notes: list[str]) -> dict[str, Any]:
    """Compute the numbers of the card from a release."""
    scenes = release.scenes.drop_columns(["geometry"]).to_pylist()
    instances = release.instances.select(["category", "countable", "cut", "area_m2", "review_state", "proposal"]).to_pylist()
    queries = release.queries
    categories = Counter(tuple(row["category"]) for row in instances)
    answers = [len(query.answer_ids) for query in queries if query.answerable]
    return {
        "manifest": release.manifest,
        "scenes": scenes,
        "categories": sorted(((" + ".join(key), n) for key, n in categories.items()), key=lambda pair: (-pair[1], pair[0])),
        "n_cut": sum(row["cut"] for row in instances),
        "levels": sorted(Counter(query.level for query in queries if query.level is not None).items()),
        "kinds": sorted(Counter(query.kind for query in queries).items()),
        "difficulties": sorted(Counter(query.difficulty for query in queries).items()),
        "answer_size": {"mean": float(np.mean(answers)), "max": max(answers)} if answers else None,
        "gsd": sorted({round(row["gsd_m"], 4) for row in scenes}),
        "splits": dict(sorted(release.splits.items())),
        **_split_facts(release),
        "proposals": sorted(Counter(row["proposal"] for row in instances).items()),
        "notes": notes,
    }


def _split_facts(release: Release) -> dict[str, Any]:
    """Groups and screening; every protocol's file has the same."""
    if not release.splits:
        return {"split_groups": None, "screening": None}
    document = next(iter(release.splits.values()))
    threshold = document["grouping"]["near_duplicate"]["low_information_sd"]
    reasons = Counter(str(reason["why"]).replace("_", " ") for group in document["groups"] for reason in group["reasons"])
    groups = {
        "n": len(document["groups"]),
        "largest": max(len(group["scenes"]) for group in document["groups"]),
        "reasons": sorted(reasons.items()),
        "low_information": sum(sd < threshold for sd in release.scenes.column("grey_sd").to_pylist()),
        "low_information_sd": threshold,
    }
    return {"split_groups": groups, "screening": document["screening"]}
