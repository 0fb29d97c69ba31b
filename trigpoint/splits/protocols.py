"""The five protocols: which group goes to which split, and which queries count there.

A protocol that the scenes cannot support gives a reason instead of a split. Not here: grouping (`trigpoint.splits.groups`), the file and
its proof (`trigpoint.splits.proof`).
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from trigpoint.config import Protocol, SplitConfig
from trigpoint.identity import digest_json, make_id
from trigpoint.splits.distances import PairArrays
from trigpoint.splits.groups import Group, SceneSet, SplitScene
from trigpoint.splits.membership import SPLITS

MIN_RATIO = 1.2
"""Smallest ratio between two ground pixels, or densities, that makes two classes of them."""

TRAIN_MAX_LEVEL, TEST_MIN_LEVEL = 3, 4
"""Levels of the depth protocol."""

MIN_TRAIN_SHARE = 0.5
"""Share of the queries of its scenes that train keeps at least when pairs are held out."""

SCREENED = "meets a screening list"
"""Why a group is in no split under the policies `drop` and `train_only`."""

Pair = tuple[str, str]
"""Category and relation."""


class SplitQuery(NamedTuple):
    """What splitting needs of a query; `program` is its JSON tree, None where its form has none."""

    query_id: str
    scene_id: str
    level: int | None
    answerable: bool
    program: Any


class Division(NamedTuple):
    """What a protocol made.

    Attributes:
        assignment: Split → sorted scene ids. left_out: Scene id → reason.
        rule: As in the split file.
        queries: Split → sorted query ids, where not all queries of its scenes are in.
    """

    assignment: dict[str, list[str]]
    left_out: dict[str, str]
    rule: dict[str, Any]
    queries: dict[str, list[str]] | None = None


class Unsupported(NamedTuple):
    """Why the scenes cannot support a protocol."""

    reason: str


@dataclass(frozen=True)
class Material:
    """Everything that protocols divide."""

    scene_set: SceneSet
    groups: Sequence[Group]
    queries: Sequence[SplitQuery]
    config: SplitConfig
    seed: int

    @property
    def shares(self) -> dict[str, float]:
        """Share of the queries per split; 0 where none is configured."""
        return dict.fromkeys(SPLITS, 0.0) | {str(name): share for name, share in self.config.shares.items()}

    @cached_property
    def n_queries(self) -> Counter[str]:
        """Queries per scene."""
        return Counter(query.scene_id for query in self.queries)

    @cached_property
    def screened(self) -> set[str]:
        """Ids of groups with a scene that meets a screening list, unless these are only marked."""
        if self.config.screen_policy == "mark":
            return set()
        marked = {scene.scene_id for scene in self.scene_set.scenes if scene.outside}
        return {group.group_id for group in self.groups if marked & set(group.scenes)}

    @cached_property
    def usable(self) -> list[Group]:
        """Groups that may be in a split."""
        return [group for group in self.groups if self.config.screen_policy != "drop" or group.group_id not in self.screened]

    @cached_property
    def dropped(self) -> dict[str, str]:
        """Scenes that are in no split of any protocol."""
        usable = {group.group_id for group in self.usable}
        return {s: SCREENED for group in self.groups if group.group_id not in usable for s in group.scenes}

    def weight(self, scenes: Iterable[str]) -> int:
        """Return the number of queries of scenes."""
        return sum(self.n_queries[s] for s in scenes)

    def scene(self, scene_id: str) -> SplitScene:
        """Return a scene."""
        return self.scene_set.scenes[self.scene_set.index[scene_id]]


def divide(protocol: Protocol, material: Material) -> Division | Unsupported:
    """Divide scenes and queries by a protocol."""
    return _PROTOCOLS[protocol](material)


def assign_groups(
    weights: Mapping[str, int], shares: Mapping[str, float], seed: int, forced: Iterable[str] = (), *, first: str = "train"
) -> dict[str, str]:
    """Divide groups over splits so that the queries come close to the shares; no split with a share stays empty while groups last.

    Groups come largest first (ties by a digest of seed and id); each goes to the split that is farthest below its share. Where groups with
    queries are fewer than splits, val goes without: what is trained must be tested.

    Args:
        weights: Group id → number of queries.
        shares: Split → share; need not add up to 1.
        seed: Of the release.
        forced: Groups that can be in `first` alone.
        first: The split of the forced groups.

    Returns:
        Group id → split.
    """
    bound = set(forced) & set(weights)
    order = sorted(set(weights) - bound, key=lambda g: (-weights[g], digest_json([seed, g])))
    wanted = [name for name in SPLITS if shares.get(name, 0) > 0]
    scale = sum(shares[name] for name in wanted) or 1.0
    total = sum(weights.values()) or 1
    place = dict.fromkeys(sorted(bound), first)
    filled = Counter({first: sum(weights[g] for g in bound)})
    empty = [name for name in wanted if not (bound and name == first)]
    n_asked = sum(weights[g] > 0 for g in order)
    for position, group_id in enumerate(order if wanted else ()):
        left = (n_asked if position < n_asked else len(order)) - position
        pool = empty if len(empty) >= left else wanted
        if len(empty) > left:
            pool = [name for name in empty if name != "val"] or empty
        target = max(pool, key=lambda name: (shares[name] / scale - filled[name] / total, -SPLITS.index(name)))
        place[group_id] = target
        filled[target] += weights[group_id]
        empty = [name for name in empty if name != target]
    return place


def pairs_of_program(program: Any) -> frozenset[Pair]:
    """Return the category–relation pairs of a program's JSON tree, the anchors' too.

    >>> sorted(pairs_of_program({"op": "nearest", "of": {"op": "cat", "category": "pond"}, "anchor": {"op": "cat", "category": "pond"}}))
    [('pond', 'nearest')]
    """
    found: set[Pair] = set()

    def visit(node: Any) -> frozenset[str]:
        """Collect the pairs below a node; return its categories."""
        if not isinstance(node, dict):
            return frozenset()
        value = cast(dict[str, Any], node)
        if value.get("op") == "cat":
            return frozenset([str(value["category"])])
        categories = visit(value.get("of")).union(*(visit(arg) for arg in value.get("args", ())))
        visit(value.get("anchor"))
        if "of" in value:
            names = {"rel": value.get("relation"), "attr": f"{value.get('key')}:{value.get('extreme')}"}
            found.add(("+".join(sorted(categories)), str(names.get(value["op"], value["op"]))))
        return categories

    visit(program)
    return frozenset(found)


def largest_gap(values: Iterable[float]) -> tuple[float, float]:
    """Return (ratio, cut) of the largest ratio between neighbours in sorted positive values; the cut is their geometric mean.

    >>> largest_gap([0.4, 0.1, 0.41])
    (4.0, 0.2)
    >>> largest_gap([0.1])
    (1.0, 0.1)
    """
    ordered = sorted(set(values))
    if len(ordered) < 2:
        return (1.0, ordered[0] if ordered else 0.0)
    ratios = [b / a for a, b in itertools.pairwise(ordered)]
    k = max(range(len(ratios)), key=lambda k: (ratios[k], -k))
    return (round(ratios[k], 9), math.sqrt(ordered[k] * ordered[k + 1]))


def _scene_disjoint(material: Material) -> Division:
    weights = {group.group_id: material.weight(group.scenes) for group in material.usable}
    place = assign_groups(weights, material.shares, material.seed, material.screened)
    return _division(material, place, {}, {})


def _geographic(material: Material) -> Division | Unsupported:
    match material.config.geographic.by:
        case "region":
            return _by_region(material)
        case "source":
            return _by_source(material)
        case "density":
            return _by_density(material)


def _by_region(material: Material) -> Division | Unsupported:
    """Whole regions are test; a region with a group that may only be trained on is none of them."""
    reach_km = material.config.geographic.region_km
    regions = _regions(material, reach_km)
    region_of = {s: region_id for region_id, scenes in regions.items() for s in scenes}
    usable: dict[str, list[Group]] = {}
    for group in material.usable:
        usable.setdefault(region_of[group.scenes[0]], []).append(group)
    if len(usable) < 2:
        return Unsupported(f"all scenes are in one region: none is {reach_km:g} km or more from all others")
    weights = {region_id: sum(material.weight(g.scenes) for g in groups) for region_id, groups in usable.items()}
    bound = [region_id for region_id, groups in usable.items() if any(g.group_id in material.screened for g in groups)]
    shares = material.shares
    place = assign_groups(weights, {"train": shares["train"] + shares["val"], "test": shares["test"]}, material.seed, bound)
    trained = [g for region_id, groups in usable.items() if place[region_id] == "train" for g in groups]
    tested = [g for region_id, groups in usable.items() if place[region_id] == "test" for g in groups]
    rule = {
        "by": "region",
        "region_km": reach_km,
        "regions": [{"region_id": region_id, "scenes": scenes} for region_id, scenes in sorted(regions.items())],
    }
    return _train_and_test(material, trained, tested, rule, {})


def _regions(material: Material, reach_km: float) -> dict[str, list[str]]:
    """Region id → its scenes: connected by groups and by distance."""
    scene_set = material.scene_set
    chains = [(scene_set.index[a], scene_set.index[b]) for g in material.groups for a, b in itertools.pairwise(g.scenes)]
    joined = np.array(chains, dtype=np.int64).reshape(-1, 2)
    labels = scene_set.footprints.components(1000.0 * reach_km, PairArrays(joined[:, 0], joined[:, 1]))
    members: dict[int, list[str]] = {}
    for scene, label in zip(scene_set.scenes, labels, strict=True):
        members.setdefault(int(label), []).append(scene.scene_id)
    return {make_id("r", *ids): ids for ids in members.values()}


def _by_source(material: Material) -> Division | Unsupported:
    listed = material.config.geographic.sources
    split_of = {source: str(name) for name, sources in listed.items() for source in sources}
    place: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for group in material.usable:
        names = {split_of.get(material.scene(s).source) for s in group.scenes}
        name = names.pop() if len(names) == 1 else None
        if len(names) >= 1:
            left_out |= dict.fromkeys(group.scenes, "its group has sources of several splits")
        elif name is None:
            left_out |= dict.fromkeys(group.scenes, "its source is in no split")
        elif name != "train" and group.group_id in material.screened:
            left_out |= dict.fromkeys(group.scenes, SCREENED)
        else:
            place[group.group_id] = name
    rule = {"by": "source", "sources": {name: sorted(listed.get(cast(Any, name), ())) for name in SPLITS}}
    return _supported(material, _division(material, place, left_out, rule))


def _by_density(material: Material) -> Division | Unsupported:
    density: dict[str, float] = {}
    for group in material.usable:
        scenes = [material.scene(s) for s in group.scenes]
        density[group.group_id] = round(sum(s.n_discrete for s in scenes) / sum(s.area_km2 for s in scenes), 6)
    threshold = material.config.geographic.density_per_km2
    if threshold is None:
        ratio, threshold = largest_gap(max(d, 1.0) for d in density.values())
        if ratio < MIN_RATIO:
            return Unsupported(f"one density only: the largest ratio between neighbours is {ratio:.2f}, below {MIN_RATIO}")
    trained = [g for g in material.usable if density[g.group_id] >= threshold]
    tested = [g for g in material.usable if density[g.group_id] < threshold]
    rule = {"by": "density", "threshold_per_km2": threshold, "groups": density}
    return _train_and_test(material, trained, tested, rule, {})


def _cross_scale(material: Material) -> Division | Unsupported:
    config = material.config.cross_scale
    threshold = config.threshold_m
    if threshold is None:
        ratio, threshold = largest_gap(round(material.scene(s).gsd_m, 6) for g in material.usable for s in g.scenes)
        if ratio < MIN_RATIO:
            return Unsupported(f"one scale only: the largest ratio between neighbours is {ratio:.2f}, below {MIN_RATIO}")
    classes: dict[str, list[Group]] = {"fine": [], "coarse": []}
    left_out: dict[str, str] = {}
    for group in material.usable:
        names = {"fine" if material.scene(s).gsd_m < threshold else "coarse" for s in group.scenes}
        if len(names) == 1:
            classes[names.pop()].append(group)
        else:
            left_out |= dict.fromkeys(group.scenes, "its group has scenes of both scales")
    weight = {name: sum(material.weight(g.scenes) for g in groups) for name, groups in classes.items()}
    train = config.train if config.train != "larger" else max(("fine", "coarse"), key=lambda name: (weight[name], name == "fine"))
    test = "coarse" if train == "fine" else "fine"
    return _train_and_test(material, classes[train], classes[test], {"threshold_m": threshold, "train_class": train}, left_out)


def _depth(material: Material) -> Division | Unsupported:
    division = _scene_disjoint(material)
    where = _where(division)

    def is_in(query: SplitQuery, name: str) -> bool:
        level = query.level or 0  # what has a program has a level
        return level >= TEST_MIN_LEVEL if name == "test" else level <= TRAIN_MAX_LEVEL

    queries = _chosen(material, where, is_in)
    for name, what in (("train", f"of level 1 to {TRAIN_MAX_LEVEL}"), ("test", f"of level {TEST_MIN_LEVEL} or 5")):
        if not queries[name]:
            return Unsupported(f"the {name} scenes have no query {what}")
    return division._replace(rule={"train_max_level": TRAIN_MAX_LEVEL, "test_min_level": TEST_MIN_LEVEL}, queries=queries)


def _unseen_pair(material: Material) -> Division | Unsupported:
    """Hold pairs out in the order of their digests until enough test queries have one."""
    division = _scene_disjoint(material)
    where = _where(division)
    pairs = {query.query_id: pairs_of_program(query.program) for query in material.queries if query.program is not None}
    asked = [(pairs[q.query_id], where.get(q.scene_id)) for q in material.queries if q.query_id in pairs]
    by_split = {name: [found for found, place in asked if place == name] for name in SPLITS}
    both = set[Pair]().union(*by_split["train"]) & set[Pair]().union(*by_split["test"])
    wanted = material.config.unseen_pair_share
    held: set[Pair] = set()
    reached = 0.0
    for pair in sorted(both, key=lambda pair: digest_json([material.seed, "unseen-pair", *pair])):
        if reached >= wanted:
            break
        trial = held | {pair}
        if sum(trial.isdisjoint(found) for found in by_split["train"]) >= MIN_TRAIN_SHARE * len(by_split["train"]):
            held = trial
            reached = sum(not held.isdisjoint(found) for found in by_split["test"]) / len(by_split["test"])
    queries = _chosen(material, where, lambda query, name: held.isdisjoint(pairs[query.query_id]) == (name != "test"))
    if not held or not queries["train"] or not queries["test"]:
        return Unsupported("no category-relation pair occurs in train and test scenes that could be held out and leave queries to train on")
    rule: dict[str, Any] = {
        "held_out": [list(pair) for pair in sorted(held)],
        "share": wanted,
        "reached": round(reached, 6),
        "min_train_share": MIN_TRAIN_SHARE,
    }
    if reached < wanted:
        rule["short"] = f"no further pair occurs in train and test scenes and leaves {MIN_TRAIN_SHARE:.0%} of the queries to train on"
    return division._replace(rule=rule, queries=queries)


_PROTOCOLS: dict[str, Callable[[Material], Division | Unsupported]] = {
    "scene-disjoint": _scene_disjoint,
    "geographic": _geographic,
    "cross-scale": _cross_scale,
    "depth": _depth,
    "unseen-pair": _unseen_pair,
}


def _train_and_test(
    material: Material, trained: Sequence[Group], tested: Sequence[Group], rule: dict[str, Any], left_out: dict[str, str]
) -> Division | Unsupported:
    """Divide the groups to train on between train and val; the others are test, but for those that may only be trained on."""
    shares = {**material.shares, "test": 0.0}
    place = assign_groups({g.group_id: material.weight(g.scenes) for g in trained}, shares, material.seed, material.screened)
    barred = {s: SCREENED for g in tested if g.group_id in material.screened for s in g.scenes}
    place |= {g.group_id: "test" for g in tested if g.group_id not in material.screened}
    return _supported(material, _division(material, place, {**left_out, **barred}, rule))


def _supported(material: Material, division: Division) -> Division | Unsupported:
    for name in ("train", "test"):
        if not material.weight(division.assignment[name]):
            return Unsupported(f"no query would be in {name}")
    return division


def _division(material: Material, place: Mapping[str, str], left_out: dict[str, str], rule: dict[str, Any]) -> Division:
    scenes: dict[str, list[str]] = {name: [] for name in SPLITS}
    for group in material.usable:
        if group.group_id in place:
            scenes[place[group.group_id]] += group.scenes
    return Division({name: sorted(ids) for name, ids in scenes.items()}, {**material.dropped, **left_out}, rule)


def _where(division: Division) -> dict[str, str]:
    return {s: name for name, ids in division.assignment.items() for s in ids}


def _chosen(material: Material, where: Mapping[str, str], is_in: Callable[[SplitQuery, str], bool]) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {name: [] for name in SPLITS}
    for query in material.queries:
        name = where.get(query.scene_id)
        if name is not None and query.program is not None and is_in(query, name):
            chosen[name].append(query.query_id)
    return {name: sorted(ids) for name, ids in chosen.items()}
