"""STAC items: saved ones, and those that a search of a STAC API found, kept as an item collection.

Source: STAC 1.1 and STAC API item search 1.0. Hrefs come from outside: only http(s) of listed hosts, or files beside a saved
item, are followed. Not here: reading the asset (`storage.cogs`, `storage.rasters`).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import pystac
from pystac.errors import STACError, STACTypeError

from storage.remote import Snapshot, Snapshots, Web
from trigpoint.errors import FetchError, InputError
from trigpoint.imagery.bbox import LonLatBox

MAX_ITEMS_BYTES = 1 << 28
"""Largest saved item collection, bytes."""

UNSPECIFIC_LICENCES = frozenset({"proprietary", "various", "other", ""})
"""Words that a STAC licence field may have and that name no licence."""


class StacAsset(NamedTuple):
    """An asset of an item.

    Attributes:
        item_id: Id of its item.
        href: As found.
        acquired: Day of the item, or of the beginning of its interval; None when it says neither.
        licence: What item or asset say; None when they say nothing or no licence.
    """

    item_id: str
    href: str
    acquired: str | None
    licence: str | None


def read_items(path: Path) -> list[pystac.Item]:
    """Read a saved item or item collection; nothing that it links to is opened.

    Raises:
        InputError: the file is missing, too large or no STAC.
    """
    try:
        if path.stat().st_size > MAX_ITEMS_BYTES:
            raise InputError(f"STAC file {str(path)!r} has more than {MAX_ITEMS_BYTES} bytes; save fewer items")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"STAC file {str(path)!r} cannot be read: {error.strerror}; check the path in the configuration") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"STAC file {str(path)!r} is no JSON: {error}; save it again") from error
    features = document.get("features", [document]) if isinstance(document, dict) else None
    if not isinstance(features, list):
        raise InputError(f"STAC file {str(path)!r} is neither an item nor an item collection; save the answer of a search")
    return [_item(feature, f"STAC file {str(path)!r}") for feature in features]


def _item(document: Any, what: str) -> pystac.Item:
    try:
        return pystac.Item.from_dict(document, preserve_dict=True, migrate=False)
    except (STACError, STACTypeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{what} holds no STAC item ({error!r}); save the item again") from error


def choose_asset(items: Sequence[pystac.Item], item_id: str | None, key: str, what: str) -> StacAsset:
    """Return one asset of one item.

    Raises:
        InputError: there is no such item or asset, or several items and none is named.
    """
    ids = sorted(item.id for item in items)
    chosen = [item for item in items if item_id is None or item.id == item_id]
    if len(chosen) != 1:
        found = f"{len(ids)} items: {', '.join(ids[:12])}{' …' if len(ids) > 12 else ''}" if ids else "no item"
        raise InputError(f"{what} has {found}; expected one; name it by the key 'item' (now {item_id!r})")
    (item,) = chosen
    if key not in item.assets:
        raise InputError(f"{what}: item {item.id!r} has the assets {sorted(item.assets)}, not {key!r}; set the key 'asset'")
    asset = item.assets[key]
    said = {**item.properties, **asset.extra_fields}
    licence = str(said.get("license") or "")
    return StacAsset(
        item_id=item.id,
        href=asset.href,
        acquired=_day(said),
        licence=None if licence.lower() in UNSPECIFIC_LICENCES else licence,
    )


def _day(properties: dict[str, Any]) -> str | None:
    text = properties.get("datetime") or properties.get("start_datetime")
    return str(text)[:10] if text else None


def place_of(asset: StacAsset, base: Path | str, hosts: Sequence[str]) -> Path | str:
    """Return where an asset is: a local file beside a saved item, or a URL of a listed host.

    Args:
        asset: The asset.
        base: The saved item's file, or the URL of the search.
        hosts: Hosts that may be asked, beside that of the search.

    Raises:
        InputError: its href is of another scheme or host, or leads out of the item's folder.
    """
    what = f"asset of STAC item {asset.item_id!r}: its href {asset.href!r}"
    parts = urlsplit(asset.href if isinstance(base, Path) else urljoin(base, asset.href))
    if "${" in asset.href:
        raise InputError(f"{what} asks for a variable of the environment; only the configuration may")
    if parts.scheme in ("http", "https"):
        allowed = {*hosts, *({urlsplit(base).netloc} if isinstance(base, str) else set[str]())}
        if parts.netloc not in allowed and parts.hostname not in allowed:
            raise InputError(f"{what} is on host {parts.netloc!r}, which is not one of {sorted(allowed)}; list it in the key 'hosts'")
        if "@" in parts.netloc:
            raise InputError(f"{what} holds a user name; only plain URLs are followed")
        return parts.geturl()
    if parts.scheme or not isinstance(base, Path):
        raise InputError(f"{what} is no http(s) URL; download the asset and give its path")
    folder = base.resolve().parent
    path = (folder / asset.href).resolve()
    if not path.is_relative_to(folder):
        raise InputError(f"{what} leads out of the folder of the item; put the file beside it")
    return path


def search_body(collections: Sequence[str], datetime: str | None, bbox: LonLatBox | None, item: str | None) -> dict[str, Any]:
    """Write a search; a bbox over the antimeridian stays as it is, as the standard has it."""
    body: dict[str, Any] = {}
    if collections:
        body["collections"] = list(collections)
    if datetime is not None:
        body["datetime"] = datetime
    if bbox is not None:
        body["bbox"] = list(bbox)
    if item is not None:
        body["ids"] = [item]
    return body


def request_of(url: str, body: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return what identifies a search."""
    return {"kind": "stac", "url": url, "body": body, "limit": limit}


def search_items(web: Web, snapshots: Snapshots, url: str, body: dict[str, Any], limit: int) -> Snapshot:
    """Return the items that a search finds, at most `limit`, as an item collection sorted by id.

    Pages are followed on the same host.

    Raises:
        FetchError: the server fails, what it says is no STAC, or a page leads elsewhere.
    """
    request = request_of(url, body, limit)
    known = snapshots.find(request)
    if known is not None:
        return known
    features: list[dict[str, Any]] = []
    following: dict[str, Any] | None = {"href": url, "method": "POST", "body": {**body, "limit": min(limit, 100)}}
    n_pages = 0
    while following is not None and len(features) < limit:
        n_pages += 1
        if n_pages > limit:
            raise FetchError(f"STAC search {url}: {n_pages - 1} pages and no end; ask for fewer items")
        page = _page(web, url, following)
        features += page["features"]
        sent = following.get("body")
        following = _next(page)
        if following is not None and following.get("merge") and isinstance(sent, dict):
            following["body"] = {**sent, **following.get("body", {})}
    items = sorted(features[:limit], key=lambda feature: (str(feature.get("collection")), str(feature.get("id"))))
    for feature in items:
        try:
            _item(feature, f"the answer of {url}")
        except InputError as error:
            raise FetchError(str(error)) from error
    document = {"type": "FeatureCollection", "features": items}
    return snapshots.save(request, json.dumps(document, ensure_ascii=False, indent=1).encode(), ".json", {"n_items": len(items)})


def _page(web: Web, url: str, link: dict[str, Any]) -> dict[str, Any]:
    href = urljoin(url, str(link.get("href", "")))
    is_ours = href == url or "${" not in href
    if not is_ours or urlsplit(href).netloc != urlsplit(url).netloc or urlsplit(href).scheme not in ("http", "https"):
        raise FetchError(f"STAC search {url}: its next page {href!r} is on another host; give that host's search")
    is_post = str(link.get("method", "GET")).upper() == "POST"
    answer = web.post(href, document=link.get("body") or {}) if is_post else web.get(href)
    try:
        page = json.loads(answer.content)
        if isinstance(page["features"], list):
            return page
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise FetchError(f"STAC search {url}: the answer is no item collection: {answer.content[:120]!r}; give the search endpoint")


def _next(page: dict[str, Any]) -> dict[str, Any] | None:
    links = page.get("links")
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("rel") == "next":
            return dict(link)
    return None
