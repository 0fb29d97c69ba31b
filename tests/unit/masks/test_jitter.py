"""Jittered masks against a second implementation that moves pixels one by one."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trigpoint.masks.jitter import Nudge, jitter_masks, nudge_of, windows_of

BoolArray = NDArray[np.bool_]


def naive_nudge(mask: BoolArray, nudge: Nudge, valid: BoolArray) -> BoolArray:
    height, width = mask.shape

    def at(row: int, col: int) -> bool:
        """Beyond the border a mask goes on as it is at the border, for shrinking."""
        return bool(mask[min(max(row, 0), height - 1), min(max(col, 0), width - 1)])

    grown = mask.copy()
    for row in range(height):
        for col in range(width):
            cross = [(row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)]
            if nudge.growth == 1:
                grown[row, col] = mask[row, col] or any(at(r, c) for r, c in cross if 0 <= r < height and 0 <= c < width)
            elif nudge.growth == -1:
                grown[row, col] = mask[row, col] and all(at(r, c) for r, c in cross)
    out = np.zeros_like(mask)
    for row, col in np.argwhere(grown):
        r, c = row + nudge.d_row, col + nudge.d_col
        if 0 <= r < height and 0 <= c < width and valid[r, c]:
            out[r, c] = True
    return out if out.any() else mask


def naive_scene(
    labels: NDArray[np.uint16], areas: dict[int, int], ids: dict[int, str], nudges: dict[int, Nudge], valid: BoolArray
) -> NDArray[np.uint16]:
    painted = np.zeros_like(labels)
    order = sorted(sorted(areas, key=lambda label: ids[label], reverse=True), key=lambda label: -areas[label])
    for label in order:
        painted[naive_nudge(labels == label, nudges[label], valid)] = label
    while lost := [label for label in areas if not (painted == label).any()]:
        for label in lost:
            painted[labels == label] = label
    return painted


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 20))
def test_a_scene_is_jittered_as_pixel_by_pixel(seed: int, jitter: int) -> None:
    random = np.random.default_rng(seed)
    labels = np.kron(random.integers(0, 5, (4, 5)), np.ones((4, 4), int)).astype(np.uint16)
    labels[random.random(labels.shape) < 0.2] = 0
    valid = random.random(labels.shape) < 0.95
    labels[~valid] = 0
    present = [int(v) for v in np.unique(labels) if v]
    relabel = np.zeros(6, dtype=np.uint16)
    relabel[present] = np.arange(1, len(present) + 1)
    labels = relabel[labels]
    n = len(present)
    ids = [f"i-{random.integers(100):02d}{k}" for k in range(n)]
    plane = np.zeros(labels.shape, dtype=bool)
    plane[3:9, 0:7] = True
    nudges = [nudge_of(seed, "s-1", jitter, name) for name in (*ids, "i-road")]
    areas = np.array([np.count_nonzero(labels == k + 1) for k in range(n)] + [plane.sum()], dtype=np.float64)

    nodes = np.array([*range(1, n + 1), 0])
    windows = windows_of(labels, nodes, {n: plane})
    made, planes = jitter_masks(labels, nodes, {n: plane}, windows, areas, [*ids, "i-road"], nudges, valid)

    expected = naive_scene(
        labels,
        {k + 1: int(areas[k]) for k in range(n)},
        {k + 1: ids[k] for k in range(n)},
        {k + 1: nudges[k] for k in range(n)},
        valid,
    )
    assert np.array_equal(made, expected)
    assert np.array_equal(planes[n], naive_nudge(plane, nudges[n], valid))


@pytest.mark.parametrize("jitter", range(3))
def test_what_happens_to_an_instance_is_read_from_the_digest(jitter: int) -> None:
    digest = hashlib.sha256(f"7/s-1/{jitter}/i-9".encode()).digest()

    assert nudge_of(7, "s-1", jitter, "i-9") == tuple(b % 3 - 1 for b in digest[:3])


def test_tiny_neighbours_never_lose_their_last_pixel() -> None:
    labels = np.zeros((12, 12), dtype=np.uint16)
    labels[2:10, 2:10] = np.arange(1, 65).reshape(8, 8)  # one pixel each: what is painted again covers others
    label_of_node, ids = np.arange(1, 65), [f"i-{k:02d}" for k in range(64)]
    windows, valid = windows_of(labels, label_of_node, {}), np.ones(labels.shape, dtype=bool)

    for jitter in range(10):
        nudges = [nudge_of(1, "s-1", jitter, identity) for identity in ids]
        painted, _ = jitter_masks(labels, label_of_node, {}, windows, np.ones(64), ids, nudges, valid)
        assert set(range(1, 65)) <= set(np.unique(painted).tolist())
