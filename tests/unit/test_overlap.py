from pathlib import Path

import pytest

from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.errors import InputError
from trigpoint.overlap import compare, read_other


def taxonomy(*categories: dict[str, object]) -> Taxonomy:
    said = [{"axis": "kind", "noun": c["id"], "plural": f"{c['id']}s", **c} for c in categories]
    return Taxonomy.model_validate({"name": "t", "version": 1, "axes": [{"id": "kind"}], "categories": said})


OURS = taxonomy(
    {"id": "car", "synonyms": ["automobile"], "broader": ["vehicle"], "parts": ["wheel"]},
    {"id": "ship", "narrower": ["tanker"]},
    {"id": "lake"},
)


def test_both_directions_are_counted_and_catch_all_classes_left_out() -> None:
    found = compare(OURS, ["Automobiles", "vehicle", "tanker", "wheel", "other-vehicle", "clutter/background"])

    assert found.counts() == {
        "ours": {"exact": 1, "hierarchy": 1, "unmatched": 1},
        "theirs": {"exact": 1, "hierarchy": 2, "unmatched": 1},
    }
    assert found.left_out == ("other-vehicle", "clutter/background")
    assert {row.name: row.met for row in found.theirs} == {
        "Automobiles": (("car", "synonym"),),
        "vehicle": (("car", "narrower"),),
        "tanker": (("ship", "broader"),),
        "wheel": (),
    }


def test_what_another_taxonomy_says_counts_too() -> None:
    theirs = taxonomy({"id": "boat", "synonyms": ["ship"]}, {"id": "water", "narrower": ["lake"]}, {"id": "unknown"})

    found = compare(OURS, theirs)

    assert found.counts()["ours"] == {"exact": 1, "hierarchy": 1, "unmatched": 1}
    assert {row.name: row.match for row in found.theirs} == {"boat": "exact", "water": "hierarchy"}
    assert found.left_out == ("unknown",)


def test_a_list_of_itself_matches_exactly() -> None:
    assert compare(OURS, OURS).counts() == {side: {"exact": 3, "hierarchy": 0, "unmatched": 0} for side in ("ours", "theirs")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "# classes\ncar\nfishing_boat\n\ncar\n"),
        ("a.csv", "id,Category\n1,car\n2,fishing_boat\n"),
        ("a.csv", "car,1\nfishing_boat,2\n"),
        ("a.tsv", "name\tn\ncar\t3\nfishing_boat\t4\n"),
        ("a.yaml", "[car, fishing_boat]"),
        ("a.json", '["car", "fishing_boat"]'),
    ],
)
def test_lists_of_names_are_read_in_many_forms(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    assert read_other(path) == ["car", "fishing boat"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", b"id,what\n1,car\n", "has the category '1'; name the column"),
        ("a.csv", b"id,label\n1,7\n", "has the category '7'; name the column"),
        ("a.txt", b"caf\xe9\n", "is no text in UTF-8"),
        ("a.yaml", b"\x80", "is no text in UTF-8"),
    ],
)
def test_files_of_something_else_are_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)

    with pytest.raises(InputError, match=message):
        read_other(tmp_path / name)


@pytest.mark.parametrize(("name", "text"), [("a.txt", "\n# nothing\n"), ("a.csv", ""), ("a.yaml", "3"), ("a.yaml", "[")])
def test_files_without_names_are_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match=r"holds no category names|not valid YAML"):
        read_other(path)


def test_the_eight_data_sets_of_the_paper_meet_as_the_documentation_says() -> None:
    """The paper's people found 36, 54 and 82 by hand; its lists of matches are not published (docs/taxonomies.md)."""
    folder = Path(__file__).parents[2] / "taxonomy"
    found = compare(load_taxonomy(folder / "ovearth.v1.yaml"), read_other(folder / "eight_datasets.v1.csv"))

    assert found.counts() == {
        "ours": {"exact": 34, "hierarchy": 48, "unmatched": 90},
        "theirs": {"exact": 38, "hierarchy": 37, "unmatched": 40},
    }
    assert found.left_out == ("other-airplane", "other-ship", "other-vehicle", "background", "clutter/background")
