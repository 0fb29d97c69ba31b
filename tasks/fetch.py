"""collect, before it: the files of a source. What is on the web is fetched once and kept as a snapshot.

Only the process that builds asks the web, source after source, and only for what no snapshot answers.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.overpass import ask_overpass, query_of, request_of
from storage.remote import Manners, Snapshot, Snapshots, Web, expect_digest
from tasks.workspace import Workspace
from trigpoint.categories import parse_tag_expression
from trigpoint.config import ImageryConfig, OverpassConfig, PoiConfig, SourceConfig
from trigpoint.errors import FetchError, InputError, TrigpointError
from trigpoint.identity import digest_json
from trigpoint.records.base import Record


class SourceFile(Record):
    """A file that a source is read from.

    Attributes:
        path: Local; in the folder of snapshots when it was fetched.
        sha256: Of its bytes.
        facts: What a fetch found out beside it.
    """

    path: str
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
        return SourceFiles(digests=(digest_json(["problem", str(error)]),), problem=str(error))
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
    return SourceFile(path=str(path), sha256=workspace.digest(path))


def _imagery(workspace: Workspace, source: SourceConfig) -> SourceFile:
    imagery = source.imagery
    if imagery.path is not None and not imagery.is_fetched:
        return _local(workspace, imagery.path)
    raise InputError(f"source {source.name!r}: only files are read yet")


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
    )


def _query(workspace: Workspace, part: PoiConfig, asked: OverpassConfig) -> str:
    assert part.bbox is not None
    chosen = [workspace.taxonomy.get(c) for c in asked.categories] or list(workspace.taxonomy.categories)
    expressions = [parse_tag_expression(text) for category in chosen for text in category.osm]
    if not expressions:
        raise InputError(f"Overpass cannot be asked for {list(asked.categories)}: they have no tag expressions; give a query, or others")
    return query_of(expressions, part.bbox, asked.timeout_s, asked.date)


def _fetched(
    workspace: Workspace, request: Any, fetch: Callable[[Web, Snapshots], Snapshot], expected: str | None, what: str
) -> SourceFile:
    """Return the snapshot of a request, fetching it when this process may.

    Raises:
        FetchError: there is none and this process may not ask, or asking failed.
    """
    snapshots = Snapshots(workspace.config.run.snapshots)
    snapshot = snapshots.find(request)
    if snapshot is None:
        if not workspace.may_fetch:
            raise FetchError(f"{what}: not fetched yet; `trigpoint build` does")
        try:
            snapshot = fetch(web_of(workspace), snapshots)
        except TrigpointError as error:
            raise FetchError(f"{what}: {error}") from error
    snapshot = expect_digest(snapshot, expected, what)
    return SourceFile(path=str(snapshot.path), sha256=snapshot.sha256, facts=snapshot.facts)


def web_of(workspace: Workspace) -> Web:
    """Return a client with the manners of the configuration."""
    network = workspace.config.run.network
    return Web(Manners(**{name: getattr(network, name) for name in Manners._fields}))


def acquired_of(imagery: ImageryConfig, file: SourceFile) -> str | None:
    """Return the date of acquisition: what the configuration says, else what was found with the picture."""
    return imagery.acquired or file.facts.get("acquired")
