"""A static STAC catalogue of the scenes, so that any STAC client finds them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from trigpoint.imagery.bbox import box_of
from trigpoint.release.content import ReleaseContent, write_json


def write_stac(folder: Path, content: ReleaseContent) -> None:
    """Write stac/catalog.json and one item per scene with relative links.

    A scene without a date of acquisition has `datetime` null, with the start and end that the STAC specification then asks for
    given as the whole period of spaceborne and airborne colour imagery; the property `trigpoint:acquired` is null.

    The bbox of a footprint over the antimeridian has its west beyond its east.

    Source: STAC specification 1.1.0 by pystac; RFC 7946, section 5.2.
    """
    import pystac

    catalog = pystac.Catalog(id=content.identity["name"], description=content.identity["description"] or content.identity["name"])
    for row in content.scenes.to_pylist():
        footprint = shapely.from_wkb(row["geometry"])
        start, end = _period(row["acquired"])
        item = pystac.Item(
            id=row["scene_id"],
            geometry=shapely.geometry.mapping(footprint),
            bbox=list(box_of(np.array([footprint], dtype=object))),
            datetime=start if start == end else None,
            start_datetime=None if start == end else start,
            end_datetime=None if start == end else end,
            properties={
                "gsd": row["gsd_m"],
                "license": row["licence"],
                "trigpoint:acquired": row["acquired"],
                "trigpoint:attribution": row["attribution"],
                "trigpoint:crs": row["crs"],
            },
        )
        item.add_asset("image", pystac.Asset(f"../{row['path']}", media_type=pystac.MediaType.GEOTIFF, roles=["data"]))
        item.add_asset("masks", pystac.Asset(f"../{row['mask_path']}", media_type=pystac.MediaType.GEOTIFF, roles=["labels"]))
        if row["region_path"]:
            item.add_asset("regions", pystac.Asset(f"../{row['region_path']}", media_type=pystac.MediaType.GEOTIFF, roles=["labels"]))
        catalog.add_item(item)
    _save(catalog, folder / "stac")


def _period(acquired: str | None) -> tuple[datetime, datetime]:
    if acquired is None:
        return datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    parts = [int(part) for part in acquired.split("-")]
    if len(parts) == 3:
        day = datetime(parts[0], parts[1], parts[2], tzinfo=UTC)
        return day, day
    if len(parts) == 2:
        year, month = parts
        return datetime(year, month, 1, tzinfo=UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return datetime(parts[0], 1, 1, tzinfo=UTC), datetime(parts[0] + 1, 1, 1, tzinfo=UTC)


def _save(catalog: Any, folder: Path) -> None:
    """Write the catalogue flat: catalog.json and <scene_id>.json side by side, links relative."""
    items = sorted(catalog.get_items(), key=lambda item: item.id)
    document = catalog.to_dict(include_self_link=False)
    document["links"] = [{"rel": "root", "href": "./catalog.json", "type": "application/json"}]
    document["links"] += [{"rel": "item", "href": f"./{item.id}.json", "type": "application/geo+json"} for item in items]
    write_json(folder / "catalog.json", document)
    for item in items:
        made = item.to_dict(include_self_link=False)
        made["links"] = [
            {"rel": "root", "href": "./catalog.json", "type": "application/json"},
            {"rel": "parent", "href": "./catalog.json", "type": "application/json"},
        ]
        write_json(folder / f"{item.id}.json", made)
