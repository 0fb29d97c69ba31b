"""Which instances of a scene are of a query's category. Not here: what a system returned (`trigpoint.scoring.failures`)."""

from collections.abc import Iterable

from trigpoint.categories import TRUE
from trigpoint.records.query import Query
from trigpoint.release.reader import InstanceRow, Release


def members_of(release: Release, query: Query) -> list[InstanceRow]:
    """Return the instances of the query's scene that are surely of its category (all axes), regions too, in file order.

    Read with the release's taxonomy; without one a category means its own name alone.
    """
    taxonomy, unknown_is_other = release.taxonomy, frozenset(release.manifest.get("unknown_is_other", {}))
    rows = release.instances_of_scene[query.scene_id]
    if taxonomy is None:
        return [row for row in rows if set(query.category) <= set(row.category)]
    return [row for row in rows if all(taxonomy.membership(row.category, c, unknown_is_other) == TRUE for c in query.category)]


def members_of_all(release: Release, queries: Iterable[Query]) -> dict[str, list[InstanceRow]]:
    """Return `members_of` by query id; queries of one scene and category share a list."""
    known: dict[tuple[str, tuple[str, ...]], list[InstanceRow]] = {}
    found: dict[str, list[InstanceRow]] = {}
    for query in queries:
        key = (query.scene_id, query.category)
        if key not in known:
            known[key] = members_of(release, query)
        found[query.query_id] = known[key]
    return found
