from pathlib import Path
from typing import Any

import pytest
import yaml

from trigpoint.config import check_files, check_names, load_config
from trigpoint.errors import ConfigError
from trigpoint.proposals import sam2
from trigpoint.proposals.settings import Sam2Settings

OWN = {"licence": "CC0-1.0", "attribution": "us"}
SAM2 = {"checkpoint": "weights/a.pt", "config": "sam2.1_hiera_t"}
AUTOMATIC = {"proposer": "sam2", "prompts": "automatic", "category": "building", "sam2": SAM2}
ROOT = Path(__file__).parents[3]


def written(folder: Path, *proposals: dict[str, Any], **source: Any) -> Path:
    path = folder / "release.yaml"
    one = {
        "name": "here",
        "imagery": {"path": "a.tif", **OWN},
        "scenes": {"windows": [[0, 0, 8, 8]]},
        "proposals": list(proposals),
        **source,
    }
    taxonomy = str(ROOT / "taxonomy" / "settlement.v1.yaml")
    path.write_text(yaml.safe_dump({"name": "tiny", "version": "0.1.0", "taxonomy": taxonomy, "sources": [one]}), encoding="utf-8")
    return path


def test_every_relative_path_becomes_absolute_from_the_file(tmp_path: Path) -> None:
    own = {"checkpoint": "w/a.pt", "config_file": "../m.yaml"}
    config = load_config(
        written(
            tmp_path,
            {"proposer": "sam2", "prompts": "automatic", "category": "building", "sam2": own},
            {"proposer": "classical", "prompts": "drawn", "drawn": {"path": "boxes.gpkg", **OWN}},
        )
    )
    sam2, drawn = config.sources[0].proposals[0].sam2, config.sources[0].proposals[1].drawn

    assert sam2 is not None
    assert drawn is not None
    assert (sam2.checkpoint, sam2.config_file, drawn.path) == (tmp_path / "w/a.pt", tmp_path.parent / "m.yaml", tmp_path / "boxes.gpkg")
    assert [line for line in check_files(config) if "proposals" in line] == [
        f"sources.here.proposals.drawn: {tmp_path / 'boxes.gpkg'} does not exist"
    ]


def test_the_digest_of_a_configuration_knows_neither_folders_nor_devices(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = load_config(written(tmp_path / "a", {**AUTOMATIC, "sam2": {**SAM2, "device": "cpu"}}))
    other = load_config(written(tmp_path / "b", {**AUTOMATIC, "sam2": {**SAM2, "batch_size": 2}}))
    different = load_config(written(tmp_path / "b", {**AUTOMATIC, "sam2": {**SAM2, "points_per_side": 8}}))

    assert one.sha256() == other.sha256()
    assert one.sha256() != different.sha256()


@pytest.mark.parametrize(
    ("proposals", "said"),
    [
        ({"proposer": "sam2", "prompts": "automatic"}, "the block sam2"),
        ({"proposer": "sam2", "prompts": "automatic", "sam2": {"checkpoint": "a.pt"}}, "needs either config"),
        ({"proposer": "sam2", "prompts": "automatic", "sam2": {"checkpoint": "a.pt", "config": "sam3"}}, "expected one of sam2_hiera_t"),
        ({"proposer": "sam2", "prompts": "automatic", "sam2": {**SAM2, "chekpoint": "a.pt"}}, "did you mean 'checkpoint'"),
        ({"proposer": "sam2", "prompts": "automatic", "sam2": SAM2}, "automatic needs category"),
        ({"proposer": "classical", "prompts": "automatic"}, "takes boxes, oriented boxes and points alone"),
        ({"proposer": "classical", "prompts": "pois"}, "prompted by pois, and the source has none"),
        ({"proposer": "classical", "prompts": "footprints"}, "prompted by footprints, and the source has none"),
        ({"proposer": "classical", "prompts": "drawn"}, "the block drawn"),
        ({"proposer": "vector", "prompts": "pois"}, "prompts: drawn, no prompt_as"),
        ({**AUTOMATIC, "tile_px": 512}, "less than half of tile_px 512"),
        ({"proposer": "sam2", "prompts": "automatic", "sam2": SAM2, "categories": ["building"]}, "category says what its masks are"),
        ({"proposer": "clasical", "prompts": "pois"}, "'vector', 'classical' or 'sam2'"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_what_to_do(tmp_path: Path, proposals: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(written(tmp_path, proposals))

    assert said in str(error.value)
    assert "sources.0" in str(error.value)


def test_categories_that_the_taxonomy_lacks_are_named(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, {"proposer": "sam2", "prompts": "automatic", "sam2": SAM2, "category": "bilding"}))

    assert [line for line in check_names(config) if "proposals.0.category: 'bilding'" in line and "building" in line]


def test_without_the_extra_the_line_that_installs_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sam2, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"not installed \(torch, torchvision, sam2, hydra\): pip install 'trigpoint\[sam2\]'"):
        sam2.Sam2Proposer(Sam2Settings.model_validate(SAM2), "a" * 64)
