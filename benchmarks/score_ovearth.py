"""Time the scoring of a benchmark of OVEarth-Bench's size against decoding everything, and print the ratio.

    python benchmarks/score_ovearth.py [--submissions 49] [--side 1385] [--peer-queries 60]

A made release: 520 images of 1,385² pixels (the paper's median width), 590 annotations of 172 categories with one to forty instances, 1,067
positive and 2,168 negative vocabulary queries. Outlines are ragged, as those of models are, so that masks have thousands of runs. A
submission has a record for every query: instances moved by a few pixels, missed or taken from elsewhere more often the worse it is, and
something predicted for part of the negative queries. All submissions are read, checked, scored and analysed (`trigpoint analyse`). The peer
decodes every mask with pycocotools and compares pixels with numpy, the plain way; it runs on a part of the queries, which the print says.
Both give the same mean IoU and presence on that part, or the script stops.
"""

import argparse
import json
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pycocotools import mask as pycocotools_mask

from trigpoint.analysis.analyse import analyse
from trigpoint.analysis.material import from_predictions
from trigpoint.masks.rle import encode_mask
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import outcomes_of, prepare_ground

IMAGES, ANNOTATIONS, CATEGORIES, POSITIVE, NEGATIVE = 520, 590, 172, 1067, 2168
"""Sizes of OVEarth-Bench (arXiv 2607.27278, appendix B)."""

MOST_INSTANCES = 40
VARIANTS = 6
"""Masks per instance that submissions choose from: the true one, and five moved and redrawn."""


def blob(random: np.random.Generator, side: int, row: int, col: int, height: int, width: int) -> np.ndarray:
    """Draw an ellipse with a ragged outline."""
    mask = np.zeros((side, side), dtype=bool)
    y, x = np.mgrid[:height, :width]
    distance = np.hypot((y - height / 2 + 0.5) / (height / 2), (x - width / 2 + 0.5) / (width / 2))
    inside = distance + random.normal(0, 0.04, distance.shape) <= 1
    inside[height // 2, width // 2] = True
    row, col = max(0, min(row, side - height)), max(0, min(col, side - width))
    mask[row : row + height, col : col + width] = inside
    return mask


def make_release(folder: Path, side: int) -> dict[str, list[str]]:
    """Write the release; returns instance id → counts of its variants."""
    random = np.random.default_rng(5)
    scenes: list[dict[str, Any]] = [
        {"scene_id": f"s-{s:03}", "path": "", "mask_path": None, "height": side, "width": side, "gsd_m": 0.3, "image_up_deg": 0.0}
        for s in range(IMAGES)
    ]
    instances: list[dict[str, Any]] = []
    annotations: list[tuple[str, str, str, list[str]]] = []
    variants: dict[str, list[str]] = {}
    for a in range(ANNOTATIONS):
        scene, category = a % IMAGES, f"category_{a % CATEGORIES:03}"
        n = min(MOST_INSTANCES, 1 + int(random.pareto(0.8)))
        ids = [f"i-{a:03}-{k:02}" for k in range(n)]
        for k, instance_id in enumerate(ids):
            largest = side // 2 if n == 1 else side // 12
            height, width = (int(v) for v in random.integers(max(8, largest // 4), largest, 2))
            row, col = (int(v) for v in random.integers(0, side - largest, 2))
            masks = [blob(random, side, row + 4 * shift, col + 2 * shift, height, width) for shift in range(VARIANTS)]
            variants[instance_id] = [encode_mask(mask) for mask in masks]
            rows, cols = (np.flatnonzero(masks[0].any(axis=axis)) for axis in (1, 0))
            box = [float(v) for v in (cols[0], rows[0], cols[-1] + 1, rows[-1] + 1)]
            instances.append(
                {
                    "instance_id": instance_id, "scene_id": f"s-{scene:03}", "label": k + 1, "category": [category], "countable": True,
                    "area_px": int(masks[0].sum()), "centroid_x_m": float(col), "centroid_y_m": float(row), "hbb_px": box, "obb_px": None,
                    "rle": variants[instance_id][0],
                }
            )  # fmt: skip
        annotations.append((f"a-{a:03}", f"s-{scene:03}", category, ids))
    queries = [
        query(number, *annotations[number % ANNOTATIONS], polarity)
        for polarity, total in (("positive", POSITIVE), ("negative", NEGATIVE))
        for number in range(total)
    ]
    (folder / "manifest.json").write_text(json.dumps({"name": "made", "version": "1", "format_version": 1, "rules": {}}))
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in queries))
    pq.write_table(pa.Table.from_pylist(scenes), folder / "scenes.parquet")
    pq.write_table(pa.Table.from_pylist(instances), folder / "instances.parquet")
    return variants


def query(number: int, annotation_id: str, scene_id: str, category: str, ids: list[str], polarity: str) -> dict[str, Any]:
    """Make one vocabulary query of an annotation."""
    is_positive = polarity == "positive"
    return {
        "query_id": f"q-{polarity}-{number:04}", "scene_id": scene_id, "form": "vocabulary",
        "answer_ids": sorted(ids) if is_positive else [], "answerable": is_positive,
        "kind": "answerable" if is_positive else "concept_absent", "polarity": polarity, "sentences": [f"{category} {number}"],
        "category": [category], "annotation_id": annotation_id,
    }  # fmt: skip


def write_submission(path: Path, release: Release, variants: dict[str, list[str]], side: int, rank: float) -> None:
    """Write a submission; `rank` from 0 (good) to 1 (bad)."""
    random = np.random.default_rng(int(1000 * rank))
    names = list(variants)
    with path.open("w") as out:
        out.write(f"{json.dumps({'submission': {'name': path.stem, 'modalities': ['masks'], 'space': 'pixel'}})}\n")
        for asked in release.queries:
            ids = [i for i in asked.answer_ids if random.random() > 0.1 + 0.8 * rank]
            if random.random() < (0.3 if asked.answerable else 0.1 + 0.7 * rank):
                ids.append(names[int(random.integers(len(names)))])
            masks = [{"size": [side, side], "counts": variants[i][int(random.integers(VARIANTS))]} for i in ids]
            out.write(f"{json.dumps({'query_id': asked.query_id, 'masks': masks})}\n")


def peer(release: Release, path: Path, query_ids: set[str]) -> tuple[list[float], list[bool]]:
    """Decode everything, compare pixels; returns IoU of positive queries, and whether something is predicted, in query order."""
    counts = dict(zip(release.instances["instance_id"].to_pylist(), release.instances["rle"].to_pylist(), strict=True))
    overlaps: list[float] = []
    is_present: list[bool] = []
    for row in map(json.loads, path.read_text().splitlines()[1:]):
        if row["query_id"] not in query_ids:
            continue
        asked = release.query(row["query_id"])
        size = list(release.scene(asked.scene_id).size)
        predicted = np.zeros(size, dtype=bool)
        for rle in row["masks"]:
            predicted |= pycocotools_mask.decode(rle).astype(bool)
        is_present.append(bool(predicted.any()))
        if asked.answerable:
            answer = np.zeros(size, dtype=bool)
            for instance_id in asked.answer_ids:
                answer |= pycocotools_mask.decode({"size": size, "counts": counts[instance_id]}).astype(bool)
            overlaps.append((predicted & answer).sum() / (predicted | answer).sum())
    return overlaps, is_present


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--submissions", type=int, default=49)
    parser.add_argument("--side", type=int, default=1385)
    parser.add_argument("--peer-queries", type=int, default=60)
    options = parser.parse_args()
    # pycocotools' decode triggers a deprecation of numpy's on every call; it is the peer's, not ours
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variants = make_release(folder, options.side)
        release = Release.open(folder)
        files = [folder / f"model-{k:02}.jsonl" for k in range(options.submissions)]
        for k, file in enumerate(files):
            write_submission(file, release, variants, options.side, k / max(1, options.submissions - 1))
        n_bytes = sum(file.stat().st_size for file in files)

        start = time.process_time()
        material = from_predictions(folder, files)
        scored = time.process_time() - start
        analyse(material)
        analysed = time.process_time() - start - scored

        ground = prepare_ground(Release.open(folder))
        chosen = ground.queries[:: max(1, len(ground.queries) // options.peer_queries)][: options.peer_queries]
        start = time.process_time()
        overlaps, is_present = peer(release, files[0], {asked.query_id for asked in chosen})
        theirs = time.process_time() - start
        outcomes, _ = outcomes_of(ground, read_predictions(files[0], ground.release))
        ours = [outcomes[asked.query_id] for asked in chosen]
        same_iou = np.allclose([o.overlap.iou for o in ours if o.overlap is not None], overlaps, rtol=0, atol=1e-12)
        if not same_iou or [not o.is_empty for o in ours] != is_present:
            raise SystemExit("the peer found other overlaps or another presence than trigpoint")

    total = options.submissions * len(release.queries)
    scaled = theirs * total / len(chosen)
    q = [row["Q"] for row in material.scores["vocabulary"].values()]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{options.submissions} submissions of {POSITIVE} + {NEGATIVE} queries, {options.side}² pixels, {n_bytes / 1e6:.0f} MB")
    print(f"trigpoint: {scored:.1f} CPU s to read, check and score, {analysed:.1f} s for the analyses; peak memory {memory:.1f} GB")
    print(f"decode all: {theirs:.2f} CPU s for {len(chosen)} queries of one submission, scales to {scaled:.0f} s ({scaled / scored:.0f} ×)")
    print(f"same IoU and presence on these {len(chosen)}; mean IoU of the submissions {min(q):.1f} to {max(q):.1f} %")


if __name__ == "__main__":
    main()
