"""What a release holds, in numbers: images, annotations, boxes, language, places. Computed from the release alone.

Not here: scores, drawing (`trigpoint.analysis.plots`), the card (`trigpoint.release.card`).

Source: OVEarth-Bench (arXiv 2607.27278), table 1, figures 4, 5, 7, 8 and appendix B.
"""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import shapely

from trigpoint.analysis.pages import DataTable, Page, columns
from trigpoint.errors import ReleaseError
from trigpoint.records.query import Query
from trigpoint.release.reader import InstanceRow, Release

FORMS = ("program", "vocabulary", "referring", "reasoning", "choice", "text")

POLARITIES = ("positive", "negative")

SMALL_SHARE, LARGE_SHARE = 0.01, 0.5
"""A small box covers less of its image than the one, a large box more than the other. Source: OVEarth-Bench, appendix B."""

MANY_BOXES = 40
"""An annotation with more boxes has many. Source: likewise."""

_MOST_ROWS = 20
"""Categories that the terminal lists."""

COAST_DEG = 3.0
"""How far from land, in degrees, an image may lie and still count to the region."""


class Samples(NamedTuple):
    """The values behind the distributions.

    Attributes:
        widths_px, heights_px, gsd_m, file_bytes: Per scene (file sizes of the files that are there).
        instances_per_scene: Countable ones. boxes_per_annotation: HBBs.
        box_shares: Area of an HBB by the area of its image. obb_angles_deg: Of the long side, clockwise from the image's right, [0, 180).
        words: Form → words of every sentence. places: (longitude, latitude) of every scene that has a footprint.
    """

    widths_px: list[int]
    heights_px: list[int]
    gsd_m: list[float]
    file_bytes: list[int]
    instances_per_scene: list[int]
    boxes_per_annotation: list[int]
    box_shares: list[float]
    obb_angles_deg: list[float]
    words: dict[str, list[int]]
    places: list[tuple[float, float]]


class ReleaseStatistics(NamedTuple):
    """Tables, and what plots need beside them.

    Attributes:
        categories, domains: (name, instances), the most frequent first. A domain is what the taxonomy calls so, else the broadest
            category above.
        polarities: Form → (queries with an answer, without).
    """

    page: Page
    samples: Samples
    categories: list[tuple[str, int]]
    domains: list[tuple[str, int]]
    polarities: dict[str, tuple[int, int]]


class _Annotation(NamedTuple):
    """One target: everything of one category in one scene."""

    rows: list[InstanceRow]
    forms: frozenset[str]


def release_statistics(release: Release) -> ReleaseStatistics:
    """Compute the statistics of a release.

    Raises:
        ReleaseError: a part of the release cannot be read.
    """
    instances = list(release.instance_by_id.values())
    annotations, what = _annotations_of(release)
    samples = _sample(release, instances, annotations)
    by_category = Counter(_value(release, row.category) for row in instances)
    by_domain = Counter(_domain(release, row.category) for row in instances)
    polarities = {form: (sum(q.answerable for q in found), sum(not q.answerable for q in found)) for form, found in _by_form(release)}
    categories, domains = (sorted(found.items(), key=lambda item: (-item[1], item[0])) for found in (by_category, by_domain))
    tables = (
        _spread_table(samples),
        _query_table(release),
        _vocabulary_table(release),
        _annotation_table(annotations, what),
        _coverage_table(annotations),
        _scale_table(samples),
        _count_table(release, "domain", domains, _domain),
        _count_table(release, "category", categories, _value)._replace(is_long=len(categories) > _MOST_ROWS),
        _region_table(samples),
        _comparison_table(release, instances),
    )
    lead = (f"{len(samples.widths_px)} images, {len(instances)} instances, {len(release.queries)} queries.",)
    page = Page(f"Statistics of {release.name}", lead, tables)
    return ReleaseStatistics(page, samples, categories, domains, polarities)


def _by_form(release: Release) -> list[tuple[str, list[Query]]]:
    found = [(form, [query for query in release.queries if query.form == form]) for form in FORMS]
    return [(form, queries) for form, queries in found if queries]


def _annotations_of(release: Release) -> tuple[list[_Annotation], str]:
    """Return the annotations and what is meant by one: by `annotation_id`, else all instances of one category in one scene."""
    answers: dict[str, set[str]] = {}
    forms: dict[str, set[str]] = {}
    for query in release.queries:
        if query.annotation_id is not None:
            answers.setdefault(query.annotation_id, set()).update(query.answer_ids)
            if query.polarity == "positive":
                forms.setdefault(query.annotation_id, set()).add(query.form)
    if answers:
        missing = sorted({i for ids in answers.values() for i in ids} - set(release.instance_by_id))
        if missing:
            raise ReleaseError(f"release {release.folder}: queries.jsonl names the instance {missing[0]!r}, which instances.parquet lacks")
        listed = [
            _Annotation([release.instance_by_id[i] for i in sorted(ids)], frozenset(forms.get(name, ())))
            for name, ids in sorted(answers.items())
        ]
        return listed, "annotations of the queries"
    grouped: dict[tuple[str, tuple[str, ...]], list[InstanceRow]] = {}
    for row in release.instance_by_id.values():
        grouped.setdefault((row.scene_id, row.category), []).append(row)
    return [_Annotation(rows, frozenset()) for _, rows in sorted(grouped.items())], "all instances of one category in one image"


def _sample(release: Release, instances: Sequence[InstanceRow], annotations: Sequence[_Annotation]) -> Samples:
    scenes = list(release.scene_by_id.values())
    paths = [release.folder / scene.path for scene in scenes if scene.path]
    area_px = {scene.scene_id: scene.height * scene.width for scene in scenes}
    return Samples(
        widths_px=[scene.width for scene in scenes],
        heights_px=[scene.height for scene in scenes],
        gsd_m=[scene.gsd_m for scene in scenes],
        file_bytes=[path.stat().st_size for path in paths if path.is_file()],
        instances_per_scene=[sum(row.countable for row in rows) for rows in release.instances_of_scene.values()],
        boxes_per_annotation=[n for one in annotations if (n := sum(row.hbb_px is not None for row in one.rows))],
        box_shares=[_box_area(row.hbb_px) / area_px[row.scene_id] for row in instances if row.hbb_px is not None],
        obb_angles_deg=[_long_side_deg(row.obb_px) for row in instances if row.obb_px is not None],
        words={form: [len(text.split()) for query in found for text in query.sentences] for form, found in _by_form(release)},
        places=_places(release),
    )


def _box_area(box: tuple[float, ...]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _long_side_deg(corners: tuple[float, ...]) -> float:
    """Return the direction of the longer side of four corners, degrees clockwise on screen from the image's right, in [0, 180).

    >>> _long_side_deg((0.0, 0.0, 4.0, 0.0, 4.0, 2.0, 0.0, 2.0)), _long_side_deg((0.0, 0.0, 1.0, 0.0, 1.0, 3.0, 0.0, 3.0))
    (0.0, 90.0)
    """
    first, second = ((corners[k + 2] - corners[k], corners[k + 3] - corners[k + 1]) for k in (0, 2))
    x, y = first if math.hypot(*first) >= math.hypot(*second) else second
    return round(math.degrees(math.atan2(y, x)), 9) % 180.0


def _places(release: Release) -> list[tuple[float, float]]:
    """Return the centroids of the footprints; releases without footprints have none."""
    if "geometry" not in release.scenes.column_names:
        return []
    shapes: Any = shapely.from_wkb(release.scenes.column("geometry").to_pylist())
    return [(point.x, point.y) for point in shapely.centroid(shapes) if point is not None and not point.is_empty]


def _in_order(release: Release, category: tuple[str, ...]) -> tuple[str, ...]:
    """Return categories in the order of the taxonomy's axes (queries sort theirs by name); as they are where it does not know one."""
    taxonomy = release.taxonomy
    if taxonomy is None or any(name not in taxonomy.by_id for name in category):
        return category
    axes = [axis.id for axis in taxonomy.axes]
    return tuple(sorted(category, key=lambda name: axes.index(taxonomy.by_id[name].axis)))


def _value(release: Release, category: tuple[str, ...]) -> str:
    return " + ".join(_in_order(release, category)) or "none"


def _domain(release: Release, category: tuple[str, ...]) -> str:
    """Name the domain of the value on the first axis, as the taxonomy says it of it or of something above, else the broadest above."""
    first = _in_order(release, category)[:1]
    if not first:
        return "none"
    taxonomy = release.taxonomy
    if taxonomy is None or first[0] not in taxonomy.by_id:
        return first[0]
    chain = taxonomy.ancestors(first[0])
    return next((domain for name in chain if (domain := taxonomy.by_id[name].domain) is not None), chain[-1])


_SPREAD = (("n", "n"), ("min", "smallest"), ("median", "median"), ("mean", "mean"), ("max", "largest"))


def _spread(values: Sequence[float]) -> tuple[Any, ...]:
    if not values:
        return (0, None, None, None, None)
    median = float(np.median(values))
    is_whole = all(isinstance(value, int) for value in values) and median.is_integer()
    return (len(values), min(values), int(median) if is_whole else median, float(np.mean(values)), max(values))


def _spread_table(samples: Samples) -> DataTable:
    rows = (
        ("image width, px", *_spread(samples.widths_px)),
        ("image height, px", *_spread(samples.heights_px)),
        ("ground sampling distance, m", *_spread(samples.gsd_m)),
        ("file size, MB", *_spread([size / 1e6 for size in samples.file_bytes])),
        ("instances per image", *_spread(samples.instances_per_scene)),
    )
    return DataTable("images", "Images", columns(("what", ""), *_SPREAD), rows)


def _query_table(release: Release) -> DataTable:
    rows: list[tuple[Any, ...]] = []
    for form, queries in _by_form(release):
        lengths = [len(text.split()) for query in queries for text in query.sentences]
        positive = sum(query.polarity == "positive" for query in queries)
        unique = len({_plainly(text) for query in queries for text in query.sentences})
        categories = len({query.category for query in queries if query.polarity == "positive"})
        _, _, *words = _spread(lengths)
        rows.append((form, len(queries), positive, len(queries) - positive, len(lengths), unique, categories, *words))
    said = columns(
        ("form", "form"), ("queries", "queries"), ("positive", "positive"), ("negative", "negative"), ("sentences", "sentences"),
        ("unique", "unique"), ("categories", "categories"), ("words_median", "words, median", 1), ("words_mean", "mean", 1),
        ("words_max", "most", 0),
    )  # fmt: skip
    notes = ("unique: after lower case and single spaces; categories: of positive queries",)
    return DataTable("queries", "Queries by form", said, tuple(rows), notes=notes)


def _plainly(text: str) -> str:
    return " ".join(text.split()).casefold()


def _vocabulary(release: Release) -> tuple[set[str], set[str]]:
    """Return the unique positive and negative vocabulary phrases."""
    asked = [query for query in release.queries if query.form == "vocabulary"]
    positive, negative = (
        {_plainly(t) for q in asked if q.polarity == polarity for t in q.sentences} for polarity in ("positive", "negative")
    )
    return positive, negative


def _vocabulary_table(release: Release) -> DataTable:
    positive, negative = _vocabulary(release)
    rows = (("unique phrases", len(positive), len(negative), len(positive & negative), len(positive | negative)),)
    said = columns(("what", ""), ("positive", "positive"), ("negative", "negative"), ("both", "in both"), ("all", "all together"))
    has_any = bool(positive or negative)
    return DataTable("vocabulary", "Vocabulary", said, rows if has_any else (), notes=() if has_any else ("no vocabulary query",))


def _annotation_table(annotations: Sequence[_Annotation], what: str) -> DataTable:
    boxes = [sum(row.hbb_px is not None for row in one.rows) for one in annotations]
    rows = (
        ("instances per annotation", *_spread([len(one.rows) for one in annotations])),
        ("boxes per annotation that has any", *_spread([n for n in boxes if n])),
    )
    notes = (
        f"annotation: {what}",
        f"{sum(boxes):,} boxes; {sum(n > MANY_BOXES for n in boxes)} annotation(s) with more than {MANY_BOXES}",
        f"{boxes.count(0)} annotation(s) without a box",
    )
    return DataTable("annotations", "Annotations", columns(("what", ""), *_SPREAD), rows, notes=notes)


def _coverage_table(annotations: Sequence[_Annotation]) -> DataTable:
    found = Counter(" + ".join(form for form in FORMS if form in one.forms) or "none" for one in annotations)
    has_any = set(found) - {"none"}
    rows = tuple((forms, n, 100 * n / len(annotations)) for forms, n in sorted(found.items(), key=lambda item: (-item[1], item[0])))
    said = columns(("forms", "forms"), ("n", "annotations"), ("percent", "per cent", 1))
    title = "Query forms per annotation"
    return DataTable("coverage", title, said, rows if has_any else (), notes=() if has_any else ("no query names an annotation",))


def _scale_table(samples: Samples) -> DataTable:
    n = len(samples.box_shares)
    small, large = sum(s < SMALL_SHARE for s in samples.box_shares), sum(s > LARGE_SHARE for s in samples.box_shares)
    middle = n - small - large
    rows = tuple(
        (name, count, 100 * count / n if n else None)
        for name, count in (
            (f"below {SMALL_SHARE:.0%} of the image", small),
            ("between", middle),
            (f"above {LARGE_SHARE:.0%}", large),
        )
    )
    notes = (f"median rotation of {len(samples.obb_angles_deg):,} oriented boxes: {np.median(samples.obb_angles_deg):.1f}°",)
    said = columns(("scale", "box"), ("n", "boxes"), ("percent", "per cent", 1))
    return DataTable("scales", "Object scale", said, rows, notes=notes if samples.obb_angles_deg else ())


def _count_table(
    release: Release, key: str, counts: Sequence[tuple[str, int]], name_of: Callable[[Release, tuple[str, ...]], str]
) -> DataTable:
    """Count instances, the images that hold them, and queries by the category that they ask for."""
    images = Counter(name for rows in release.instances_of_scene.values() for name in {name_of(release, row.category) for row in rows})
    queries = Counter(name_of(release, query.category) for query in release.queries if query.category)
    total = sum(n for _, n in counts)
    rows = [(name, n, 100 * n / total, images[name], queries[name]) for name, n in counts]
    rows += [(name, 0, 0.0, 0, n) for name, n in sorted(queries.items()) if name not in images]
    said = columns((key, key), ("instances", "instances"), ("percent", "per cent", 1), ("images", "images"), ("queries", "queries"))
    plural = {"domain": "domains", "category": "categories"}[key]
    return DataTable(plural, f"By {key}", said, tuple(rows), notes=("queries: by the category that they ask for",))


def _region_table(samples: Samples) -> DataTable:
    found = Counter(region_of(lon, lat) for lon, lat in samples.places)
    rows = tuple((region, n, 100 * n / len(samples.places)) for region, n in sorted(found.items(), key=lambda item: (-item[1], item[0])))
    said = columns(("region", "region"), ("images", "images"), ("percent", "per cent", 1))
    notes = ("by the land nearest to the footprint's centroid, all of Russia in Europe", "sea: farther than 3° from any land")
    return DataTable("regions", "Regions of the world", said, rows, notes=notes if rows else ("no footprints",))


@cache
def _regions() -> tuple[list[str], Any]:
    land = json.loads(files("trigpoint.analysis").joinpath("regions.geojson").read_text(encoding="utf-8"))["features"]
    shapes = [shapely.geometry.shape(feature["geometry"]) for feature in land]
    return [feature["properties"]["region"] for feature in land], shapes


def region_of(lon: float, lat: float) -> str:
    """Name the part of the world that a place lies in, or near; `sea` when no land is within `COAST_DEG`.

    Source: Natural Earth 1:110m (public domain), its continents, simplified; Russia is Europe there, small islands are not on it.

    >>> region_of(85.52, 27.63), region_of(-30.0, 40.0)
    ('Asia', 'sea')
    """
    names, shapes = _regions()
    distances: Any = shapely.distance(shapes, shapely.Point(lon, lat))
    nearest = int(np.argmin(distances))
    return names[nearest] if distances[nearest] <= COAST_DEG else "sea"


def _comparison_table(release: Release, instances: Sequence[InstanceRow]) -> DataTable:
    """Put the release beside the data sets of the paper's table 1."""
    text = files("trigpoint.analysis").joinpath("published.csv").read_text(encoding="utf-8")
    rows: list[tuple[Any, ...]] = []
    for row in csv.DictReader(io.StringIO(text)):
        numbers = [int(row[key]) if row[key] else None for key in ("n_cat", "n_voc")]
        rows.append((row["dataset"], *numbers, *(row[key] == "yes" for key in ("fresh", "ref", "rea", "mask", "box"))))
    forms = {query.form for query in release.queries}
    positive, negative = _vocabulary(release)
    rows.append(
        (
            release.name,
            len({row.category for row in instances}),
            len(positive | negative) or None,
            _is_fresh(release),
            "referring" in forms,
            "reasoning" in forms,
            any(row.has_mask for row in instances),
            any(row.hbb_px is not None for row in instances),
        )
    )
    said = columns(
        ("dataset", "data set"), ("n_cat", "categories"), ("n_voc", "vocabulary"), ("fresh", "fresh"), ("ref", "referring"),
        ("rea", "reasoning"), ("mask", "masks"), ("box", "boxes"),
    )  # fmt: skip
    notes = (
        "the others as OVEarth-Bench's table 1 prints them; vocabulary: unique phrases, positive and negative; fresh: images of no earlier"
        " data set, here: screened against lists of them, and none met (– without screening)",
    )
    return DataTable("comparison", "Beside other data sets", said, tuple(rows), notes=notes)


def _is_fresh(release: Release) -> bool | None:
    """Whether screening found no image of a listed data set; None without screening."""
    is_screened = any(document.get("screening") for document in release.splits.values())
    if not is_screened or "outside" not in release.scenes.column_names:
        return None
    return not any(release.scenes.column("outside").to_pylist())
