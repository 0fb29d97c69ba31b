"""OVEarth-Bench's tables 8 and 9 come out of its tables 6, 7 and 10 to the printed digit.

tests/data/ovearth: the numbers of the paper's tables 6 and 7 (scores.csv) and 10 (contrasts.csv, with table 9's annotations).
Source: arXiv 2607.27278.
"""

import csv
from pathlib import Path

import pytest

from trigpoint.analysis.analyse import Analysis, analyse
from trigpoint.analysis.material import read_tables
from trigpoint.errors import InputError

DATA = Path(__file__).parents[2] / "data" / "ovearth"


@pytest.fixture(scope="module")
def published() -> Analysis:
    return analyse(read_tables([DATA / "scores.csv", DATA / "contrasts.csv"]))


def test_table_8_aggregation(published: Analysis) -> None:
    printed = [
        (form, n_models, f"{annotations:.3f}", f"{categories:.3f}", f"{shared}/{top}")
        for form, n_models, annotations, categories, top, _, shared in published.page.table("aggregation").rows
    ]

    assert printed == [
        ("vocabulary", 49, "0.999", "0.996", "10/10"),
        ("referring", 32, "0.997", "0.997", "10/10"),
        ("reasoning", 31, "0.998", "0.994", "9/10"),
    ]


def test_table_9_query_forms(published: Analysis) -> None:
    printed = [
        (name, models, n, f"{rho:.2f}", higher, lower) for name, models, n, rho, higher, lower, _ in published.page.table("contrasts").rows
    ]

    assert printed == [
        ("referring − vocabulary", 31, 495, "0.95", 20, 11),
        ("reasoning − vocabulary", 30, 568, "0.96", 17, 13),
        ("reasoning − referring", 31, 478, "0.98", 12, 19),
    ]


def test_the_largest_changes_are_those_that_the_paper_names(published: Analysis) -> None:
    change = {(row[0], row[1]): round(row[4], 2) for row in published.page.table("contrasts_by_model").rows}

    # the paper's text prints -7.43, which it rounds from scores with more digits than its table has
    assert change["referring − vocabulary", "SegEarth-R2"] == -7.44
    assert (change["referring − vocabulary", "UniGeoSeg"], change["referring − vocabulary", "LocateAnything+SAM"]) == (7.79, 8.12)
    assert ("reasoning − vocabulary", "RemoteSAM") not in change, "a dash is no score"


def test_intervals_hold_the_correlation(published: Analysis) -> None:
    for _, _, _, rho, low, high, _ in published.page.table("correlations").rows:
        assert low <= rho <= high


def test_names_that_look_like_formulas_are_guarded_in_csv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('model,Q\n"=HYPERLINK(""x"")",1\n-7B,2\n')

    page = analyse(read_tables([tmp_path / "t.csv"])).page
    page.write_csv(tmp_path / "csv")

    with (tmp_path / "csv" / "scores.csv").open(newline="") as file:
        assert sorted(row["model"] for row in csv.DictReader(file)) == ["'-7B", '\'=HYPERLINK("x")']


def test_published_means_say_what_they_cannot_be_split_into(published: Analysis) -> None:
    assert published.page.table("category_subsets").rows == ()
    assert "prediction files" in published.page.table("category_subsets").notes[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("name,Q\na,1\n", "has the columns", id="columns"),
        pytest.param("model,Q\na,1,2\n", "line 2 has another number of cells", id="cells"),
        pytest.param("model,Q\na,1\na,2\n", "line 3: model 'a' has scores", id="twice"),
        pytest.param("model,Q\na,nan\n", "line 2: Q is 'nan'", id="nan"),
        pytest.param("model,Q\n,1\n", "line 2 names no model", id="no-model"),
        pytest.param("", "has the columns", id="empty"),
        pytest.param("model,Q\n", "has columns but no line below them", id="no-rows"),
        pytest.param("model,Q,Q\na,1,2\n", r"has the columns \['Q'\] more than once", id="column-twice"),
        pytest.param("model,Q\na,101\n", "line 2: Q is '101', expected per cent", id="over-100"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(text)

    with pytest.raises(InputError, match=told):
        read_tables([tmp_path / "t.csv"])
