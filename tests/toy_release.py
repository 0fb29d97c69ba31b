"""A release small enough to be scored by hand: two scenes, rectangles, eight queries.

Scene s-a, 40 rows × 60 columns:            Scene s-b, 24 rows × 20 columns:
    i-1 house   rows 2–8,   columns 3–13  (60 px)    i-5 house  rows 1–5,   columns 1–5   (16 px)
    i-2 house   rows 10–14, columns 3–8   (20 px)    i-6 house  rows 10–13, columns 8–14  (18 px)
    i-3 school  rows 20–30, columns 30–50 (200 px)
    i-4 pond    rows 2–6,   columns 50–55 (20 px)
    i-9 road    rows 16–18, all columns   (120 px, a region)
A house and a school are buildings; a pond is none.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rasterio
from pycocotools import mask as pycocotools_mask

SIZES = {"s-a": (40, 60), "s-b": (24, 20)}
GSD_M = 0.5

RECTANGLES = {
    "i-1": ("s-a", "house", (2, 8, 3, 13)),
    "i-2": ("s-a", "house", (10, 14, 3, 8)),
    "i-3": ("s-a", "school", (20, 30, 30, 50)),
    "i-4": ("s-a", "pond", (2, 6, 50, 55)),
    "i-9": ("s-a", "road", (16, 18, 0, 60)),
    "i-5": ("s-b", "house", (1, 5, 1, 5)),
    "i-6": ("s-b", "house", (10, 13, 8, 14)),
}
"""Instance → scene, category, (first row, end row, first column, end column)."""

TAXONOMY = """
name: toy
version: 1
axes: [{id: kind}]
categories:
  - {id: building, axis: kind, noun: building, plural: buildings}
  - {id: house, axis: kind, parent: building, noun: house, plural: houses}
  - {id: school, axis: kind, parent: building, noun: school, plural: schools}
  - {id: pond, axis: kind, noun: pond, plural: ponds}
  - {id: road, axis: kind, countable: false, instanceable: false, noun: road, plural: roads}
"""


def toy_query(
    number: int, scene_id: str, level: int | None, category: str, answers: list[str], sentences: list[str], **more: Any
) -> dict[str, Any]:
    """One line of queries.jsonl."""
    return {
        "query_id": f"q-{number}",
        "scene_id": scene_id,
        "form": "program",
        "level": level,
        "program": {"op": "cat", "category": category},
        "canonical": f"(cat {category})",
        "answer_ids": answers,
        "answerable": bool(answers),
        "kind": "answerable" if answers else "relation_unsatisfied",
        "polarity": "positive" if answers else "negative",
        "sentences": sentences,
        "counterfactual_of": None,
        "difficulty": "easy",
        "annotation_id": None,
        "category": [category],
        **more,
    }


QUERIES = [
    toy_query(1, "s-a", 1, "house", ["i-1", "i-2"], ["the houses", "all houses", "every house"]),
    toy_query(2, "s-a", 2, "house", ["i-1"], ["the largest house"]),
    toy_query(3, "s-a", 3, "house", [], ["the houses south of the school"], counterfactual_of="q-4", difficulty="hard"),
    toy_query(4, "s-a", 3, "building", ["i-1", "i-2"], ["the buildings north of the road"], counterfactual_of="q-3", difficulty="medium"),
    toy_query(5, "s-b", 1, "pond", [], ["the ponds"], kind="category_absent"),
    toy_query(6, "s-b", 1, "house", ["i-5", "i-6"], ["the houses"]),
    toy_query(7, "s-b", 4, "house", ["i-5"], ["the houses north and west"], difficulty="hard"),
    toy_query(8, "s-a", 5, "school", ["i-3"], ["the school"], difficulty="hard"),
]


def language_query(
    number: int, scene_id: str, form: str, category: str, answers: list[str], sentence: str, polarity: str = "positive"
) -> dict[str, Any]:
    """One language query of the annotation `a-<scene>-<category>`; a negative one names something that is not there."""
    kind = "answerable" if polarity == "positive" else "concept_absent"
    return toy_query(
        number, scene_id, None, category, answers, [sentence], form=form, program=None, canonical=None, difficulty=None, kind=kind,
        polarity=polarity, annotation_id=f"a-{scene_id}-{category}",
    )  # fmt: skip


LANGUAGE = [
    language_query(11, "s-a", "vocabulary", "house", ["i-1", "i-2"], "house"),
    language_query(12, "s-a", "vocabulary", "house", ["i-1", "i-2"], "Residential  building"),
    language_query(13, "s-a", "vocabulary", "house", [], "greenhouse", "negative"),
    language_query(14, "s-a", "referring", "house", ["i-1", "i-2"], "the houses in the west"),
    language_query(15, "s-a", "reasoning", "house", ["i-1", "i-2"], "where people sleep at night"),
    language_query(21, "s-a", "vocabulary", "school", ["i-3"], "school"),
    language_query(22, "s-a", "reasoning", "school", ["i-3"], "where children learn"),
    language_query(31, "s-a", "vocabulary", "road", ["i-9"], "road"),
    language_query(32, "s-a", "vocabulary", "road", [], "railway", "negative"),
    language_query(33, "s-a", "referring", "road", ["i-9"], "the road that crosses the image"),
    language_query(41, "s-b", "vocabulary", "house", ["i-5", "i-6"], "house"),
    language_query(42, "s-b", "vocabulary", "house", [], "ponds", "negative"),
    language_query(43, "s-b", "referring", "house", ["i-5", "i-6"], "the two houses"),
]
"""Four annotations: houses and school of s-a, its road (which comes in no instances), houses of s-b. `ponds` names a category."""

COCO_IMAGES = {"s-a": 1, "s-b": 2}
COCO_CATEGORIES = {"house": 1, "pond": 2, "school": 3}
"""Ids in exports/coco.json."""


def write_coco_export(folder: Path) -> None:
    """Write the part of exports/coco.json that says what ids mean."""
    images = [{"id": number, "file_name": f"scenes/{scene_id}.tif"} for scene_id, number in COCO_IMAGES.items()]
    categories = [{"id": number, "name": name} for name, number in COCO_CATEGORIES.items()]
    (folder / "exports").mkdir()
    (folder / "exports" / "coco.json").write_text(json.dumps({"images": images, "annotations": [], "categories": categories}))


def toy_mask(scene_id: str, *rectangles: tuple[int, int, int, int]) -> np.ndarray:
    """A bool mask of a scene, true in rectangles (first row, end row, first column, end column)."""
    mask = np.zeros(SIZES[scene_id], dtype=bool)
    for row0, row1, col0, col1 in rectangles:
        mask[row0:row1, col0:col1] = True
    return mask


def toy_rle(scene_id: str, *rectangles: tuple[int, int, int, int]) -> dict[str, Any]:
    """The same as a COCO RLE, made by pycocotools alone."""
    coco = pycocotools_mask.encode(np.asfortranarray(toy_mask(scene_id, *rectangles).astype(np.uint8)))
    return {"size": list(SIZES[scene_id]), "counts": coco["counts"].decode()}


def toy_instance_rle(instance_id: str) -> dict[str, Any]:
    """The mask of an instance of the toy release."""
    scene_id, _, rectangle = RECTANGLES[instance_id]
    return toy_rle(scene_id, rectangle)


def write_toy_release(
    folder: Path,
    queries: list[dict[str, Any]] | None = None,
    without_rle: tuple[str, ...] = (),
    rles: dict[str, str] | None = None,
) -> Path:
    """Write the toy release; `without_rle` names instances that come with boxes alone, `rles` gives other masks to some."""
    for name in ("scenes", "masks", "splits", "taxonomy"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"name": "toy", "version": "1", "format_version": 1, "rules": {"eqs_iou": 0.5}}))
    (folder / "taxonomy" / "toy.yaml").write_text(TAXONOMY)
    lines = QUERIES if queries is None else queries
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    split = {"protocol": "scene-disjoint", "assignment": {"train": ["s-a"], "val": [], "test": ["s-b"]}}
    (folder / "splits" / "scene-disjoint.json").write_text(json.dumps(split))
    _write_tables(folder, {**dict.fromkeys(without_rle), **(rles or {})})
    _write_rasters(folder)
    return folder


def _write_tables(folder: Path, rles: dict[str, str | None]) -> None:
    scenes = [
        {
            "scene_id": scene_id,
            "path": f"scenes/{scene_id}.tif",
            "mask_path": f"masks/{scene_id}.tif",
            "height": height,
            "width": width,
            "gsd_m": GSD_M,
            "image_up_deg": 30.0,
        }
        for scene_id, (height, width) in SIZES.items()
    ]
    instances: list[dict[str, Any]] = []
    for instance_id, (scene_id, category, (row0, row1, col0, col1)) in RECTANGLES.items():
        height, width = SIZES[scene_id]
        is_region = category == "road"
        instances.append(
            {
                "instance_id": instance_id,
                "scene_id": scene_id,
                "label": None if is_region else int(instance_id[-1]),
                "category": [category],
                "countable": not is_region,
                "area_px": (row1 - row0) * (col1 - col0),
                "centroid_x_m": ((col0 + col1) / 2 - width / 2) * GSD_M,
                "centroid_y_m": (height / 2 - (row0 + row1) / 2) * GSD_M,
                "hbb_px": None if is_region else [float(v) for v in (col0, row0, col1, row1)],
                "obb_px": None if is_region else [float(v) for v in (col0, row0, col1, row0, col1, row1, col0, row1)],
                "rle": rles[instance_id] if instance_id in rles else toy_instance_rle(instance_id)["counts"],
            }
        )
    relations = {name: pa.array([], pa.string()) for name in ("scene_id", "subject_id", "anchor_id", "relation", "verdict")}
    pq.write_table(pa.Table.from_pylist(scenes), folder / "scenes.parquet")
    pq.write_table(pa.Table.from_pylist(instances), folder / "instances.parquet")
    pq.write_table(pa.table(relations), folder / "relations.parquet")


def _write_rasters(folder: Path) -> None:
    for scene_id, (height, width) in SIZES.items():
        place = {"transform": rasterio.Affine(GSD_M, 0, 500000, 0, -GSD_M, 3000000), "crs": "EPSG:32645", "height": height, "width": width}
        rows, cols = np.mgrid[:height, :width]
        pixels = np.stack([rows * 4, cols * 3, rows + cols]).astype(np.uint8)
        with rasterio.open(
            folder / "scenes" / f"{scene_id}.tif", "w", driver="GTiff", count=3, dtype="uint8", photometric="RGB", **place
        ) as out:
            out.write(pixels)
        labels = np.zeros((height, width), dtype=np.uint16)
        for instance_id, (owner, category, (row0, row1, col0, col1)) in RECTANGLES.items():
            if owner == scene_id and category != "road":
                labels[row0:row1, col0:col1] = int(instance_id[-1])
        with rasterio.open(folder / "masks" / f"{scene_id}.tif", "w", driver="GTiff", count=1, dtype="uint16", **place) as out:
            out.write(labels, 1)


def write_lines(path: Path, *records: dict[str, Any], modalities: tuple[str, ...] = ("masks",), space: str = "pixel") -> Path:
    """Write a submission by hand."""
    header = {"submission": {"name": "toy", "modalities": list(modalities), "space": space}}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *records)))
    return path
