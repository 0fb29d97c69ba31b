"""Digests of source files and of code: what a stage key is made of.

`source_digest` remembers the digests of large files; `code_digest` covers a module with everything first-party that it
imports. Not here: what enters a key (tasks), digests of values (`trigpoint.identity`).
"""

import ast
import json
import time
from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from storage.artefacts import write_atomic
from trigpoint.errors import ConfigError, InputError
from trigpoint.identity import digest_bytes, digest_file, digest_json

FIRST_PARTY = ("trigpoint", "storage", "tasks")
"""Packages whose code enters `code_digest`; others enter by the version of their library."""

SETTLED_SECONDS = 2.0
"""A digest is remembered only when the file was last written at least so long before it was read: within the coarsest step
of a file system's clock a second write would keep the same time."""

CHECKOUT = Path(__file__).resolve().parent.parent
"""The folder that holds `trigpoint/`, `storage/` and `tasks/`."""


def source_digest(path: str | Path, cache_path: Path | None = None) -> str:
    """Return the SHA-256 of a file's bytes.

    Args:
        path: The file.
        cache_path: A JSON file that remembers digests by path, size, time of last change and inode; a file that differs in
            any of these is read again. A cache that cannot be read is begun anew.

    Raises:
        InputError: the file cannot be read.
    """
    path = Path(path)
    try:
        if cache_path is None:
            return digest_file(path)
        return _cached_digest(path.resolve(), cache_path)
    except OSError as error:
        raise InputError(f"file {str(path)!r} cannot be read: {error.strerror}; check the path in the configuration") from error


def _cached_digest(path: Path, cache_path: Path) -> str:
    key = str(path)
    before = _stamp(path)
    known = _read_cache(cache_path).get(key)
    if isinstance(known, dict) and known.get("stamp") == before:
        return str(known["sha256"])
    digest = digest_file(path)
    after = _stamp(path)
    if before == after and time.time_ns() - before[1] >= SETTLED_SECONDS * 1e9:
        cache = {**_read_cache(cache_path), key: {"stamp": before, "sha256": digest}}
        write_atomic(cache_path, json.dumps(cache, sort_keys=True, indent=0).encode())
    return digest


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _read_cache(cache_path: Path) -> dict[str, Any]:
    try:
        cache = json.loads(cache_path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cache if isinstance(cache, dict) else {}


def code_digest(module_name: str, data_files: Iterable[Path], libraries: Iterable[str], root: Path = CHECKOUT) -> str:
    """Return the digest of everything that decides what a module computes.

    Covered are the syntax trees (no comments, layout or docstrings) of the module and of every first-party module that it
    imports, directly or through others, also inside functions, with the `__init__` of their packages; the bytes of data
    files, by name; and the versions of libraries. A module that is loaded by a computed name is not seen: list it as data.

    Args:
        module_name: Dotted name, such as `tasks.annotate`.
        data_files: Prompts, taxonomies: their names and bytes count, not their folders.
        libraries: Names of installed distributions that compute (`numpy`, `shapely`).
        root: The checkout; only tests need another one.

    Raises:
        ConfigError: the module, a data file or a library is not there, or a module is not Python.
    """
    modules = {name: _parsed(path).digest for name, path in _modules_of(module_name, root).items()}
    try:
        data = sorted([path.name, digest_file(path)] for path in data_files)
    except OSError as error:
        raise ConfigError(f"data file {error.filename!r} cannot be read: {error.strerror}; check the configuration") from error
    return digest_json({"modules": modules, "data": data, "libraries": {name: _library_version(name) for name in libraries}})


def list_code(module_name: str, root: Path = CHECKOUT) -> list[str]:
    """Return the names of the first-party modules that `code_digest` of a module covers, sorted.

    Raises:
        ConfigError: the module is not there, or not Python.
    """
    return sorted(_modules_of(module_name, root))


class _Parsed(NamedTuple):
    digest: str
    imports: tuple[tuple[int, str, tuple[str, ...]], ...]
    """(level of a relative import, module, imported names)."""


def _modules_of(module_name: str, root: Path) -> dict[str, Path]:
    start = _find(module_name, root)
    if start is None:
        raise ConfigError(f"module {module_name!r} is not in {list(FIRST_PARTY)} of the checkout; give a dotted name such as 'tasks.boxes'")
    found: dict[str, Path] = {}
    waiting = [module_name]
    while waiting:
        name = waiting.pop()
        path = _find(name, root)
        if name in found or path is None:
            continue
        found[name] = path
        parts = name.split(".")
        waiting += [".".join(parts[:n]) for n in range(1, len(parts))]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for level, module, names in _parsed(path).imports:
            base = _absolute(package, level, module)
            waiting += [base, *(f"{base}.{each}" for each in names)]
    return dict(sorted(found.items()))


def _absolute(package: str, level: int, module: str) -> str:
    if level == 0:
        return module
    parts = package.split(".")
    kept = parts[: len(parts) - (level - 1)]
    return ".".join([*kept, module] if module else kept)


def _find(name: str, root: Path) -> Path | None:
    parts = name.split(".")
    if parts[0] not in FIRST_PARTY or not all(part.isidentifier() for part in parts):
        return None
    folder = root.joinpath(*parts)
    for path in (folder / "__init__.py", folder.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _parsed(path: Path) -> _Parsed:
    found = path.stat()
    return _parse(str(path), found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=4096)
def _parse(path: str, size: int, mtime_ns: int) -> _Parsed:
    """Parse a file once per process; size and time are there to notice that it changed."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except SyntaxError as error:
        raise ConfigError(f"module file {path!r} is not Python: {error}; repair it") from error
    imports: list[tuple[int, str, tuple[str, ...]]] = []
    text = _text_of_tree(tree, imports)
    return _Parsed(digest_bytes(text.encode("utf-8", "surrogatepass")), tuple(imports))


def _text_of_tree(tree: ast.AST, imports: list[tuple[int, str, tuple[str, ...]]]) -> str:
    """Write a syntax tree without positions and bare strings (docstrings, notes under constants), and collect its imports.

    One pass over all nodes, because this is most of the time that a stage key costs; `ast.dump` and two walks take twice it.
    """
    parts: list[str] = []
    stack: list[Any] = [tree]
    while stack:
        value = stack.pop()
        if isinstance(value, ast.AST):
            kind = value.__class__
            parts.append(kind.__name__)
            values = value.__dict__
            stack.extend([values.get(field) for field in kind._fields])
            if kind is ast.Import:
                imports.extend((0, alias.name, ()) for alias in values["names"])
            elif kind is ast.ImportFrom:
                imports.append((values["level"], values["module"] or "", tuple(alias.name for alias in values["names"])))
        elif value.__class__ is list:
            kept = [each for each in value if not _is_text(each)]
            parts.append(f"[{len(kept)}")
            stack.extend(kept)
        else:
            parts.append(repr(value))
    return "\n".join(parts)


def _is_text(node: Any) -> bool:
    """Whether a statement is a bare string: a docstring, or the note under a constant."""
    return node.__class__ is ast.Expr and node.value.__class__ is ast.Constant and node.value.value.__class__ is str


@lru_cache(maxsize=256)
def _library_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError as error:
        raise ConfigError(f"library {name!r} is not installed, expected a distribution name such as 'numpy'; install it") from error
