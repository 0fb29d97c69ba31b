from datetime import date
from pathlib import Path

import pytest
import yaml

from trigpoint.config import check_files, check_names, load_config
from trigpoint.errors import ConfigError

ROOT = Path(__file__).parents[2]
MINIMAL = {
    "name": "tiny",
    "version": "0.1.0",
    "taxonomy": "taxonomy.yaml",
    "sources": [
        {"name": "here", "imagery": {"path": "a.tif", "licence": "CC0-1.0", "attribution": "us"}, "scenes": {"windows": [[0, 0, 8, 8]]}}
    ],
}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **changes}), encoding="utf-8")
    return path


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, run={"output": "../out"}))

    assert config.taxonomy == tmp_path / "taxonomy.yaml"
    assert config.sources[0].imagery.path == tmp_path / "a.tif"
    assert config.run.output.resolve() == tmp_path.parent / "out"
    assert len(check_files(config)) == 2


def test_unknown_keys_are_refused_with_the_nearest_known_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'taxonmy'; did you mean 'taxonomy'\?"):
        load_config(written(tmp_path, taxonmy="x"))


def test_every_problem_is_listed_with_its_place(tmp_path: Path) -> None:
    bad = [{"name": "here", "imagery": {"path": "a.tif", "licenc": "CC0-1.0", "attribution": "us"}, "scenes": {"windows": [[0, 0, 8, 8]]}}]
    expected = r"(?s)4 problem.*query\.per_scen: unknown key 'per_scen'; did you mean 'per_scene'\?.*run\.workers: "

    with pytest.raises(ConfigError, match=expected) as told:
        load_config(written(tmp_path, query={"per_scen": {}}, run={"workers": 0}, sources=bad))
    assert "sources.0.imagery.licenc: unknown key 'licenc'; did you mean 'licence'?" in str(told.value)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "name: [\n"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match="configuration"):
        load_config(path)


def test_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="config example"):
        load_config(tmp_path / "none.yaml")


def test_run_block_and_folders_enter_no_digest_and_everything_else_does(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    one = load_config(written(tmp_path)).sha256()

    assert load_config(written(tmp_path / "b", run={"workers": 7, "work": "elsewhere"})).sha256() == one
    assert load_config(written(tmp_path, seed=1)).sha256() != one
    assert load_config(written(tmp_path, rules={"near_share": 0.2})).sha256() != one


def test_sources_have_names_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected each once"):
        load_config(written(tmp_path, sources=MINIMAL["sources"] * 2))  # type: ignore[operator]


def test_split_shares_must_sum_to_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shares sum to 1\.1"):
        load_config(written(tmp_path, split={"shares": {"train": 0.9, "val": 0.1, "test": 0.1}}))


def test_the_example_in_the_repository_and_the_printed_one_are_good(tmp_path: Path) -> None:
    assert check_files(load_config(ROOT / "examples" / "banepa" / "release.yaml")) == []
    load_config(ROOT / "trigpoint" / "example.yaml")
    assert len(list((ROOT / "examples" / "banepa").rglob("*.yaml"))) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"imagery": {"acquired": "2025-02-30"}}, "'2025-02-30' is no date"),
        ({"imagery": {"acquired": 20}}, "String should match pattern"),
        ({"imagery": {"acquired": True}}, "Input should be text; found True"),
        ({"imagery": {"crs": "EPSG:999999"}}, "'EPSG:999999' is no coordinate system"),
        ({"scenes": {"windows": []}}, "says of no scene where it is"),
        ({"scenes": {"around_pois": {"categories": ["school"], "size_px": 8}}}, "around_pois needs pois"),
        ({"scenes": {"grid": {"sizes_px": [0]}}}, "greater than 0"),
        ({"scenes": {"windows": [[0, 0, 0, 8]]}}, "greater than 0"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(tmp_path: Path, change: dict[str, dict[str, object]], message: str) -> None:
    source = {**MINIMAL["sources"][0]}  # type: ignore[index]
    for key, value in change.items():
        source[key] = {**source[key], **value}

    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, sources=[source]))


@pytest.mark.parametrize("acquired", ["2025", "2025-06", "2024-02-29", 2025, date(2024, 2, 29)], ids=str)
def test_years_months_and_days_are_dates_in_quotes_or_not(tmp_path: Path, acquired: str | int | date) -> None:
    source = {**MINIMAL["sources"][0]}  # type: ignore[index]
    source["imagery"] = {**source["imagery"], "acquired": acquired}

    assert load_config(written(tmp_path, sources=[source])).sources[0].imagery.acquired == str(acquired)


@pytest.mark.parametrize(("relations", "message"), [(["nort_of"], "expected some of"), (["north_of"], "without their inverses")])
def test_relations_are_known_and_come_with_their_inverses(tmp_path: Path, relations: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, rules={"relations": relations}))


def test_shares_are_not_negative(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="greater than or equal to 0"):
        load_config(written(tmp_path, split={"shares": {"train": 1.5, "val": -0.5, "test": 0.0}}))


def test_screening_lists_are_found_from_the_file_and_count_by_name(tmp_path: Path) -> None:
    screen = [{"name": "seen", "footprints": "lists/f.gpkg"}, {"name": "tiles", "hashes": "h.txt"}]
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    config = load_config(written(one, split={"screen": screen}))

    assert [s.path for s in config.split.screen] == [one / "lists" / "f.gpkg", one / "h.txt"]
    assert f"split.screen.tiles: {one / 'h.txt'} does not exist" in check_files(config)
    assert config.sha256() == load_config(written(other, split={"screen": screen})).sha256()


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"screen": [{"name": "both", "footprints": "f.gpkg", "hashes": "h.txt"}]}, "needs either footprints or hashes"),
        ({"screen": [{"name": "x", "hashes": "h.txt"}, {"name": "x", "hashes": "g.txt"}]}, "expected each once"),
        ({"protocols": ["depth", "depth"]}, "expected each once"),
        ({"protocols": []}, "at least 1 item"),
        ({"shares": {"train": 0.5}}, "shares sum to 0.5"),
        ({"geographic": {"by": "source"}}, "name each source once"),
        ({"geographic": {"by": "region", "sources": {"test": ["here"]}}}, "name each source once"),
    ],
)
def test_split_blocks_that_make_no_sense_are_refused(tmp_path: Path, split: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(tmp_path, split=split))


def test_sources_of_the_geographic_protocol_must_exist(tmp_path: Path) -> None:
    (tmp_path / "taxonomy.yaml").write_bytes((ROOT / "taxonomy" / "settlement.v1.yaml").read_bytes())
    config = load_config(written(tmp_path, split={"geographic": {"by": "source", "sources": {"train": ["here"], "test": ["ther"]}}}))

    assert check_names(config) == ["split.geographic.sources.test: 'ther' is no source; they are here"]
