"""YAML that people write, and what is wrong with it in words. Not here: what a document must hold (its own records)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trigpoint.errors import InputError

_LOADER: Any = type("Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
"""A safe loader, at a tenth of the time where libyaml is there, that refuses a key given twice."""


def _mapping(loader: Any, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    """Construct a mapping as PyYAML does, which would take the last of several values."""
    keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
    twice = next((key for key, n in keys.items() if n > 1 and key != "<<"), None)
    if twice is not None:
        raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} is given twice", node.start_mark)
    mapping: dict[Any, Any] = {}
    yield mapping
    mapping.update(loader.construct_mapping(node))


_LOADER.add_constructor("tag:yaml.org,2002:map", _mapping)

_WORDS = {"a valid tuple": "a list", "a valid list": "a list", "a valid dictionary": "a mapping", "a valid string": "text", "Tuple": "List"}
"""Python's words, and those of YAML."""

_UNSHOWN = ("missing", "value_error", "extra_forbidden", "too_short", "too_long", "string_pattern_mismatch")
"""Kinds of problems whose message names what was found, or that nothing was; or whose value may be a key in the wrong place."""

MOST_SHOWN = 60
"""Characters of a value that a message repeats."""


def read_yaml(path: Path, what: str, error_type: type[InputError], advice: str) -> Any:
    """Read a YAML file.

    Args:
        path: UTF-8.
        what: Names it in messages, such as `taxonomy`.
        error_type: The class to raise.
        advice: What to do when the file cannot be read.

    Raises:
        InputError: (as `error_type`) the file cannot be read, is no text in UTF-8 or no YAML, or a key is given twice.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except OSError as error:
        raise error_type(f"{what} {path}: cannot be read ({error.strerror}); {advice}") from error
    except UnicodeDecodeError as error:
        raise error_type(f"{what} {path}: is no text in UTF-8 ({error}); {advice}") from error
    except yaml.YAMLError as error:
        raise error_type(f"{what} {path}: not valid YAML: {error}") from error


def told(error: ErrorDetails) -> str:
    """Say what is wrong with a value: what was expected and what was found; URLs are not repeated, since they may hold a key."""
    message = error["msg"].removeprefix("Value error, ")
    for python, plain in _WORDS.items():
        message = message.replace(python, plain)
    found: Any = error["input"]
    if error["type"] in _UNSHOWN or (isinstance(found, str) and "://" in found):
        return message
    return f"{message}; found {_shown(found)}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def told_all(error: ValidationError) -> str:
    """Say everything that is wrong, each with its place, in one line."""
    return "; ".join(f"{place_of(each) or 'file'}: {told(each)}" for each in error.errors())


def place_of(error: ErrorDetails) -> str:
    """Return where a problem is, such as `sources.0.imagery.path`; empty at the top."""
    return ".".join(str(part) for part in error["loc"])
