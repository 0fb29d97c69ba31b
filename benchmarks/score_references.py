"""Time the scorer against decoding everything, and print the ratio.

    python benchmarks/score_references.py [--systems 15] [--queries 1881] [--side 2048] [--peer-queries 40]

A made release of the size of GeoRefer-Bench's test part: 1,881 queries on scenes of 2048 × 2048 pixels, answers of one to six
rectangles and ellipses, and per system predicted masks shifted by a few pixels, the later systems with more and more mistakes. All
systems are scored and compared by trigpoint (reading, checking, matching, naming mistakes, references, bootstrap). The peer decodes
every mask to an array with pycocotools and compares pixels with numpy, as evaluation scripts do; it would take minutes, so it runs on
a part of the queries of one system, which the print says.
Both give the same EQS and maIoU on that part, or the script stops.
"""

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pycocotools import mask as pycocotools_mask
from scipy.optimize import linear_sum_assignment

from trigpoint.masks.rle import encode_mask
from trigpoint.release.reader import Release
from trigpoint.scoring.comparison import Comparison
from trigpoint.scoring.metrics import compute_scores, outcome_of
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.scorecard import score_files

INSTANCES_PER_SCENE = 36
QUERIES_PER_SCENE = 30
SHIFTS = 4


def blob(side: int, row: int, col: int, height: int, width: int, is_round: bool) -> np.ndarray:
    """Draw one instance: a rectangle or an ellipse."""
    mask = np.zeros((side, side), dtype=bool)
    if is_round:
        y, x = np.mgrid[:height, :width]
        inside = ((y - height / 2 + 0.5) / (height / 2)) ** 2 + ((x - width / 2 + 0.5) / (width / 2)) ** 2 <= 1
        mask[row : row + height, col : col + width] = inside
    else:
        mask[row : row + height, col : col + width] = True
    return mask


def make_release(folder: Path, n_queries: int, side: int) -> dict[str, list[str]]:
    """Write the release; returns instance id → counts shifted by 0, 3, 6 and 9 pixels."""
    random = np.random.default_rng(1)
    n_scenes = -(-n_queries // QUERIES_PER_SCENE)
    step = side // 6
    scenes: list[dict[str, Any]] = []
    instances: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    shifted: dict[str, list[str]] = {}
    for s in range(n_scenes):
        scene_id = f"s-{s:03}"
        scenes.append(
            {"scene_id": scene_id, "path": "", "mask_path": None, "height": side, "width": side, "gsd_m": 0.3, "image_up_deg": 0.0}
        )
        for k in range(INSTANCES_PER_SCENE):
            row, col = (k // 6) * step + int(random.integers(10, step // 4)), (k % 6) * step + int(random.integers(10, step // 4))
            height, width = (int(v) for v in random.integers(step // 8, step // 2, 2))
            instance_id = f"i-{s:03}-{k:02}"
            masks = [blob(side, row + 3 * shift, col, height, width, k % 2 == 0) for shift in range(SHIFTS)]
            shifted[instance_id] = [encode_mask(mask) for mask in masks]
            instances.append(
                {
                    "instance_id": instance_id,
                    "scene_id": scene_id,
                    "label": k + 1,
                    "category": ["building"],
                    "countable": True,
                    "area_px": int(masks[0].sum()),
                    "centroid_x_m": float(col),
                    "centroid_y_m": float(row),
                    "hbb_px": [float(v) for v in (col, row, col + width, row + height)],
                    "obb_px": None,
                    "rle": shifted[instance_id][0],
                }
            )
    for q in range(n_queries):
        s = q // QUERIES_PER_SCENE
        n = int(random.integers(0, 7))
        chosen = sorted(f"i-{s:03}-{k:02}" for k in random.permutation(INSTANCES_PER_SCENE)[:n])
        queries.append(
            {
                "query_id": f"q-{q:05}", "scene_id": f"s-{s:03}", "form": "program", "level": 1 + q % 5, "answer_ids": chosen,
                "answerable": bool(chosen), "kind": "answerable" if chosen else "relation_unsatisfied",
                "polarity": "positive" if chosen else "negative", "sentences": ["made"], "category": ["building"], "difficulty": "easy",
            }
        )  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps({"name": "made", "version": "1", "format_version": 1, "rules": {}}))
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in queries))
    pq.write_table(pa.Table.from_pylist(scenes), folder / "scenes.parquet")
    pq.write_table(pa.Table.from_pylist(instances), folder / "instances.parquet")
    return shifted


def write_system(path: Path, release: Release, shifted: dict[str, list[str]], side: int, seed: int) -> None:
    """Write a system that finds answers a few pixels off; the higher the seed, the more often the whole category, another or none."""
    random = np.random.default_rng(seed)
    everything: dict[str, list[str]] = {s: [row.instance_id for row in rows] for s, rows in release.instances_of_scene.items()}
    with path.open("w") as out:
        out.write(f"{json.dumps({'submission': {'name': path.stem, 'modalities': ['masks'], 'space': 'pixel'}})}\n")
        for query in release.queries:
            ids = [i for i in query.answer_ids if random.random() > 0.05]
            if random.random() < 0.05 * seed:
                others = everything[query.scene_id]
                ids = [others, [str(i) for i in random.choice(others, len(ids), replace=False)], []][int(random.integers(3))]
            masks = [{"size": [side, side], "counts": shifted[i][int(random.integers(SHIFTS))]} for i in ids]
            out.write(f"{json.dumps({'query_id': query.query_id, 'masks': masks})}\n")


def peer(release: Release, path: Path, query_ids: list[str]) -> tuple[float, float]:
    """Decode everything, compare pixels; returns (EQS, maIoU)."""
    records = {row["query_id"]: row["masks"] for row in map(json.loads, path.read_text().splitlines()[1:])}
    counts = dict(zip(release.instances["instance_id"].to_pylist(), release.instances["rle"].to_pylist(), strict=True))
    exact: list[bool] = []
    overlaps: list[float] = []
    for query_id in query_ids:
        query = release.query(query_id)
        size = list(release.scene(query.scene_id).size)
        answers = [pycocotools_mask.decode({"size": size, "counts": counts[i]}).astype(bool) for i in query.answer_ids]
        masks = [pycocotools_mask.decode(rle).astype(bool) for rle in records[query_id]]
        matrix = np.array([[(p & a).sum() / (p | a).sum() for a in answers] for p in masks]).reshape(len(masks), len(answers))
        rows, cols = linear_sum_assignment(matrix, maximize=True)
        exact.append(len(masks) == len(answers) and bool((matrix[rows, cols] >= 0.5).all()))
        if answers:
            both = np.zeros(size, dtype=bool) if not masks else np.logical_or.reduce(masks)
            answer = np.logical_or.reduce(answers)
            overlaps.append((both & answer).sum() / (both | answer).sum())
    return float(np.mean(exact)), float(np.mean(overlaps))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--systems", type=int, default=15)
    parser.add_argument("--queries", type=int, default=1881)
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--peer-queries", type=int, default=40)
    options = parser.parse_args()
    # pycocotools' decode triggers a deprecation of numpy's on every call; it is the peer's, not ours
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shifted = make_release(folder, options.queries, options.side)
        release = Release.open(folder)
        files = [folder / f"system-{k:02}.jsonl" for k in range(options.systems)]
        for k, file in enumerate(files):
            write_system(file, release, shifted, options.side, k)

        start = time.process_time()
        compared = score_files(folder, files)
        ours = time.process_time() - start
        if not isinstance(compared, Comparison):
            raise SystemExit("give --systems 2 or more")
        release = Release.open(folder)

        part = [query.query_id for query in release.queries[:: max(1, options.queries // options.peer_queries)]][: options.peer_queries]
        start = time.process_time()
        found = peer(release, files[0], part)
        theirs = time.process_time() - start

        predictions = read_predictions(files[0], release)
        queries = [release.query(query_id) for query_id in part]
        outcomes = {q.query_id: outcome_of(release, q, predictions.records.get((q.query_id, 0)), ("masks",), set()) for q in queries}
        values = compute_scores(queries, outcomes, ("masks",)).values
        if not np.allclose((values["eqs"], values["ma_iou"]), found, rtol=0, atol=1e-12):
            raise SystemExit(f"the peer found EQS and maIoU {found}, trigpoint {values['eqs']}, {values['ma_iou']}")
    total = options.systems * options.queries
    scaled = theirs * total / len(part)
    print(f"trigpoint: {ours:.1f} CPU s for {options.systems} systems × {options.queries} queries on {options.side}² masks")
    print(f"decode all: {theirs:.1f} CPU s for {len(part)} queries of one system, which scales to {scaled:.0f} s ({scaled / ours:.0f} ×)")
    worst, best = compared.standings[-1].eqs, compared.standings[0].eqs
    print(f"{compared.n_separated} of {len(compared.pairs)} pairs separated, EQS {worst:.3f} to {best:.3f}")
    print(f"same EQS {values['eqs']:.4f} and maIoU {values['ma_iou']:.4f} on these {len(part)}")


if __name__ == "__main__":
    main()
