"""What a taxonomy calls observed can be counted in the extract that the repository carries; what cannot be counted there is not."""

from pathlib import Path

import pytest

from storage.osm import read_osm
from trigpoint.categories import Taxonomy, load_taxonomy

ROOT = Path(__file__).parents[2]
TAGS = [
    feature.tags for osm in [read_osm(ROOT / "examples" / "banepa" / "data" / "banepa.osm.pbf")] for feature in (*osm.nodes, *osm.areas)
]


@pytest.mark.parametrize("name", ["settlement", "ovearth"])
def test_observed_tag_expressions_are_those_that_find_something(name: str) -> None:
    taxonomy: Taxonomy = load_taxonomy(ROOT / "taxonomy" / f"{name}.v1.yaml")
    counted = {category.id: 0 for category in taxonomy.categories if category.osm}
    for tags in TAGS:
        for found in taxonomy.match_tags(tags):
            counted[found] += 1
    observed = {category_id for category_id in counted if taxonomy.basis_of(category_id, "osm") == "observed"}

    assert observed == {category_id for category_id, n in counted.items() if n}
    assert sum(counted.values()) > 0
