"""Splits without leaks: every protocol's assignment, rule, query lists and proof recomputed, and inputs that give nothing away.

Not here: which scenes belong together (`grouping.py`), and queries themselves.
"""

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from trigpoint.audit.findings import Notebook
from trigpoint.audit.grouping import CLOSE_M, OPEN_M, Grouping, Pairs, check_groups, components
from trigpoint.audit.hashing import Grid
from trigpoint.audit.programs import Node, pairs_of
from trigpoint.audit.reading import LanguageQuery, Query, Release, read_json, read_lines

INPUT_KEYS = ("crs", "gsd_m", "image", "north", "query_id", "sentence")
SPLITS = ("train", "val", "test")
BETWEEN = ("train-val", "train-test", "val-test")
PROTOCOLS = ("scene-disjoint", "geographic", "cross-scale", "depth", "unseen-pair")
WITH_QUERIES = ("depth", "unseen-pair")
"""Protocols whose splits do not hold all queries of their scenes."""

LEFT_OUT = "left_out"
KEYS = ("protocol", "version", "seed", "assignment", "left_out", "rule", "grouping", "groups", "screening", "proof")
POLICIES = ("mark", "train_only", "drop")
SHARE_SLACK = 1e-6
"""Shares are rounded to six digits."""

SD_SLACK = 1e-6
"""`grey_sd` may differ by this from one program to the next."""

DENSITY_SLACK = 1e-3
"""Relative difference allowed in instances per km²: valid areas are compared elsewhere with theirs."""


@dataclass
class Split:
    """One protocol as read from its file.

    Attributes:
        file: `splits/<protocol>.json`.
        content: All of it.
        assignment: Split → scene ids.
        place: Scene → its split, or `left_out`.
        groups: Group id → scene ids.
        nodes: Query id → program.
    """

    file: str
    protocol: str
    content: dict[str, Any]
    assignment: dict[str, list[str]]
    place: dict[str, str]
    groups: dict[str, list[str]]
    release: Release
    nodes: dict[str, Node]
    notes: Notebook

    @classmethod
    def of(cls, release: Release, nodes: dict[str, Node], file: str, protocol: str, notes: Notebook) -> "Split":
        """Read a split file; raises when it has no usable assignment."""
        content = cast("dict[str, Any]", read_json(release.folder, file))
        assignment = {str(name): [str(scene) for scene in scenes] for name, scenes in content["assignment"].items()}
        place = {str(scene): LEFT_OUT for scene in content.get("left_out") or {}}
        place |= {scene: name for name in reversed(assignment) for scene in assignment[name]}
        groups = {str(group["group_id"]): [str(scene) for scene in group["scenes"]] for group in content.get("groups", [])}
        return cls(file, protocol, content, assignment, place, groups, release, nodes, notes)

    def note(self, code: str, item: object, expected: object, found: object) -> None:
        """Note a finding in this file."""
        self.notes.add(code, self.file, item, expected, found)

    def queries_of(self, split: str) -> list[Query | LanguageQuery]:
        """Return the queries of a split: those listed (with a program, all of them), or all of its scenes, of any form."""
        listed = self.content.get("queries")
        if isinstance(listed, dict):
            ids = cast("dict[str, list[str]]", listed).get(split, [])
            return [self.release.queries[query] for query in ids if query in self.release.queries]
        return [query for query in self.release.all_queries if self.place.get(query.scene_id) == split]

    def splits_of(self, scenes: Iterable[str]) -> set[str]:
        """Return the splits (or `left_out`) that scenes are in."""
        return {self.place[scene] for scene in scenes if scene in self.place}


def check_splits(release: Release, nodes: dict[str, Node], grids: dict[str, Grid], notes: Notebook) -> None:
    """Check every protocol in splits/: form, assignment, groups, rule, query lists, screening, proof and input files.

    Args:
        release: The release.
        nodes: Query id → program, of the queries whose program can be read.
        grids: Scene id → grey grid, of the scenes whose pixels can be read.
        notes: Where findings go.
    """
    pairs = Pairs.of(release, grids, notes)
    inputs: set[str] = set()
    names = sorted(path.stem for path in (release.folder / "splits").glob("*.json"))
    for protocol in names:
        file = f"splits/{protocol}.json"
        inputs |= {f"inputs/{protocol}-{name}.jsonl" for name in SPLITS}
        with notes.guard("split_unreadable", file):
            split = Split.of(release, nodes, file, protocol, notes)
            for check in (_check_form, _check_assignment, _check_rule, _check_queries, _check_screening):
                with notes.guard("split_unreadable", file, check.__name__.removeprefix("_check_")):
                    check(split)
            with notes.guard("split_unreadable", file, "groups"):
                check_groups(release, file, split.content, split.place, pairs, notes)
            with notes.guard("split_unreadable", file, "rule"):
                _check_distances(split, pairs)
            with notes.guard("split_unreadable", file, "proof"):
                _check_proof(split, pairs)
            for name in SPLITS:
                with notes.guard("input_unreadable", f"inputs/{protocol}-{name}.jsonl"):
                    _check_inputs(release, f"inputs/{protocol}-{name}.jsonl", {query.query_id for query in split.queries_of(name)}, notes)
    for path in sorted((release.folder / "inputs").glob("*")):
        if f"inputs/{path.name}" not in inputs:
            notes.add("input_unknown", f"inputs/{path.name}", path.name, "inputs of a protocol and split that exist", "neither")
    _check_protocols(release, names, notes)


def _check_protocols(release: Release, names: list[str], notes: Notebook) -> None:
    """The primary protocol is there; none is both there and left out; all are of the format."""
    left_out: Any = release.manifest.get("protocols_left_out")
    reasons = cast("dict[str, Any]", left_out) if isinstance(left_out, dict) else {}
    if not isinstance(left_out, dict):
        notes.add("protocol_wrong", "manifest.json", "protocols_left_out", "{protocol: reason}", left_out)
    for name in sorted(set(names) | set(reasons)):
        if name not in PROTOCOLS:
            notes.add("protocol_wrong", f"splits/{name}.json" if name in names else "manifest.json", name, " or ".join(PROTOCOLS), name)
        elif name in names and name in reasons:
            notes.add("protocol_wrong", "manifest.json", name, "in splits/ or left out", "both")
        elif name in reasons and not (isinstance(reasons[name], str) and reasons[name]):
            notes.add("protocol_wrong", "manifest.json", name, "a reason", reasons[name])
    if PROTOCOLS[0] not in names and PROTOCOLS[0] not in reasons:
        notes.add("part_missing", f"splits/{PROTOCOLS[0]}.json", PROTOCOLS[0], "the primary protocol", "no such file")


def _check_form(split: Split) -> None:
    """All keys are there; lists are sorted."""
    wanted = (*KEYS, "queries") if split.protocol in WITH_QUERIES else KEYS
    if sorted(split.content) != sorted(wanted):
        split.note("split_unreadable", "keys", sorted(wanted), sorted(split.content))
    for key, kind in (
        ("assignment", dict),
        ("left_out", dict),
        ("rule", dict),
        ("grouping", dict),
        ("groups", list),
        ("proof", dict),
        ("seed", int),
    ):
        if not isinstance(split.content.get(key), kind):
            split.note("split_unreadable", key, kind.__name__, split.content.get(key))
    if (split.content.get("protocol"), split.content.get("version")) != (split.protocol, 1):
        split.note("split_unreadable", "protocol", f"{split.protocol} 1", f"{split.content.get('protocol')} {split.content.get('version')}")
    if sorted(split.assignment) != sorted(SPLITS):
        split.note("split_assignment", "splits", sorted(SPLITS), sorted(split.assignment))
    for kind, lists in (("assignment", split.assignment), ("queries", split.content.get("queries", {}))):
        for name, ids in lists.items():
            if list(ids) != sorted(ids):
                split.note("order_wrong", f"{kind}.{name}", "sorted", "another order")


def _check_assignment(split: Split) -> None:
    """Every scene in exactly one split or left out with a reason, and no scene that does not exist."""
    left_out = cast("dict[str, Any]", split.content.get("left_out", {}))
    times = Counter(scene for scenes in (*split.assignment.values(), left_out) for scene in scenes)
    for scene in sorted(set(split.release.scenes) | set(times)):
        split.notes.count("split_assignments")
        if scene not in split.release.scenes:
            split.note("scene_unknown", scene, "a scene of scenes.parquet", scene)
        elif times[scene] != 1:
            where = [name for name, scenes in (*split.assignment.items(), (LEFT_OUT, left_out)) if scene in scenes]
            split.note("scene_in_splits", scene, "exactly one split", where)
    for scene, reason in left_out.items():
        if not isinstance(reason, str) or not reason:
            split.note("split_assignment", scene, "a reason to leave it out", reason)


def _check_rule(split: Split) -> None:
    """The protocol's own rule decides which split a scene may be in, and which is left out."""
    rule = cast("dict[str, Any]", split.content["rule"])
    split.notes.count("split_rules")
    screened = _screened(split)
    kind = str(rule.get("by")) if split.protocol == "geographic" else split.protocol
    keys = {
        "scene-disjoint": set[str](), "region": {"by", "region_km", "regions"}, "source": {"by", "sources"},
        "density": {"by", "threshold_per_km2", "groups"}, "cross-scale": {"threshold_m", "train_class"},
        "depth": {"train_max_level", "test_min_level"}, "unseen-pair": {"held_out", "share", "reached", "min_train_share"},
    }.get(kind)  # fmt: skip
    if keys is None or set(rule) - {"short"} != keys or ("short" in rule and kind != "unseen-pair"):
        split.note("protocol_rule_wrong", "rule", sorted(keys or ()) or "{}", sorted(rule))
        return
    allowed: dict[str, set[str]] = {}
    if kind == "source":
        allowed = _by_source(split, rule["sources"])
    elif kind == "density":
        allowed = _by_density(split, rule)
    elif kind == "cross-scale":
        allowed = _by_scale(split, rule)
    elif kind == "region":
        allowed = _by_region(split, rule)
    for scene in split.release.scenes:
        right = allowed.get(scene, set(SPLITS)) | ({LEFT_OUT} if scene in screened else set[str]())
        if scene in split.place and split.place[scene] not in right:
            split.note("protocol_rule_wrong", scene, " or ".join(sorted(right)), split.place[scene])


def _screened(split: Split) -> set[str]:
    """Return the scenes of groups that screening may leave out."""
    screening = split.content.get("screening")
    if not isinstance(screening, dict) or cast("dict[str, Any]", screening).get("policy") == "mark":
        return set()
    return {scene for scenes in _groups_that_meet(split) for scene in scenes}


def _groups_that_meet(split: Split) -> list[list[str]]:
    outside = {name for name, scene in split.release.scenes.items() if scene.outside}
    return [scenes for scenes in split.groups.values() if outside & set(scenes)]


def _by_source(split: Split, sources: dict[str, list[str]]) -> dict[str, set[str]]:
    """Every scene of a source is in its split; a group with several, or of a source that is not listed, is left out."""
    home = {str(source): name for name, listed in sources.items() for source in listed}
    allowed: dict[str, set[str]] = {}
    for scenes in split.groups.values():
        homes = {home.get(split.release.scenes[scene].source) for scene in scenes if scene in split.release.scenes}
        one = homes.pop() if len(homes) == 1 else None
        allowed |= dict.fromkeys(scenes, {LEFT_OUT} if one is None else {one})
    return allowed


def _by_density(split: Split, rule: dict[str, Any]) -> dict[str, set[str]]:
    """Groups with at least the threshold of instances per km² are divided between train and val, the others are test."""
    threshold = float(rule["threshold_per_km2"])
    stored = {str(group): float(value) for group, value in rule["groups"].items()}
    countable = Counter(instance.scene_id for instance in split.release.instances.values() if instance.countable)
    allowed: dict[str, set[str]] = {}
    needed = {group for group, names in split.groups.items() if split.splits_of(names) != {LEFT_OUT}}
    if not needed <= set(stored) <= set(split.groups):
        split.note("protocol_rule_wrong", "rule.groups", sorted(needed), sorted(stored))
    for group, names in split.groups.items():
        scenes = [split.release.scenes[name] for name in names if name in split.release.scenes]
        area_m2 = sum(scene.valid_share * scene.width * scene.height * scene.pixel_area_m2 for scene in scenes)
        density = sum(countable[scene.scene_id] for scene in scenes) / area_m2 * 1e6
        if group in stored and not math.isclose(stored[group], density, rel_tol=DENSITY_SLACK, abs_tol=1e-3):
            split.note("protocol_rule_wrong", f"rule.groups {group}", f"{density:.6g} per km2", stored[group])
        if not math.isclose(density, threshold, rel_tol=DENSITY_SLACK):
            allowed |= dict.fromkeys(names, {"train", "val"} if density >= threshold else {"test"})
    return allowed


def _by_scale(split: Split, rule: dict[str, Any]) -> dict[str, set[str]]:
    """Groups of the train class are divided between train and val, those of the other are test, mixed ones are left out."""
    threshold, train_class = float(rule["threshold_m"]), rule["train_class"]
    if train_class not in ("fine", "coarse"):
        split.note("protocol_rule_wrong", "rule.train_class", "fine or coarse", train_class)
    allowed: dict[str, set[str]] = {}
    classes: set[str] = set()
    for names in split.groups.values():
        found = {"fine" if split.release.scenes[name].gsd_m < threshold else "coarse" for name in names if name in split.release.scenes}
        classes |= found
        is_mixed = len(found) > 1
        allowed |= dict.fromkeys(names, {LEFT_OUT} if is_mixed else {"train", "val"} if found == {train_class} else {"test"})
    if len(classes) < 2:
        split.note("protocol_rule_wrong", "rule.threshold_m", "a threshold between two scales", threshold)
    return allowed


def _by_region(split: Split, rule: dict[str, Any]) -> dict[str, set[str]]:
    """Every scene is in one region; regions are test as a whole or not at all."""
    where: dict[str, list[str]] = defaultdict(list)
    allowed: dict[str, set[str]] = {}
    for region in rule["regions"]:
        scenes = [str(scene) for scene in region["scenes"]]
        for scene in scenes:
            where[scene].append(str(region["region_id"]))
        if "test" in split.splits_of(scenes):
            allowed |= {scene: {"test"} for scene in scenes}
    for scene in sorted(set(where) | set(split.release.scenes)):
        may_lack = not where[scene] and split.place.get(scene) == LEFT_OUT
        if scene not in split.release.scenes or (len(where[scene]) != 1 and not may_lack):
            split.note("protocol_rule_wrong", f"rule.regions {scene}", "a scene of the release in exactly one region", where[scene])
    return allowed


def _check_distances(split: Split, pairs: Pairs) -> None:
    """Regions are what groups and distances join: found anew, half a metre left open."""
    rule = cast("dict[str, Any]", split.content["rule"])
    if split.protocol != "geographic" or rule.get("by") != "region":
        return
    region_m = 1000 * float(rule["region_km"])
    region_of = {str(scene): str(region["region_id"]) for region in rule["regions"] for scene in region["scenes"]}
    grouped = [pair for scenes in split.groups.values() for pair in itertools.pairwise(scenes)]
    for pair, near in pairs.near.items():
        if near.distance_m >= region_m - OPEN_M:
            continue
        grouped.append(pair)
        splits = [split.place.get(scene) for scene in pair]
        if "test" in splits and set(splits) & {"train", "val"}:
            found = f"{splits[0]} and {splits[1]}, {near.distance_m:.3f} m apart"
            split.note("protocol_rule_wrong", " ".join(pair), f"at least {region_m} m between test and the rest", found)
    possible = [*grouped, *(pair for pair, near in pairs.near.items() if near.distance_m < region_m + OPEN_M)]
    surely, perhaps = components(split.release.scenes, grouped), components(split.release.scenes, possible)
    for one, other in itertools.combinations(sorted(region_of), 2):
        together = region_of[one] == region_of[other]
        if one not in surely or other not in surely:
            continue
        if (surely[one] == surely[other] and not together) or (perhaps[one] != perhaps[other] and together):
            split.note(
                "protocol_rule_wrong", f"rule.regions {one} {other}", "one region" if not together else "two regions", region_of.get(one)
            )


def _check_queries(split: Split) -> None:
    """Depth and unseen-pair list exactly the queries that their rule gives, of scenes of that split."""
    if split.protocol not in WITH_QUERIES:
        return
    rule = cast("dict[str, Any]", split.content["rule"])
    listed = {name: [str(query) for query in split.content["queries"].get(name, [])] for name in SPLITS}
    held = {(str(category), str(relation)) for category, relation in rule.get("held_out", [])}
    if split.protocol == "depth" and (rule["train_max_level"], rule["test_min_level"]) != (3, 4):
        split.note("protocol_rule_wrong", "rule", "levels up to 3, from 4", rule)
    if split.protocol == "unseen-pair":
        _check_held_out(split, rule, held)
    times = Counter(query for ids in listed.values() for query in ids)
    for query in sorted(query for query, number in times.items() if number > 1 or query not in split.release.queries):
        split.note("protocol_query_wrong", query, "a query of the release with a program, once", f"{times[query]} times")
    for query in split.release.queries.values():
        if query.query_id not in split.nodes:
            continue
        split.notes.count("split_queries")
        name = split.place.get(query.scene_id, LEFT_OUT)
        has_held = bool(pairs_of(split.nodes[query.query_id]) & held)
        is_hard = query.level >= 4 if split.protocol == "depth" else has_held
        right = name if name in SPLITS and is_hard == (name == "test") else "none"
        found = next((other for other in SPLITS if query.query_id in listed[other]), "none")
        if found != right:
            split.note("protocol_query_wrong", query.query_id, right, found)


def _check_held_out(split: Split, rule: dict[str, Any], held: set[tuple[str, str]]) -> None:
    """Held-out pairs occur in training and in test scenes; what is left to train on and what test reaches are as the rule says."""
    stored = [list(pair) for pair in rule["held_out"]]
    if stored != sorted(stored) or len(held) != len(stored):
        split.note("order_wrong", "rule.held_out", "sorted, each once", stored)
    seen: dict[str, list[set[tuple[str, str]]]] = {"train": [], "val": [], "test": [], LEFT_OUT: []}
    for query in split.release.queries.values():
        if query.query_id in split.nodes:
            seen[split.place.get(query.scene_id, LEFT_OUT)].append(pairs_of(split.nodes[query.query_id]))
    for pair in sorted(held):
        missing = [name for name in ("train", "test") if not any(pair in pairs for pairs in seen[name])]
        if missing:
            split.note(
                "protocol_rule_wrong", f"rule.held_out {pair[0]} {pair[1]}", "in queries of train and test scenes", f"not in {missing}"
            )
    left = sum(not pairs & held for pairs in seen["train"])
    if left < float(rule["min_train_share"]) * len(seen["train"]) - SHARE_SLACK:
        split.note("protocol_rule_wrong", "rule.min_train_share", rule["min_train_share"], f"{left} of {len(seen['train'])}")
    reached = sum(bool(pairs & held) for pairs in seen["test"]) / len(seen["test"]) if seen["test"] else 0.0
    if not abs(reached - float(rule["reached"] or 0)) <= SHARE_SLACK:
        split.note("protocol_rule_wrong", "rule.reached", f"{reached:.6f}", rule["reached"])
    if reached < float(rule["share"]) - SHARE_SLACK and not rule.get("short"):
        split.note("protocol_rule_wrong", "rule.short", f"a reason: {reached:.6f} is below {rule['share']}", rule.get("short"))


def _check_screening(split: Split) -> None:
    """`outside` of the scenes and the lists say the same, and the policy was carried out on whole groups."""
    screening: Any = split.content["screening"]
    lists = cast("list[dict[str, Any]]", screening["lists"]) if screening is not None else []
    split.notes.count("split_screenings")
    met: dict[str, set[str]] = defaultdict(set)
    dull = Grouping.of(split.content).low_information_sd - SD_SLACK
    for entry in lists:
        scenes = [str(scene) for scene in entry["scenes"]]
        if scenes != sorted(set(scenes)) or set(scenes) - set(split.release.scenes):
            split.note("screening_wrong", entry["name"], "scenes of the release, sorted, each once", scenes)
        if entry["kind"] not in ("footprints", "hashes") or len(str(entry["sha256"])) != 64 or int(entry["n"]) < 0 or not entry["file"]:
            split.note(
                "screening_wrong", entry["name"], "kind, file, sha256 and n of a list", {k: entry[k] for k in ("kind", "sha256", "n")}
            )
        dull = Grouping.of(split.content).low_information_sd
        for scene in scenes:
            met[scene].add(str(entry["name"]))
            if entry["kind"] == "hashes" and scene in split.release.scenes and split.release.scenes[scene].grey_sd < dull - 1e-6:
                split.note(
                    "screening_wrong", f"{entry['name']} {scene}", f"grey_sd of at least {dull}", split.release.scenes[scene].grey_sd
                )
    for scene in split.release.scenes.values():
        if sorted(met[scene.scene_id]) != sorted(scene.outside):
            split.note("screening_wrong", scene.scene_id, f"outside {list(scene.outside)}", sorted(met[scene.scene_id]))
    if screening is None:
        return
    if screening["policy"] not in POLICIES or int(screening["max_bits"]) < 0:
        split.note("screening_wrong", "policy", " or ".join(POLICIES), f"{screening['policy']}, {screening['max_bits']} bits")
    wanted = {"train_only": {"train", LEFT_OUT}, "drop": {LEFT_OUT}}.get(str(screening["policy"]), {*SPLITS, LEFT_OUT})
    for scenes in _groups_that_meet(split):
        for scene in scenes:
            if split.place.get(scene) not in wanted:
                split.note("screening_wrong", scene, f"{screening['policy']}: {' or '.join(sorted(wanted))}", split.place.get(scene))


def _check_proof(split: Split, pairs: Pairs) -> None:
    """Recompute the numbers of the proof from the release."""
    proof = cast("dict[str, Any]", split.content["proof"])
    split.notes.count("split_proofs")

    def compare(item: str, right: Any, found: Any) -> None:
        if found != right:
            split.note("proof_wrong", item, right, found)

    across = [pair for pair in pairs.shared if len({split.place.get(scene) for scene in pair} - {LEFT_OUT, None}) == 2]
    compare("shared_pixels_between_splits", sum(pairs.shared[pair] for pair in across), proof.get("shared_pixels_between_splits"))
    dull = Grouping.of(split.content).low_information_sd
    for key in BETWEEN:
        between = [pair for pair in across if {split.place[scene] for scene in pair} == set(key.split("-"))]
        near = min((pairs.near[pair].distance_m for pair in between if pair in pairs.near), default=None)
        found = cast("dict[str, Any]", proof.get("smallest_distance_m", {})).get(key)
        slack = 0.0 if near is None else max(0.5, (0.001 if near < CLOSE_M else 0.01) * near)
        if (near is None) != (found is None) or (near is not None and not abs(near - float(found or 0)) <= slack):
            split.note("proof_wrong", f"smallest_distance_m {key}", "null" if near is None else f"{near:.6g} m", found)
        clear = [pair for pair in between if all(split.release.scenes[scene].grey_sd >= dull for scene in pair)]
        bits = min((pairs.bits[pair] for pair in clear), default=None)
        compare(f"smallest_hash_bits {key}", bits, cast("dict[str, Any]", proof.get("smallest_hash_bits", {})).get(key))
    for key in ("smallest_distance_m", "smallest_hash_bits"):
        compare(f"{key} keys", sorted(BETWEEN), sorted(proof.get(key, {})))
    compare("buffer_m", split.content["grouping"]["buffer_m"], proof.get("buffer_m"))
    queries = {name: split.queries_of(name) for name in SPLITS}
    total = sum(len(found) for found in queries.values())
    scenes = Counter(split.place[scene] for scene in split.release.scenes if scene in split.place)
    compare("scenes", {name: scenes[name] for name in SPLITS}, proof.get("scenes"))
    compare("queries", {name: len(queries[name]) for name in SPLITS}, proof.get("queries"))
    levels = {
        name: dict(sorted(Counter(str(query.level) for query in queries[name] if isinstance(query, Query)).items())) for name in SPLITS
    }
    compare("levels", levels, proof.get("levels"))
    for name in SPLITS:
        answerable = sum(query.answerable for query in queries[name])
        _compare_share(split, proof, "answerable_share", name, answerable / len(queries[name]) if queries[name] else None)
        _compare_share(split, proof, "reached_share", name, len(queries[name]) / total if total else 0.0)
    target = cast("dict[str, Any]", proof.get("target_share", {}))
    if sorted(target) != sorted(SPLITS) or not math.isclose(sum(target.values()), 1, abs_tol=1e-6):
        split.note("proof_wrong", "target_share", "a share of each split, 1 together", target)


def _compare_share(split: Split, proof: dict[str, Any], key: str, name: str, right: float | None) -> None:
    found = cast("dict[str, Any]", proof.get(key, {})).get(name)
    if (right is None) != (found is None) or (right is not None and not abs(right - float(found or 0)) <= SHARE_SLACK):
        split.note("proof_wrong", f"{key} {name}", right, found)


def _check_inputs(release: Release, file: str, queries: set[str], notes: Notebook) -> None:
    """An input file holds exactly the queries of its split, in order, and of each exactly what a model may see."""
    wanted = sorted(queries)
    if not (release.folder / file).is_file():
        notes.add("part_missing", file, file, f"{len(wanted)} queries", "no such file")
        return
    found: list[str] = []
    for number, line in enumerate(read_lines(release.folder, file), start=1):
        with notes.guard("input_unreadable", file, f"line {number}"):
            row = cast("dict[str, Any]", json.loads(line))
            notes.count("inputs")
            if sorted(row) != list(INPUT_KEYS):
                notes.add("input_keys", file, row.get("query_id"), list(INPUT_KEYS), sorted(row))
            found.append(str(row["query_id"]))
            query = release.any_query(found[-1])
            scene = release.scenes.get(query.scene_id) if query else None
            if query is None or scene is None:
                continue
            right = {
                "sentence": query.sentences[0] if query.sentences else None,
                "image": scene.path,
                "gsd_m": scene.gsd_m,
                "crs": scene.crs,
                "north": scene.image_up_deg,
            }
            for key, value in right.items():
                same = math.isclose(value, row[key], rel_tol=1e-9, abs_tol=1e-9) if isinstance(value, float) else value == row.get(key)
                if not same:
                    notes.add("input_differs", file, f"{found[-1]} {key}", value, row.get(key))
    if found != sorted(found):
        notes.add("order_wrong", file, "", "sorted by query_id", "another order")
    for query_id in sorted(set(wanted) - set(found)):
        notes.add("input_missing", file, query_id, "a line", "none")
    for query_id, times in sorted(Counter(found).items()):
        if query_id not in wanted:
            notes.add("input_foreign", file, query_id, "only queries of this split", "a query of another split, or of none")
        elif times > 1:
            notes.add("input_twice", file, query_id, "one line", times)
