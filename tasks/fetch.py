"""collect, before it: the files of a source. What is on the web is fetched once and kept as a snapshot.

Only the process that builds asks the web, source after source, and only for what no snapshot answers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.cogs import fetch_cog
from storage.cogs import request_of as cog_request
from storage.overpass import ask_overpass, query_of, request_of
from storage.remote import Manners, Snapshot, Snapshots, Web, expect_digest, shown
from storage.stac import choose_asset, place_of, read_items, search_body, search_items
from storage.stac import request_of as stac_request
from storage.tiles import fetch_tiles, tile_range
from storage.tiles import request_of as tiles_request
from storage.vrt import put_together
from storage.vrt import request_of as vrt_request
from tasks.workspace import Workspace
from trigpoint.categories import parse_tag_expression
from trigpoint.config import ImageryConfig, OverpassConfig, PoiConfig, SourceConfig, StacConfig
from trigpoint.errors import FetchError, InputError, TrigpointError
from trigpoint.identity import digest_json
from trigpoint.records.base import Record


class SourceFile(Record):
    """A file that a source is read from.

    Attributes:
        path: Local; in the folder of snapshots when it was fetched.
        origin: Its name, or the URL it was fetched from, without a query.
        sha256: Of its bytes.
        facts: What a fetch found out beside it.
    """

    path: str
    origin: str
    sha256: str
    facts: dict[str, Any] = {}


class SourceFiles(Record):
    """All files of a source, or why they are not there.

    Attributes:
        imagery: The raster. pois: In the order of the configuration. clouds: The mask, when it is a file.
        digests: What a stage key is made of.
        problem: Why a file is missing; then the others say nothing.
    """

    imagery: SourceFile | None = None
    pois: tuple[SourceFile, ...] = ()
    clouds: SourceFile | None = None
    digests: tuple[str, ...] = ()
    problem: str = ""


def series_of(workspace: Workspace, source: SourceConfig) -> str | None:
    """Return the name of the source whose scenes lend a series their footprints, or None when the source is in no series."""
    if source.scenes.same_as is not None:
        return source.scenes.same_as
    return source.name if any(other.scenes.same_as == source.name for other in workspace.config.sources) else None


def missing(problem: str) -> SourceFiles:
    """Say why the files of a source cannot be used."""
    return SourceFiles(digests=(digest_json(["problem", problem]),), problem=problem)


def files_of(workspace: Workspace, source: SourceConfig) -> SourceFiles:
    """Return the files of a source; what is missing is fetched when this process builds.

    An online source that fails is no reason to stop the others: the problem is returned, and the source quarantined.
    """
    try:
        imagery = _imagery(workspace, source)
        pois = tuple(_pois(workspace, source, part, k) for k, part in enumerate(source.pois))
        clouds = source.imagery.clouds
        mask = None if clouds is None or clouds.path is None else _local(workspace, clouds.path)
    except (FetchError, InputError) as error:
        return missing(str(error))
    digests = [*_digests(imagery), *(digest for part in pois for digest in _digests(part))]
    if imagery.path == str(source.imagery.path):
        digests += [workspace.digest(other) for other in _sidecars(Path(imagery.path))]
    return SourceFiles(imagery=imagery, pois=pois, clouds=mask, digests=(*digests, *(_digests(mask) if mask else ())))


def _digests(file: SourceFile) -> tuple[str, ...]:
    return (file.sha256, digest_json(file.facts)) if file.facts else (file.sha256,)


def _sidecars(path: Path) -> list[Path]:
    """Files beside a raster that GDAL reads with it (`x.tif.aux.xml`, `x.tif.msk`)."""
    return sorted(other for other in path.parent.glob(f"{path.name}.*") if other.is_file())


def _local(workspace: Workspace, path: Path) -> SourceFile:
    return SourceFile(path=str(path), origin=path.name, sha256=workspace.digest(path))


def _imagery(workspace: Workspace, source: SourceConfig) -> SourceFile:
    imagery, what = source.imagery, f"sources.{source.name}.imagery"
    max_px = workspace.config.run.network.max_px
    if imagery.cog is not None:
        return _cog(workspace, imagery, imagery.cog, what)
    if imagery.stac is not None:
        return _stac(workspace, imagery, imagery.stac, what)
    if imagery.tiles is not None and imagery.part is not None:
        asked, tiles = imagery.tiles, tile_range(imagery.part, imagery.tiles.zoom)
        return _fetched(
            workspace,
            tiles_request(asked.url, asked.tile_px, tiles),
            lambda web, kept: fetch_tiles(web, kept, asked.url, asked.tile_px, tiles, workspace.config.run.network.max_tiles, max_px),
            imagery.sha256,
            what,
            asked.url,
        )
    assert imagery.path is not None
    if not imagery.is_fetched:
        return _local(workspace, imagery.path)
    path = imagery.path
    return _fetched(
        workspace,
        vrt_request(path, imagery.crs),
        lambda _web, kept: put_together(kept, path, imagery.crs, max_px),
        imagery.sha256,
        what,
        path.name,
    )


def _cog(workspace: Workspace, imagery: ImageryConfig, url: str, what: str) -> SourceFile:
    return _fetched(
        workspace,
        cog_request(url, imagery.part, imagery.crs),
        lambda web, kept: fetch_cog(web, kept, url, imagery.part, imagery.crs, workspace.config.run.network.max_px),
        imagery.sha256,
        what,
        url,
    )


def _stac(workspace: Workspace, imagery: ImageryConfig, asked: StacConfig, what: str) -> SourceFile:
    """Find the asset, and fetch it when it is on the web; what its item says must fit what the configuration says."""
    if asked.path is not None:
        items, base = read_items(asked.path), asked.path
    else:
        assert asked.url is not None
        url, body = asked.url, search_body(asked.collections, asked.datetime, asked.bbox, asked.item)
        limit = asked.limit
        found = _fetched(
            workspace,
            stac_request(url, body, limit),
            lambda web, kept: search_items(web, kept, url, body, limit),
            None,
            f"{what}.stac",
            url,
        )
        items, base = read_items(Path(found.path)), url
    asset = choose_asset(items, asked.item, asked.asset, f"{what}.stac")
    if asset.licence is not None and asset.licence.lower() != imagery.licence.lower():
        raise InputError(
            f"{what}.stac: item {asset.item_id!r} says licence {asset.licence!r}, the configuration {imagery.licence!r}; "
            "find out which is right"
        )
    place = place_of(asset, base, asked.hosts)
    facts = {"stac_item": asset.item_id, **({"acquired": asset.acquired} if asset.acquired else {})}
    if isinstance(place, str):
        file = _cog(workspace, imagery, place, what)
        return file.model_copy(update={"facts": {**file.facts, **facts}})
    file = _local(workspace, place)
    if imagery.sha256 is not None and file.sha256 != imagery.sha256:
        raise InputError(f"{what}: {place} has the SHA-256 {file.sha256}, expected {imagery.sha256} (key sha256)")
    return file.model_copy(update={"facts": facts})


def _pois(workspace: Workspace, source: SourceConfig, part: PoiConfig, position: int) -> SourceFile:
    if part.path is not None:
        return _local(workspace, part.path)
    assert part.overpass is not None
    asked = part.overpass
    query = asked.query or _query(workspace, part, asked)
    what = f"sources.{source.name}.pois.{position}"
    return _fetched(
        workspace,
        request_of(asked.url, query),
        lambda web, snapshots: ask_overpass(web, snapshots, asked.url, query, asked.timeout_s),
        part.sha256,
        what,
        asked.url,
    )


def _query(workspace: Workspace, part: PoiConfig, asked: OverpassConfig) -> str:
    assert part.bbox is not None
    chosen = [workspace.taxonomy.get(c) for c in asked.categories] or list(workspace.taxonomy.categories)
    expressions = [parse_tag_expression(text) for category in chosen for text in category.osm]
    if not expressions:
        raise InputError(f"Overpass cannot be asked for {list(asked.categories)}: they have no tag expressions; give a query, or others")
    return query_of(expressions, part.bbox, asked.timeout_s, asked.date)


def _fetched(
    workspace: Workspace, request: Any, fetch: Callable[[Web, Snapshots], Snapshot], expected: str | None, what: str, origin: str
) -> SourceFile:
    """Return the snapshot of a request, fetching it when this process may; who watches the build is told how far it is.

    Raises:
        FetchError: there is none and this process may not ask, or asking failed.
    """
    snapshots = Snapshots(workspace.config.run.snapshots)
    snapshot = snapshots.find(request)
    if snapshot is None:
        if not workspace.may_fetch:
            raise FetchError(f"{what}: not fetched yet; `trigpoint build` does")
        workspace.say(f"{what}: {'fetching from' if '://' in origin else 'putting together'} {shown(origin)}")
        web = _web_of(workspace, what)
        try:
            snapshot = fetch(web, snapshots)
        except TrigpointError as error:
            raise FetchError(f"{what}: {error}") from error
        workspace.say(f"{what}: kept as {snapshot.sha256[:12]}… after {web.traffic}")
    snapshot = expect_digest(snapshot, expected, what)
    return SourceFile(path=str(snapshot.path), origin=shown(origin), sha256=snapshot.sha256, facts=snapshot.facts)


def _web_of(workspace: Workspace, what: str) -> Web:
    """Return a client with the manners of the configuration that tells who watches the build what it does."""
    network = workspace.config.run.network
    manners = Manners(**{name: getattr(network, name) for name in Manners._fields})
    return Web(manners, tell=lambda text: workspace.say(f"{what}: {text}"))


def source_rows(source: SourceConfig, files: SourceFiles) -> list[dict[str, str | None]]:
    """Return rows of `SOURCE_FILE_SCHEMA` of the files that `collect` reads; none of a source with a problem.

    `date` is the day of a picture, and of the map that an Overpass answer shows.
    """
    if files.imagery is None:
        return []
    found = [("imagery", files.imagery, acquired_of(source.imagery, files.imagery))]
    found += [("clouds", files.clouds, None)] if files.clouds is not None else []
    found += [("pois", file, str(file.facts.get("osm_base") or "")[:10] or None) for file in files.pois]
    return [{"source": source.name, "kind": kind, "origin": file.origin, "date": date, "sha256": file.sha256} for kind, file, date in found]


def acquired_of(imagery: ImageryConfig, file: SourceFile) -> str | None:
    """Return the date of acquisition: what the configuration says, else what was found with the picture."""
    return imagery.acquired or file.facts.get("acquired")
