import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.splits.made import made_material, made_queries, made_scene, random_grid
from trigpoint.errors import LeakageError
from trigpoint.splits.distances import footprint_distance_m
from trigpoint.splits.membership import SPLITS
from trigpoint.splits.proof import split_document
from trigpoint.splits.protocols import Division, Material, Unsupported, assign_groups, divide, pairs_of_program

ALL = ("scene-disjoint", "geographic", "cross-scale", "depth", "unseen-pair")


def division(protocol: Any, material: Material) -> Division:
    made = divide(protocol, material)
    assert isinstance(made, Division), made
    return made


def refusal(protocol: Any, material: Material) -> str:
    made = divide(protocol, material)
    assert isinstance(made, Unsupported), made
    return made.reason


def where(made: Division) -> dict[str, str]:
    return {s: name for name, ids in made.assignment.items() for s in ids}


def varied() -> Material:
    """Four places 20 km apart with three scenes each, two ground pixels, three relations."""
    scenes = [
        made_scene(f"s{place}{k}", 150 * k, 0, lon=8 + 0.2 * place, source="abcd"[place], gsd_m=0.1 if place < 3 else 0.5)
        for place, k in itertools.product(range(4), range(3))
    ]
    queries = [q for n, s in enumerate(scenes) for r in ("near", "far", "inside") for q in made_queries(s.scene_id, 5 + n % 3, r)]
    return made_material(scenes, queries)


# assignment


def test_groups_never_straddle_and_every_split_gets_one() -> None:
    scenes = [made_scene(f"s{k}{j}", 1000 * k + 50 * j, 0) for k, j in itertools.product(range(5), range(2))]
    material = made_material(scenes, [q for k, s in enumerate(scenes) for q in made_queries(s.scene_id, 2 * k + 1)])

    place = where(division("scene-disjoint", material))

    assert sorted(place) == sorted(s.scene_id for s in scenes)
    assert all(len({place[s] for s in group.scenes}) == 1 for group in material.groups)
    assert set(place.values()) == set(SPLITS)


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 40), min_size=1), st.randoms(use_true_random=False))
def test_assignment_does_not_depend_on_the_order_of_groups(weights: dict[str, int], rng: Any) -> None:
    shares = {"train": 0.6, "val": 0.2, "test": 0.2}
    shuffled = rng.sample(list(weights.items()), len(weights))

    place = assign_groups(weights, shares, 3)

    assert place == assign_groups(dict(shuffled), shares, 3)
    assert set(place) == set(weights)
    assert len(set(place.values())) == min(3, len(weights))


@pytest.mark.parametrize("weights", [{"a": 10, "b": 5}, {"a": 10, "b": 5, "c": 0}])
def test_where_groups_are_few_test_comes_before_val(weights: dict[str, int]) -> None:
    place = assign_groups(weights, {"train": 0.6, "val": 0.2, "test": 0.2}, 3)

    assert [place[group] for group in sorted(weights)] == ["train", "test", "val"][: len(weights)]


def test_two_scenes_support_the_depth_protocol() -> None:
    made = division("depth", made_material([made_scene("s1", 0, 0), made_scene("s2", 1000, 0)]))

    assert {name: len(ids) for name, ids in made.assignment.items()} == {"train": 1, "val": 0, "test": 1}


def test_a_split_without_a_share_stays_empty() -> None:
    assert set(assign_groups({"a": 1, "b": 1, "c": 1}, {"train": 0.5, "test": 0.5}, 0).values()) == {"train", "test"}


# the other protocols


def test_geographic_leaves_whole_regions_out() -> None:
    material = varied()

    made = division("geographic", material)

    regions = [set(region["scenes"]) for region in made.rule["regions"]]
    test, trained = set(made.assignment["test"]), set(made.assignment["train"] + made.assignment["val"])
    assert len(regions) == 4
    assert all(region <= test or not region & test for region in regions)
    scene = material.scene
    assert min(footprint_distance_m(scene(a).footprint, scene(b).footprint) for a in test for b in trained) >= 10_000
    assert made.assignment["val"]


def test_scenes_of_one_region_have_no_geographic_protocol() -> None:
    assert "one region" in refusal("geographic", made_material([made_scene("s1", 0, 0), made_scene("s2", 300, 0)]))


def test_a_copy_in_another_region_makes_one_region_of_two() -> None:
    grid = random_grid(4)
    scenes = [made_scene("s1", 0, 0, grid=grid), made_scene("s2", 0, 0, source="b", lon=40, grid=grid)]

    assert "one region" in refusal("geographic", made_material(scenes))


def test_a_region_without_queries_is_no_test() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 0, 0, source="b", lon=40)]

    assert refusal("geographic", made_material(scenes, made_queries("s1"))) == "no query would be in test"


def test_sources_go_where_they_are_listed() -> None:
    scenes = [made_scene(f"s-{name}", 0, 0, source=name, lon=8 + 10 * k) for k, name in enumerate("abcd")]
    listed = {"by": "source", "sources": {"train": ["a"], "test": ["b", "c"]}}

    made = division("geographic", made_material(scenes, geographic=listed))

    assert made.assignment == {"train": ["s-a"], "val": [], "test": ["s-b", "s-c"]}
    assert made.left_out == {"s-d": "its source is in no split"}


def test_a_group_with_sources_of_two_splits_is_left_out() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 9, 0, source="b"), made_scene("s3", 900, 0), made_scene("s4", 1900, 0, source="b")]

    made = division("geographic", made_material(scenes, geographic={"by": "source", "sources": {"train": ["a"], "test": ["b"]}}))

    assert made.left_out == dict.fromkeys(("s1", "s2"), "its group has sources of several splits")
    assert where(made) == {"s3": "train", "s4": "test"}


def test_density_trains_on_towns_and_tests_on_the_country() -> None:
    scenes = [made_scene(f"s{k}", 300 * k, 0, n_discrete=n) for k, n in enumerate((90, 70, 80, 4, 0))]

    made = division("geographic", made_material(scenes, geographic={"by": "density"}))

    assert set(made.assignment["test"]) == {"s4"}
    assert made.rule["threshold_per_km2"] == pytest.approx((1 * 400) ** 0.5)
    fixed = division("geographic", made_material(scenes, geographic={"by": "density", "density_per_km2": 1000}))
    assert set(fixed.assignment["test"]) == {"s3", "s4"}


def test_cross_scale_tests_on_the_other_scale() -> None:
    made = division("cross-scale", varied())

    assert set(made.assignment["test"]) == {"s30", "s31", "s32"}
    assert made.rule == {"threshold_m": pytest.approx(0.05**0.5), "train_class": "fine"}
    coarse = varied()
    coarse = made_material(coarse.scene_set.scenes, list(coarse.queries), cross_scale={"train": "coarse"})
    assert set(division("cross-scale", coarse).assignment["test"]) == {f"s{p}{k}" for p in range(3) for k in range(3)}


def test_one_scale_has_no_cross_scale_protocol() -> None:
    scenes = [made_scene(f"s{k}", 300 * k, 0, gsd_m=0.1 * 1.1**k) for k in range(4)]

    assert "one scale only" in refusal("cross-scale", made_material(scenes))


def test_a_group_of_both_scales_is_left_out() -> None:
    scenes = [made_scene("s1", 0, 0), made_scene("s2", 20, 0, source="b", gsd_m=0.2), made_scene("s3", 900, 0)]
    scenes.append(made_scene("s4", 2900, 0, source="b", gsd_m=0.2))

    made = division("cross-scale", made_material(scenes))

    assert made.left_out == dict.fromkeys(("s1", "s2"), "its group has scenes of both scales")


def test_depth_trains_on_shallow_queries_and_tests_on_deep_ones() -> None:
    material = varied()
    level = {q.query_id: q.level or 0 for q in material.queries}

    made = division("depth", material)

    assert made.queries is not None
    assert made.assignment == division("scene-disjoint", material).assignment
    assert {level[q] for q in made.queries["train"] + made.queries["val"]} == {1, 2, 3}
    assert {level[q] for q in made.queries["test"]} == {4, 5}


def test_scenes_without_deep_queries_have_no_depth_protocol() -> None:
    scenes = [made_scene(f"s{k}", 300 * k, 0) for k in range(3)]
    shallow = [q for s in scenes for q in made_queries(s.scene_id, level=2)]

    assert refusal("depth", made_material(scenes, shallow)) == "the test scenes have no query of level 4 or 5"


def test_held_out_pairs_are_never_trained_on_and_always_tested() -> None:
    material = varied()
    pairs = {q.query_id: pairs_of_program(q.program) for q in material.queries}

    made = division("unseen-pair", material)

    assert made.queries is not None
    held = {tuple(pair) for pair in made.rule["held_out"]}
    assert held
    assert not any(held & pairs[q] for q in made.queries["train"] + made.queries["val"])
    assert all(held & pairs[q] for q in made.queries["test"])
    of_test = [q.query_id for q in material.queries if q.scene_id in made.assignment["test"]]
    assert made.rule["reached"] == pytest.approx(len(made.queries["test"]) / len(of_test), abs=1e-6)
    assert made.rule["reached"] >= made.rule["share"] == 0.25


def test_queries_without_relations_have_no_unseen_pair() -> None:
    scenes = [made_scene(f"s{k}", 300 * k, 0) for k in range(3)]

    assert "no category-relation pair" in refusal(
        "unseen-pair", made_material(scenes, [q for s in scenes for q in made_queries(s.scene_id, level=1)])
    )


def test_pairs_are_of_the_selected_category_and_of_the_anchors_too() -> None:
    both = {"op": "and", "args": [{"op": "cat", "category": "tin_roof"}, {"op": "cat", "category": "house"}]}
    anchor = {"op": "attr", "of": {"op": "cat", "category": "pond"}, "key": "area", "extreme": "most"}
    near = {"op": "rel", "of": both, "relation": "near", "anchor": anchor}
    program = {"op": "and", "args": [near, {"op": "farthest", "of": both, "anchor": {"op": "cat", "category": "road"}}]}

    assert pairs_of_program(program) == {("house+tin_roof", "near"), ("house+tin_roof", "farthest"), ("pond", "area:most")}
    assert pairs_of_program(None) == pairs_of_program({"op": "cat", "category": "pond"}) == frozenset()


# screening


@pytest.mark.parametrize("protocol", ALL)
def test_screened_groups_are_only_trained_on(protocol: Any) -> None:
    material = varied()
    scenes = [s._replace(outside=("seen",)) if s.scene_id in ("s10", "s32") else s for s in material.scene_set.scenes]
    material = made_material(scenes, list(material.queries), screen_policy="train_only", cross_scale={"train": "fine"})

    place = where(division(protocol, material))

    assert place["s10"] == "train"
    assert place.get("s32", "train") == "train"


@pytest.mark.parametrize("protocol", ALL)
def test_screened_groups_are_dropped(protocol: Any) -> None:
    material = varied()
    scenes = [s._replace(outside=("seen",)) if s.scene_id == "s10" else s for s in material.scene_set.scenes]
    material = made_material(scenes, list(material.queries), screen_policy="drop", buffer_m_same_source=60.0)

    made = division(protocol, material)

    assert made.left_out == dict.fromkeys(("s10", "s11", "s12"), "meets a screening list")
    assert not {"s10", "s11", "s12"} & set(where(made))


# documents


@pytest.mark.parametrize("protocol", ALL)
def test_the_proof_is_what_a_plain_count_gives(protocol: Any) -> None:
    material = varied()
    made = division(protocol, material)

    document = split_document(protocol, material, made, None)

    place, proof = where(made), document["proof"]
    asked = {q for ids in (made.queries or {}).values() for q in ids} if made.queries else {q.query_id for q in material.queries}
    counted = Counter(place[q.scene_id] for q in material.queries if q.query_id in asked and q.scene_id in place)
    assert proof["queries"] == {name: counted[name] for name in SPLITS}
    assert proof["scenes"] == {name: list(place.values()).count(name) for name in SPLITS}
    assert sum(proof["reached_share"].values()) == pytest.approx(1, abs=1e-5)
    for name in SPLITS:
        inside = [q for q in material.queries if q.query_id in asked and place.get(q.scene_id) == name]
        assert proof["levels"][name] == {str(k): n for k, n in Counter(q.level for q in inside).items()}
        assert proof["answerable_share"][name] == pytest.approx(sum(q.answerable for q in inside) / len(inside), abs=1e-6)
    for one, other in itertools.combinations(SPLITS, 2):
        pairs = [(material.scene(a), material.scene(b)) for a in made.assignment[one] for b in made.assignment[other]]
        assert proof["smallest_distance_m"][f"{one}-{other}"] == pytest.approx(
            min(footprint_distance_m(a.footprint, b.footprint) for a, b in pairs), abs=1e-3
        )
        assert proof["smallest_hash_bits"][f"{one}-{other}"] == min(bits_between(a, b) for a, b in pairs)
    assert set(document) - {"queries"} == {
        "protocol", "version", "seed", "assignment", "left_out", "rule", "grouping", "groups", "screening", "proof",
    }  # fmt: skip


def bits_between(a: Any, b: Any) -> int:
    a, b = sorted((a, b), key=lambda s: s.scene_id)
    return min((a.hashes[0] ^ h).bit_count() for h in b.hashes)


def test_an_empty_split_has_no_distance_and_no_share() -> None:
    material = made_material([made_scene("s1", 0, 0)])

    proof = split_document("scene-disjoint", material, division("scene-disjoint", material), None)["proof"]

    assert proof["smallest_distance_m"] == proof["smallest_hash_bits"] == {"train-val": None, "train-test": None, "val-test": None}
    assert proof["answerable_share"] == {"train": 0.7, "val": None, "test": None}


def test_a_leaking_assignment_is_refused_with_its_pairs() -> None:
    material = made_material([made_scene("s1", 0, 0), made_scene("s2", 50, 50), made_scene("s3", 1000, 0)])
    leaking = Division({"train": ["s1"], "val": ["s2"], "test": ["s3"]}, {}, {})

    with pytest.raises(LeakageError, match="share 2500 native pixels") as caught:
        split_document("scene-disjoint", material, leaking, None)
    assert caught.value.pairs == [("s1", "s2")]
