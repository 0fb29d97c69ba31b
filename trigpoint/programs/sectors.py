"""How much of a scene lies in a direction from an instance: what makes an empty answer to "north of" more than trivial."""

from functools import cache
from typing import Protocol

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.geometry.frames import SceneFrame, azimuth_deg

SECTOR_GRID = 64
"""Points per side of the grid that the valid area is sampled with."""


class SectorShare(Protocol):
    """Measures sectors of one scene."""

    def __call__(self, anchor: int, centre_deg: float, half_angle_deg: float) -> float:
        """Return the share of the scene's valid area in a sector of an anchor, [0, 1].

        Args:
            anchor: Position of the anchor.
            centre_deg: True azimuth of the sector's middle.
            half_angle_deg: Half of its width.
        """
        ...


def sector_shares(
    countable: NDArray[np.bool_],
    centroid_m: NDArray[np.float64],
    outlines: NDArray[np.object_],
    valid: NDArray[np.bool_],
    frame: SceneFrame,
) -> SectorShare:
    """Return the measure for one scene; it samples the valid area on a grid and remembers the azimuths of an anchor.

    Args:
        countable: (n,) bool; rays start at the centroid of countable anchors, at a region's nearest point.
        centroid_m: (n, 2) local ground metres.
        outlines: (n,) measuring outlines, local ground metres.
        valid: (height, width) bool.
        frame: The scene's frame.
    """
    height, width = valid.shape
    cols = (np.arange(SECTOR_GRID) + 0.5) * width / SECTOR_GRID
    rows = (np.arange(SECTOR_GRID) + 0.5) * height / SECTOR_GRID
    grid = np.array([(x, y) for y in rows for x in cols])
    grid = grid[valid[grid[:, 1].astype(int), grid[:, 0].astype(int)]]
    ground = frame.ground_from_image(grid)
    convergence = frame.convergence_at(centroid_m)

    @cache
    def azimuths(anchor: int) -> NDArray[np.float64]:
        if countable[anchor]:
            rays = ground - centroid_m[anchor]
        else:
            lines = shapely.get_coordinates(shapely.shortest_line(outlines[anchor], shapely.points(ground))).reshape(-1, 2, 2)
            rays = lines[:, 1] - lines[:, 0]
        return (azimuth_deg(rays) + convergence[anchor]) % 360.0

    def share(anchor: int, centre_deg: float, half_angle_deg: float) -> float:
        off = np.abs((azimuths(anchor) - centre_deg + 180.0) % 360.0 - 180.0)
        return float(np.count_nonzero(off <= half_angle_deg) / max(1, len(ground)))

    return share
