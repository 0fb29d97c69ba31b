from pathlib import Path
from typing import Any

import pytest
import yaml

from trigpoint.config import check_licences, load_config
from trigpoint.errors import ConfigError
from trigpoint.licences import LAYERS, Licence, LicensedPart, known_licences, licence_problems, load_licences, why_not

KNOWN = known_licences()


def licence(name: str) -> Licence:
    found = KNOWN.find(name)
    assert found is not None
    return found


def config(folder: Path, pixels: list[str], annotations: list[str], /, **declared: str) -> list[str]:
    """Problems of a configuration whose sources have these licences."""
    sources: list[dict[str, Any]] = [
        {"name": f"s{k}", "imagery": {"path": "a.tif", "licence": name, "attribution": "us"}, "scenes": {"grid": {"sizes_px": [8]}}}
        for k, name in enumerate(pixels)
    ]
    sources[0]["footprints"] = [{"path": "a.geojson", "licence": name, "attribution": "us"} for name in annotations]
    data = {"name": "tiny", "version": "0.1.0", "taxonomy": "t.yaml", "sources": sources, "licences": declared}
    path = folder / "release.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return check_licences(load_config(path))


@pytest.mark.parametrize(
    ("source", "declared", "layer", "reason"),
    [
        ("CC0-1.0", "CC-BY-4.0", "pixels", None),
        ("CC-BY-4.0", "ODbL-1.0", "annotations", None),
        ("OGL-UK-3.0", "CC-BY-4.0", "annotations", None),
        ("CC-BY-SA-3.0", "CC-BY-SA-4.0", "pixels", None),
        ("ODbL-1.0", "CC-BY-4.0", "pixels", None),
        ("CC-BY-ND-4.0", "CC-BY-ND-4.0", "pixels", None),
        ("CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "annotations", None),
        ("LicenseRef-proprietary-annotations-allowed", "LicenseRef-proprietary-annotations-allowed", "annotations", None),
        ("ODbL-1.0", "CC-BY-4.0", "annotations", "share-alike"),
        ("CC-BY-SA-4.0", "ODbL-1.0", "annotations", "share-alike"),
        ("CC-BY-SA-4.0", "CC-BY-SA-3.0", "pixels", "share-alike"),
        ("CC-BY-NC-4.0", "CC-BY-4.0", "pixels", "non-commercial"),
        ("CC-BY-4.0", "CC0-1.0", "pixels", "attribution"),
        ("CC-BY-ND-4.0", "CC-BY-ND-4.0", "annotations", "nothing derived"),
        ("CC-BY-ND-4.0", "CC-BY-4.0", "pixels", "under itself alone"),
        ("LicenseRef-proprietary", "LicenseRef-proprietary", "pixels", "does not allow passing on"),
        ("LicenseRef-proprietary-annotations-allowed", "LicenseRef-proprietary-annotations-allowed", "pixels", "does not allow passing on"),
    ],
)
def test_what_a_licence_allows_in_a_release_under_another(source: str, declared: str, layer: Any, reason: str | None) -> None:
    found = why_not(licence(source), licence(declared), layer)

    assert found is None if reason is None else found is not None and reason in found


def test_every_licence_allows_itself_unless_it_forbids_the_layer() -> None:
    for one in KNOWN.licences:
        for layer in LAYERS:
            terms = one.terms(layer)
            forbids = not terms.redistribution or (terms.no_derivatives and layer == "annotations")
            assert (why_not(one, one, layer) is None) is not forbids


def test_problems_name_source_layer_licence_and_what_to_do(tmp_path: Path) -> None:
    assert config(tmp_path, ["CC-BY-4.0"], ["ODbL-1.0", "CC-BY-4.0"], annotations="CC-BY-4.0") == [
        "sources.s0.footprints: its annotations are under ODbL-1.0, which is share-alike: it allows passing on under itself alone;"
        " declare licences.annotations: ODbL-1.0, or leave the source out"
    ]
    assert config(tmp_path, ["CC-BY-4.0", "CC-BY-NC-4.0"], [], pixels="CC-BY-4.0")[0].startswith(
        "sources.s1.imagery: its pixels are under CC-BY-NC"
    )


def test_mixed_licences_without_a_declaration_must_go_together(tmp_path: Path) -> None:
    assert config(tmp_path, ["CC-BY-4.0", "CC0-1.0"], ["ODbL-1.0", "CC-BY-4.0"]) == []
    (problem,) = config(tmp_path, ["CC-BY-SA-4.0", "CC-BY-NC-4.0"], [])
    assert (
        "CC-BY-NC-4.0 and CC-BY-SA-4.0 cannot be in one release (sources.s0.imagery CC-BY-SA-4.0; sources.s1.imagery CC-BY-NC-4.0)"
        in problem
    )
    assert "make two releases" in problem
    assert "leave this source out" in config(tmp_path, ["LicenseRef-proprietary"], [])[0]


def test_unknown_licences_are_named_with_the_nearest(tmp_path: Path) -> None:
    assert (
        "licence 'CCBY-4.0' of its pixels is not in taxonomy/licences.v1.yaml; did you mean CC-BY-4.0"
        in config(tmp_path, ["CCBY-4.0"], [])[0]
    )
    assert "licences.pixels: 'GPL'" in config(tmp_path, ["CC0-1.0"], [], pixels="GPL")[0]
    assert "nothing can be released under it" in config(tmp_path, ["CC0-1.0"], [], pixels="LicenseRef-proprietary")[0]


def test_ids_are_known_whatever_their_case() -> None:
    assert licence_problems([LicensedPart("sources.a.imagery", "pixels", "cc-by-4.0")], {"pixels": "CC-BY-4.0"}, KNOWN) == []


def test_the_demo_and_the_example_are_compatible() -> None:
    root = Path(__file__).parents[2]
    demo = load_config(root / "examples" / "banepa" / "release.yaml")

    assert demo.licences.declared() == {"pixels": "CC-BY-4.0", "annotations": "ODbL-1.0"}
    assert check_licences(demo) == check_licences(load_config(root / "trigpoint" / "example.yaml")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("licences: [", "not valid YAML"),
        ("name: l", "version: Field required"),
        ("{name: l, version: 1, licences: [{id: A, name: a, url: null, basis: unreviewed, also_as: [B]}]}", "also_as names B"),
        ("{name: l, version: 1, licences: [{id: A, name: a, url: null, basis: unreviewed, pixels: {share_alik: true}}]}", "share_alik"),
        ("{name: l, version: 1, licences: [&a {id: A, name: a, url: null, basis: unreviewed}, *a]}", "appears twice"),
    ],
)
def test_a_broken_file_of_licences_says_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "l.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=message):
        load_licences(path)


def test_a_missing_file_of_licences_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        load_licences(tmp_path / "none.yaml")
