from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from trigpoint.documents import read_yaml, told_all
from trigpoint.errors import ConfigError, TaxonomyError


class Part(BaseModel):
    n: int = Field(default=1, ge=1)
    names: tuple[str, ...] = Field(default=("a",), min_length=1)
    shares: dict[str, float] = {}
    url: str = Field(default="https://x", pattern="^https://[^@]+$")
    variable: str = Field(default="KEY", pattern="^[A-Z]+$")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"n": 0}, "n: Input should be greater than or equal to 1; found 0"),
        ({"n": "many"}, "n: Input should be a valid integer, unable to parse string as an integer; found 'many'"),
        ({"n": None}, "n: Input should be a valid integer; found nothing"),
        ({"names": "a"}, "names: Input should be a list; found 'a'"),
        ({"names": []}, "names: List should have at least 1 item after validation, not 0"),
        ({"names": [{"a": 1}, "b"]}, "names.0: Input should be text; found a mapping"),
        ({"shares": [1]}, "shares: Input should be a mapping; found a list"),
        ({"shares": {"a": "x" * 100}}, f"shares.a: Input should be a valid number, unable to parse string as a number; found '{'x' * 59}…"),
        ("text", "file: Input should be a valid dictionary or instance of Part; found 'text'"),
    ],
)
def test_a_problem_says_where_what_was_expected_and_what_was_found(value: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Part.model_validate(value)

    assert told_all(caught.value) == message.replace("a valid dictionary", "a mapping")


@pytest.mark.parametrize("value", [{"url": "https://me:secret@x"}, {"variable": "sk-secret"}, {"n": "https://x?key=secret"}])
def test_what_may_be_a_key_is_not_repeated(value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        Part.model_validate(value)

    assert "secret" not in told_all(caught.value)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"a: \xff", ConfigError, r"thing .*t\.yaml: is no text in UTF-8 \(.*\); look again"),
        (b"a: [", TaxonomyError, r"thing .*t\.yaml: not valid YAML"),
        (b"b:\n  a: 1\n  c: 2\n  a: 3\n", ConfigError, r"thing .*t\.yaml: not valid YAML: the key 'a' is given twice"),
    ],
)
def test_files_that_are_no_yaml_are_named(tmp_path: Path, data: bytes, error: type[ConfigError], message: str) -> None:
    (tmp_path / "t.yaml").write_bytes(data)

    with pytest.raises(error, match=message):
        read_yaml(tmp_path / "t.yaml", "thing", error, "look again")
    with pytest.raises(error, match=r"none\.yaml: cannot be read \(No such file or directory\); look again"):
        read_yaml(tmp_path / "none.yaml", "thing", error, "look again")


def test_mappings_may_share_what_an_anchor_holds(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("own: &own {licence: CC0-1.0, by: us}\na: {<<: *own, by: them}\n")

    assert read_yaml(tmp_path / "t.yaml", "thing", ConfigError, "")["a"] == {"licence": "CC0-1.0", "by": "them"}
