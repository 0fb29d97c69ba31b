"""Minimum-area rectangles: ours against `shapely.oriented_envelope` on 26,000 polygons at map coordinates, in one run.

Prints the ratio of times (median of five, alternating) and how far each is from the brute-force optimum.

    python benchmarks/obb.py
"""

import statistics
import time

import numpy as np
import shapely

from trigpoint.boxes.calipers import min_area_rectangles

N_POLYGONS = 26_000
SAMPLE = 2_000
"""Polygons whose optimum is found by brute force."""


def make_polygons(seed: int = 1) -> np.ndarray:
    """Star-shaped polygons of 20 to 200 vertices at UTM coordinates."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(N_POLYGONS):
        n = random.integers(20, 200)
        angle, radius = np.sort(random.random(n)) * 2 * np.pi, 10 + 3 * random.random(n)
        made.append(shapely.Polygon(np.column_stack([2 * radius * np.cos(angle) + 5e5, radius * np.sin(angle) + 5e6])))
    return np.array(made)


def brute_force_area(polygon: shapely.Polygon) -> float:
    """Smallest rectangle over all hull edges, at a local origin."""
    hull = np.array(shapely.convex_hull(polygon).exterior.coords)[:-1]
    hull -= hull[0]
    edges = np.roll(hull, -1, axis=0) - hull
    u = edges / np.hypot(*edges.T)[:, None]
    along, across = u @ hull.T, np.column_stack([-u[:, 1], u[:, 0]]) @ hull.T
    return float((np.ptp(along, axis=1) * np.ptp(across, axis=1)).min())


def main() -> None:
    """Run and print."""
    polygons = make_polygons()
    ours, peer = [], []
    for _ in range(5):
        began = time.perf_counter()
        rectangles = min_area_rectangles(polygons)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        envelopes = shapely.oriented_envelope(polygons)
        peer.append(time.perf_counter() - began)
    best = np.array([brute_force_area(polygon) for polygon in polygons[:SAMPLE]])
    our_error = np.abs(rectangles.length[:SAMPLE] * rectangles.width[:SAMPLE] / best - 1).max()
    peer_error = np.abs(shapely.area(envelopes[:SAMPLE]) / best - 1).max()
    print(f"ours {statistics.median(ours):.3f} s, shapely {statistics.median(peer):.3f} s for {N_POLYGONS} polygons")
    print(f"ratio ours / shapely: {statistics.median(ours) / statistics.median(peer):.2f}")
    print(f"largest relative error of the area over {SAMPLE} polygons: ours {our_error:.1e}, shapely {peer_error:.1e}")


if __name__ == "__main__":
    main()
