from pathlib import Path

import pytest
import yaml

from tests.unit.programs._town import TAXONOMY
from trigpoint.categories import FALSE, TRUE, UNDECIDED, Taxonomy, load_taxonomy, parse_tag_expression
from trigpoint.errors import TaxonomyError

ROOT = Path(__file__).parents[2]
SETTLEMENT = load_taxonomy(ROOT / "taxonomy" / "settlement.v1.yaml")


@pytest.mark.parametrize(
    ("expression", "tags", "expected"),
    [
        ("building", {"building": "yes"}, True),
        ("building", {}, False),
        ("building=house|hut", {"building": "hut"}, True),
        ("building & !demolished", {"building": "yes", "demolished": "yes"}, False),
        ("building!=no", {"building": "yes"}, True),
        ("building & amenity=school", {"building": "yes"}, False),
        ("sport=tennis|padel", {"sport": "soccer;tennis"}, True),
        ("sport=tennis", {"sport": "table_tennis;soccer"}, False),
        ("building!=no", {"building": "no;yes"}, False),
        ("sport=tennis", {}, False),
    ],
)
def test_tag_expressions(expression: str, tags: dict[str, str], expected: bool) -> None:
    assert parse_tag_expression(expression).matches(tags) is expected


def test_dirty_values_are_cleaned_by_the_stated_table_and_the_narrowest_category_wins() -> None:
    tags = {"building": "yes", "amenity": "place_of_worship", "roof:material": "concerte"}

    assert SETTLEMENT.values_from_tags(tags) == (("temple", "concrete_roof"), ())


def test_contradicting_tags_leave_the_axis_at_what_both_share() -> None:
    assert SETTLEMENT.values_from_tags({"building": "school", "amenity": "place_of_worship"}) == (("building",), ("kind",))


def test_a_feature_of_no_category_has_no_value_at_all() -> None:
    assert SETTLEMENT.values_from_tags({"roof:material": "tin"}) == ((), ())


@pytest.mark.parametrize(
    ("values", "category", "closed", "expected"),
    [
        (("school",), "building", set(), TRUE),
        (("building",), "school", set(), UNDECIDED),
        (("building",), "school", {"kind"}, FALSE),
        (("temple",), "school", set(), FALSE),
        (("building",), "tin_roof", set(), UNDECIDED),
        (("building",), "tin_roof", {"roof"}, FALSE),
        (("building", "tile_roof"), "tin_roof", set(), FALSE),
        (("road",), "tin_roof", set(), FALSE),
    ],
)
def test_membership_is_three_valued(values: tuple[str, ...], category: str, closed: set[str], expected: int) -> None:
    assert TAXONOMY.membership(values, category, frozenset(closed)) == expected


def test_unknown_category_names_the_nearest() -> None:
    with pytest.raises(TaxonomyError, match="nearest: temple"):
        TAXONOMY.get("tempel")


def test_nouns_join_the_axes() -> None:
    assert TAXONOMY.plural_noun(("tin_roof", "school")) == "schools with a tin roof"
    assert TAXONOMY.singular_noun(("temple",)) == "temple"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parent": "nothing"}, "parent 'nothing'"),
        ({"axis": "colour"}, "axis 'colour'"),
        ({"noun": None}, "noun and plural are needed"),
        ({"osm": ["=x"]}, "has no key"),
        ({"parent": "school"}, "form a circle"),
    ],
)
def test_inconsistent_taxonomies_are_refused_by_category(tmp_path: Path, change: dict[str, object], message: str) -> None:
    data = TAXONOMY.to_json()
    data["categories"][1] = {**data["categories"][1], **change}
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")

    with pytest.raises(TaxonomyError, match=message):
        load_taxonomy(path)


def test_nothing_in_code_names_a_category() -> None:
    names = {category.id for category in SETTLEMENT.categories} - {"building", "tree", "road"}
    sources = [p for folder in ("trigpoint", "storage", "tasks", "flows") for p in (ROOT / folder).rglob("*.py")]

    found = {name: p.name for p in sources for name in names if f'"{name}"' in p.read_text(encoding="utf-8")}

    assert found == {}
    assert isinstance(SETTLEMENT, Taxonomy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["school", "temple"], "both values of axis 'kind'"),
        (["tin_roof"], "nothing says what it is"),
        (["tin_roof", "road"], "describes 'building' alone"),
        (["scool"], "nearest: school"),
    ],
)
def test_values_of_one_thing_must_fit_together(values: list[str], message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        TAXONOMY.one_per_axis(values)


def test_values_of_one_thing_come_in_the_order_of_the_axes() -> None:
    assert TAXONOMY.one_per_axis(["tin_roof", "school"]) == ("school", "tin_roof")


def test_two_categories_of_one_name_are_refused(tmp_path: Path) -> None:
    data = TAXONOMY.to_json()
    data["categories"][2]["plural"] = data["categories"][1]["plural"]
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")

    with pytest.raises(TaxonomyError, match="'schools' names more than one category"):
        load_taxonomy(path)


def small(**said: object) -> dict[str, object]:
    """A taxonomy of two categories, the first with what is given."""
    car = {"id": "car", "axis": "kind", "noun": "car", "plural": "cars", **said}
    bus = {"id": "bus", "axis": "kind", "noun": "bus", "plural": "buses", "synonyms": ["coach"]}
    return {"name": "small", "version": 1, "axes": [{"id": "kind"}], "categories": [car, bus]}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"look_alikes": ["automobile"], "synonyms": ["automobile"]}, "'automobile' is listed as synonym and as look-alike"),
        ({"look_alikes": ["Vehicles"], "broader": ["vehicle"]}, "'Vehicles' is listed as broader and as look-alike"),
        ({"look_alikes": ["the cars"]}, "'the cars' is listed as name and as look-alike"),
        ({"look_alikes": ["coach"], "narrower": ["bus"]}, "look-alike 'coach' is also narrower"),
        ({"look_alikes": ["coach"], "parts": ["bus"]}, "look-alike 'coach' is also part"),
        ({"functions": ["where cars are driven"]}, r"function 'where cars are driven' contains its name 'cars?'"),
        ({"functions": ["an auto-mobile for all"], "synonyms": ["auto mobile"]}, "contains its name 'auto mobile'"),
        ({"vocabulary": ["parked car", "Parked-Car"]}, "vocabulary has 'parked car' more than once"),
        ({"look_alikes": ["sports_ground"]}, "look_alikes.0"),
        ({"synonyms": [" auto"]}, "synonyms.0"),
        ({"typical_size_m": [5, 3]}, "expected the smaller first"),
        ({"coarsest_gsd_m": 0}, "greater than 0"),
        ({"basis": {"functons": "paper"}}, "basis.functons"),
        ({"basis": {"functions": "guessed"}}, "basis.functions"),
    ],
)
def test_what_is_said_of_a_category_must_fit_together(tmp_path: Path, said: dict[str, object], message: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(yaml.safe_dump(small(**said)), encoding="utf-8")

    with pytest.raises(TaxonomyError, match=message):
        load_taxonomy(path)


def test_a_shared_word_makes_no_category_a_kind_of_another() -> None:
    taxonomy = Taxonomy.model_validate(small(vocabulary=["vehicle", "motor vehicle"], broader=["vehicle"]))

    assert taxonomy.get("car").other_names == ("motor vehicle",)
    assert taxonomy.name_relation("vehicle", "car") == "broader"
    assert taxonomy.name_relation("vehicle", "bus") == "other"
    assert taxonomy.categories_named("Motor-Vehicles") == ("car",)


def test_what_says_no_basis_is_unreviewed() -> None:
    taxonomy = Taxonomy.model_validate({**small(osm=["car"], parts=["wheel"], basis={"osm": "observed"}), "basis": {"synonyms": "paper"}})

    assert taxonomy.basis_of("car", "osm") == "observed"
    assert taxonomy.basis_of("bus", "synonyms") == "paper"
    assert taxonomy.basis_of("car", "parts") == "unreviewed"
    assert {field: dict(found) for field, found in taxonomy.filled_by_basis().items() if found} == {
        "osm": {"observed": 1},
        "synonyms": {"paper": 1},
        "parts": {"unreviewed": 1},
    }
