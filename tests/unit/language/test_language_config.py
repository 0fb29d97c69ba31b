"""The `language` block: what is refused, and what changes a release."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.tiny_project import make_project
from trigpoint.config import LANGUAGE_PLACES, LanguageConfig, load_config
from trigpoint.errors import ConfigError


def test_the_default_is_offline_and_needs_nothing() -> None:
    settings = LanguageConfig()

    assert (settings.provider, settings.mode, settings.key_variable) == ("offline", "live", "OPENAI_API_KEY")


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "https://user:secret@example.org/v1"},
        {"base_url": "https://example.org/v1?key=secret"},
        {"base_url": "file:///etc/passwd"},
        {"key_variable": "sk-secret"},
        {"max_cost": 1.0},
        {"max_cost": 1.0, "prices": {"other": {"input": 1, "output": 2}}},
        {"concurrency": 0},
        {"attempts": 0},
        {"temperature": -1},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LanguageConfig.model_validate(wrong)


def configured(path: Path, language: dict[str, Any]) -> Path:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump({**data, "language": language}), encoding="utf-8")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def test_a_key_pasted_into_the_configuration_is_refused_without_being_repeated(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"language\.key_variable") as error:
        load_config(configured(path, {"key_variable": "sk-secret-123"}))

    assert "sk-secret-123" not in str(error.value)


def test_an_unknown_key_of_a_price_is_told_with_the_nearest_name(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"language\.prices\.gpt-5-mini\.imput: unknown key 'imput'; did you mean 'input'"):
        load_config(configured(path, {"prices": {"gpt-5-mini": {"imput": 1, "input": 1, "output": 2}}}))


def test_how_a_server_is_reached_and_paid_changes_no_release_and_what_is_asked_does(path: Path) -> None:
    plain = load_config(configured(path, {"provider": "openai"}))
    places = {
        "api": "chat", "base_url": "http://127.0.0.1:9/v1", "key_variable": "OTHER_KEY", "mode": "replay", "concurrency": 9,
        "requests_per_minute": 5, "tokens_per_minute": 5, "max_tokens": 5, "max_cost": 5.0,
        "prices": {"gpt-5-mini": {"input": 1, "output": 2}}, "timeout_s": 5, "attempts": 2, "backoff_s": 3, "max_wait_s": 4,
        "batch_poll_s": 3, "batch_wait_s": 4,
    }  # fmt: skip

    assert set(places) == set(LANGUAGE_PLACES)
    assert load_config(configured(path, {"provider": "openai", **places})).sha256() == plain.sha256()
    for more in ({"model": "gpt-6"}, {"temperature": 0.5}, {"seed": 4}, {"max_output_tokens": 9}):
        assert load_config(configured(path, {"provider": "openai", **more})).sha256() != plain.sha256()
