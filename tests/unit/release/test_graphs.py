import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.builds import run_stage
from tasks.engine import finish_build, start_build
from tasks.graph import load_graph
from tasks.scenes import scene_items
from tasks.tables import item_table
from tasks.workspace import Workspace
from tests.toy_release import write_toy_release
from tests.unit.release.conftest import Reviewed
from trigpoint.errors import InputError, ReleaseError
from trigpoint.programs.language import from_json
from trigpoint.records.stage import ItemResult
from trigpoint.release.graphs import graph_of_scene, resolver_of_scene
from trigpoint.release.reader import Release


def test_every_program_of_a_release_gets_its_stored_answer_again(reviewed: Reviewed) -> None:
    release = reviewed.release
    resolvers = {scene_id: resolver_of_scene(release, scene_id) for scene_id in release.scene_by_id}
    programs = [query for query in release.queries if query.program is not None]

    answers = [resolvers[query.scene_id].answer(from_json(query.program)) for query in programs]

    assert {query.level for query in programs} == {1, 2, 3, 4, 5}
    assert any("nearest" in (query.canonical or "") or "farthest" in (query.canonical or "") for query in programs)
    assert [(query.answer_ids, ()) for query in programs] == answers


def test_the_graph_is_the_one_that_the_builder_had(reviewed: Reviewed) -> None:
    workspace = Workspace(reviewed.config)
    run = start_build(workspace, "test")
    for stage in ("collect", "annotate", "boxes", "graph"):
        run_stage(run, stage)
    finish_build(run, "done")
    for item in scene_items(workspace, run.done, ("boxes", "graph")):
        rows = item_table(workspace, ItemResult.model_validate(item.payload["boxes"]), "instance").to_pylist()
        built = load_graph(workspace, item.payload["scene"], rows, ItemResult.model_validate(item.payload["graph"]))
        assert built is not None

        loaded = graph_of_scene(reviewed.release, item.item_id)

        assert (loaded.nodes.instance_ids, loaded.valid_px) == (built.nodes.instance_ids, built.valid_px)
        assert np.array_equal(loaded.distance_m, built.distance_m)
        assert loaded.verdicts.keys() == built.verdicts.keys()
        assert all(np.array_equal(loaded.verdicts[name], built.verdicts[name]) for name in built.verdicts)


def test_what_a_graph_needs_and_a_release_lacks_is_named(tmp_path: Path) -> None:
    toy = Release.open(write_toy_release(tmp_path))

    with pytest.raises(InputError, match="'s-z' is not in release"):
        graph_of_scene(toy, "s-z")
    with pytest.raises(ReleaseError, match=r"scenes\.parquet lacks the columns \['crs'"):
        graph_of_scene(toy, "s-a")


def test_a_release_without_a_taxonomy_has_no_resolver(tmp_path: Path) -> None:
    folder = write_toy_release(tmp_path)
    (folder / "taxonomy" / "toy.yaml").unlink()

    with pytest.raises(ReleaseError, match="holds no taxonomy"):
        resolver_of_scene(Release.open(folder), "s-a")


def test_a_scene_without_instances_has_an_empty_graph(tmp_path: Path, reviewed: Reviewed) -> None:
    folder = tmp_path / "r"
    shutil.copytree(reviewed.release.folder, folder)
    for name in ("instances", "relations"):
        table = pq.read_table(folder / f"{name}.parquet")
        pq.write_table(table.slice(0, 0), folder / f"{name}.parquet")

    graph = graph_of_scene(Release.open(folder), next(iter(reviewed.release.scene_by_id)))

    assert (len(graph.nodes), graph.distance_m.shape) == (0, (0, 0))
