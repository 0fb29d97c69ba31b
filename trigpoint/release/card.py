"""The card of a release: README.md, its picture and its plots. Every number in it is computed from the release."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow.compute as pc
from PIL import Image

from trigpoint.analysis.pages import DataTable
from trigpoint.analysis.statistics import release_statistics
from trigpoint.categories import BASES, TRUE
from trigpoint.records.query import Query
from trigpoint.release.content import ReleaseContent
from trigpoint.release.reader import Release
from trigpoint.release.show import contact_sheet, draw_query, draw_scene
from trigpoint.scoring.pages import table_lines

TEMPLATE = Path(__file__).with_name("card.md.j2")

CARD_FILES = (TEMPLATE, *(Path(__file__).parents[1] / "analysis" / name for name in ("published.csv", "regions.geojson")))
"""Files beside the code that the card is made of."""

FIGURES = "figures"
"""Folder of the card's plots."""

PICTURE_COLOURS = 256
"""Colours of the card's picture: a quarter of the bytes, and no one can tell."""

SAID = 6
"""Sentences of free language that the card shows."""

MOST_ROWS = 20
"""Rows of a table on the card; the release has all."""

PICTURED_SCENES = 3
"""Scenes on the card's picture, those with the most instances; a query is drawn beside each."""


def write_card(folder: Path, content: ReleaseContent) -> None:
    """Write README.md, sample.png and figures/*.png from the files that are in the folder (its manifest must be there)."""
    from trigpoint.analysis.plots import draw_statistics  # matplotlib is slow to import, and planning needs none of it

    release = Release.open(folder)
    statistics = release_statistics(release)
    plots = draw_statistics(statistics, folder / FIGURES)
    facts = {
        **card_facts(release, content.notes),
        "tables": {table.name: _shortened(table) for table in statistics.page.tables},
        "figures": {path.stem: f"{FIGURES}/{path.name}" for path in plots},
    }
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False, keep_trailing_newline=True
    )
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    (folder / "README.md").write_text(template.render(facts), encoding="utf-8")
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
        sheet = contact_sheet(pictures).convert("RGB").quantize(PICTURE_COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        sheet.save(folder / "sample.png", optimize=True)


def _shortened(table: DataTable) -> dict[str, Any] | None:
    """Return title, lines of Markdown and notes of a table of at most `MOST_ROWS`; None of one without rows.

    The comparison is not cut: the release is its last row.
    """
    if not table.rows:
        return None
    n, notes = len(table.rows), table.notes
    if n > MOST_ROWS and table.name != "comparison":
        table, notes = (
            table._replace(rows=table.rows[:MOST_ROWS]),
            (f"the first {MOST_ROWS} of {n}; `trigpoint statistics .` has all", *notes),
        )
    return {"title": table.title, "lines": table_lines(table.to_sheet()), "notes": notes}


def card_facts(release: Release, notes: list[str]) -> dict[str, Any]:
    """Compute the numbers of the card from a release, but those of its statistics."""
    instances = release.instances.select(["cut", "proposal"]).to_pylist()
    queries = [query for query in release.queries if query.form == "program"]
    answers = [len(query.answer_ids) for query in queries if query.answerable]
    return {
        "manifest": release.manifest,
        "sources": _sources(release),
        "most_rows": MOST_ROWS,
        "n_cut": sum(row["cut"] for row in instances),
        "levels": sorted(Counter(f"L{query.level}" for query in queries if query.level is not None).items()),
        "kinds": sorted(Counter(query.kind for query in queries).items()),
        "difficulties": sorted(Counter(query.difficulty for query in queries).items()),
        "answer_size": {"mean": float(np.mean(answers)), "max": max(answers)} if answers else None,
        "query_figures": _query_figures(release, queries),
        "said": [query.sentences[0] for query in release.queries if query.form in ("referring", "reasoning")][:SAID],
        "edges": _spread(_edges_per_scene(release)),
        "splits": dict(sorted(release.splits.items())),
        **_split_facts(release),
        "taxonomy_basis": _taxonomy_basis(release),
        "proposals": sorted(Counter(row["proposal"] for row in instances).items()),
        "notes": notes,
    }


def _sources(release: Release) -> list[dict[str, Any]]:
    """One row per source of scenes: what its scenes are like."""
    columns = ["source", "width", "height", "gsd_m", "crs", "metric_crs", "how", "acquired"]
    found: dict[str, list[dict[str, Any]]] = {}
    for row in release.scenes.select(columns).to_pylist():
        found.setdefault(row["source"], []).append(row)
    return [
        {
            "name": name,
            "n": len(rows),
            "acquired": _listed(row["acquired"] for row in rows),
            "size": " × ".join(_between([row[side] for row in rows], "d") for side in ("width", "height")),
            "gsd": _between([row["gsd_m"] for row in rows], ".4f"),
            **{key: _listed(row[key] for row in rows) for key in ("crs", "metric_crs", "how")},
        }
        for name, rows in sorted(found.items())
    ]


def _between(values: Sequence[float], form: str) -> str:
    """Print the smallest and the largest value, once when they print alike."""
    return " to ".join(dict.fromkeys(format(value, form) for value in (min(values), max(values))))


def _listed(values: Iterable[str | None]) -> str:
    """Print different values; many only as their number."""
    names = sorted({"unknown" if value is None else value for value in values})
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} different"


def _taxonomy_basis(release: Release) -> list[tuple[str, dict[str, int]]]:
    """For every field that categories fill: how many, by where the value comes from."""
    filled = release.taxonomy.filled_by_basis() if release.taxonomy is not None else {}
    return [(field, {basis: found[basis] for basis in BASES}) for field, found in filled.items() if found]


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


def _spread(values: list[float]) -> dict[str, float] | None:
    """Mean, median and maximum; None of nothing."""
    return {"mean": float(np.mean(values)), "median": float(np.median(values)), "max": float(max(values))} if values else None


def _edges_per_scene(release: Release) -> list[float]:
    """TRUE edges of every scene."""
    true_edges = release.relations.filter(pc.field("verdict") == "TRUE").group_by("scene_id").aggregate([("verdict", "count")])
    n_edges = {row["scene_id"]: row["verdict_count"] for row in true_edges.to_pylist()}
    return [float(n_edges.get(scene_id, 0)) for scene_id in release.scenes.column("scene_id").to_pylist()]


def _query_figures(release: Release, queries: Sequence[Query]) -> dict[str, Any]:
    """What makes queries hard: candidates of the category in the scene, and how much of the scene the answer covers."""
    taxonomy = release.taxonomy
    if taxonomy is None:
        return {"candidates": None, "answer_percent": None, "sentences": 0}
    closed = frozenset(release.manifest["unknown_is_other"])
    columns = ["scene_id", "instance_id", "category", "countable", "area_px"]
    instances = release.instances.select(columns).to_pylist()
    values: dict[str, Counter[tuple[str, ...]]] = {}
    for row in instances:
        if row["countable"]:
            values.setdefault(row["scene_id"], Counter())[tuple(row["category"])] += 1
    area_px = {row["instance_id"]: row["area_px"] for row in instances}
    valid_px = {
        row["scene_id"]: row["width"] * row["height"] * row["valid_share"] for row in release.scenes.drop_columns(["geometry"]).to_pylist()
    }
    known: dict[tuple[str, tuple[str, ...]], int] = {}
    for query in queries:
        key = (query.scene_id, query.category)
        if key not in known:
            known[key] = sum(
                n
                for value, n in values.get(query.scene_id, Counter()).items()
                if all(taxonomy.membership(value, category, closed) == TRUE for category in query.category)
            )
    shares = [100 * sum(area_px[a] for a in query.answer_ids) / valid_px[query.scene_id] for query in queries if query.answerable]
    return {
        "candidates": _spread([float(known[query.scene_id, query.category]) for query in queries]),
        "answer_percent": _spread(shares),
        "sentences": sum(len(query.sentences) for query in queries),
    }
