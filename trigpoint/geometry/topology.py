"""Exact topology with a declared tolerance, for outlines that come from elsewhere.

The scene graph's verdicts (`trigpoint.scene_graph`) are coarser on purpose; this is the library's answer for exact geometry.
"""

from typing import Literal

import shapely
from shapely.geometry.base import BaseGeometry

Topology = Literal["disjoint", "touches", "overlaps", "within", "contains", "equals"]


def topological_relation(a: BaseGeometry, b: BaseGeometry, tolerance_m: float) -> Topology:
    """Name how `b` lies to `a`, taking outlines closer than `tolerance_m` as the same line.

    Both are moved to a local origin first, so that the tolerance holds at map coordinates of 5e6.

    Args:
        a: Polygon in metres.
        b: Polygon in the same frame.
        tolerance_m: Outlines within this distance count as touching; overlaps thinner than it count as none.

    >>> X = 500000.0
    >>> topological_relation(shapely.box(X, 0, X + 10, 10), shapely.box(X + 10 - 1e-8, 0, X + 20, 10), 1e-6)
    'touches'
    """
    x, y = shapely.get_coordinates(a)[0]
    a, b = (shapely.transform(g, lambda p: p - (x, y)) for g in (a, b))
    if shapely.distance(a, b) > tolerance_m:
        return "disjoint"
    a_in_b = shapely.covers(b.buffer(tolerance_m), a)
    b_in_a = shapely.covers(a.buffer(tolerance_m), b)
    if a_in_b and b_in_a:
        return "equals"
    shared = shapely.intersection(a, b)
    if shared.is_empty or shapely.buffer(shared, -tolerance_m).is_empty:
        return "touches"
    if b_in_a:
        return "within"
    return "contains" if a_in_b else "overlaps"
