"""Versions of the libraries that may change a number or a byte of a release."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

COMPUTING_LIBRARIES = ("numpy", "scipy", "shapely", "pyproj", "rasterio", "pyarrow", "pycocotools", "pillow", "matplotlib")
"""Distributions whose version a manifest records."""


def library_versions(names: Iterable[str] = COMPUTING_LIBRARIES) -> dict[str, str]:
    """Return installed versions by name; distributions that are not installed are left out."""
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
