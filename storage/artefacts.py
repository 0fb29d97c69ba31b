"""The artefact store: files written once under their SHA-256, and append-only records.

Layout below the store's root, the same on a local folder and on any fsspec URL:

    sha256/ab/<digest><suffix>           artefacts
    records/<stream>/ab/<digest>.json    records (reviews, calls of language models, proposals), one file each

Not here: what an artefact means, which results are reused (tasks), rows about artefacts (`storage.catalogue`).
"""

import contextlib
import hashlib
import io
import json
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from trigpoint.errors import ArtefactError, InputError
from trigpoint.identity import canonical_json, digest_bytes, digest_file
from trigpoint.records.stage import ArtefactRef, ItemResult

ArtefactState = Literal["ok", "missing", "damaged"]
"""What `check` finds: `damaged` is a wrong size, or (deep) a wrong digest."""

STALE_TEMP_SECONDS = 3600.0
"""Age after which a temporary file is taken for the rest of a killed process, and removed."""

_TEMP_PREFIX = ".tmp-"
_BLOCK_BYTES = 1 << 20
_STREAM = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_REMEDY = "run the stage that made it again (a build rebuilds what is missing or damaged), or restore the file from a copy"

_log = logging.getLogger(__name__)


class ArtefactStore:
    """A content-addressed store on a local folder or any fsspec URL.

    A file is never trusted by its name: reading compares the digest of the bytes with the reference, and putting known
    bytes repairs a damaged file. Several processes may use one store at once.

    Args:
        location: A local folder (made when absent), `file://...`, or any fsspec URL such as `s3://bucket/store`.
        cache_folder: Where `local_path` keeps copies of files of a store that is not local; by default a folder of the
            user's cache directory. Copies are verified on every use.

    Raises:
        ArtefactError: fsspec knows no file system for the URL, or its package is not installed.
    """

    def __init__(self, location: str | Path, cache_folder: Path | None = None) -> None:
        self.location = str(location)
        self._files: _LocalFiles | _RemoteFiles
        if isinstance(location, Path) or "://" not in location:
            self._files = _LocalFiles(Path(location))
        elif location.startswith("file://"):
            self._files = _LocalFiles(Path(location.removeprefix("file://")))
        else:
            self._files = _RemoteFiles(location)
        self._cache_folder = cache_folder or _default_cache_folder()

    def put_bytes(self, data: bytes, suffix: str) -> ArtefactRef:
        """Store bytes and return their reference.

        Good bytes that are there already stay untouched; a damaged file under the same name is replaced.

        Args:
            data: The bytes.
            suffix: Extension with its dot, lower case (`.parquet`).
        """
        ref = ArtefactRef(sha256=digest_bytes(data), n_bytes=len(data), suffix=suffix)
        if self.check(ref, deep=True) != "ok":
            self._files.write(_path_of(ref), data)
        return ref

    def put_file(self, path: Path, suffix: str | None = None) -> ArtefactRef:
        """Store a copy of a local file and return its reference; the file itself stays where it is.

        Args:
            path: The file. It must not change meanwhile: the digest of what was copied decides.
            suffix: Extension with its dot; by default the file's own, in lower case.

        Raises:
            ArtefactError: the file cannot be read, or changed while it was copied.
        """
        try:
            ref = ArtefactRef(sha256=digest_file(path), n_bytes=path.stat().st_size, suffix=suffix or path.suffix.lower())
            if self.check(ref, deep=True) != "ok":
                found = self._files.copy_in(_path_of(ref), path, ref.sha256)
                if found != ref.sha256:
                    raise ArtefactError(
                        f"file {str(path)!r} changed while it was stored: expected sha256 {ref.sha256}, found {found}; "
                        "store it again when nothing writes to it"
                    )
        except OSError as error:
            raise ArtefactError(f"file {str(path)!r} cannot be stored: {error}; check that it exists and can be read") from error
        return ref

    def put_table(self, table: pa.Table) -> ArtefactRef:
        """Store an Arrow table as Parquet (zstd); the same rows and schema give the same bytes however they were chunked."""
        return self.put_bytes(parquet_bytes(table), ".parquet")

    def get_bytes(self, ref: ArtefactRef) -> bytes:
        """Return an artefact's bytes.

        Raises:
            ArtefactError: it is missing, or its bytes do not have its digest.
        """
        data = self._files.read(_path_of(ref))
        if data is None:
            raise ArtefactError(f"artefact {_name(ref)} is missing in store {self.location!r}; {_REMEDY}")
        found = digest_bytes(data)
        if found != ref.sha256:
            raise ArtefactError(self._damage(ref, f"sha256 {found}, {len(data)} bytes"))
        return data

    def get_table(self, ref: ArtefactRef) -> pa.Table:
        """Return an artefact that `put_table` stored.

        Raises:
            ArtefactError: it is missing, its bytes do not have its digest, or they are no Parquet file.
        """
        data = self.get_bytes(ref)
        try:
            return pq.ParquetFile(pa.BufferReader(data)).read()
        except pa.ArrowInvalid as error:
            raise ArtefactError(f"artefact {_name(ref)} is no Parquet file: {error}; read it with get_bytes") from error

    def check(self, ref: ArtefactRef, deep: bool = False) -> ArtefactState:
        """Say whether an artefact is there and whole.

        Args:
            ref: The artefact.
            deep: False compares the size alone; True reads the file and compares its digest.
        """
        path = _path_of(ref)
        size = self._files.size(path)
        if size is None:
            return "missing"
        if size != ref.n_bytes:
            return "damaged"
        if deep and self._files.digest(path) != ref.sha256:
            return "damaged"
        return "ok"

    def check_result(self, result: ItemResult, deep: bool = False) -> str | None:
        """Say why a stored result cannot be used again, or None when every file of it is good.

        Returns:
            A reason such as `artefact '...' (table 'scene') is missing`, for the log line of the item that is redone.
        """
        refs = [("table", name, ref) for name, ref in sorted(result.tables.items())]
        refs += [("file", name, ref) for name, ref in sorted(result.files.items())]
        for role, name, ref in refs:
            state = self.check(ref, deep)
            if state != "ok":
                return f"artefact {_name(ref)} ({role} {name!r}) is {state}"
        return None

    def local_path(self, ref: ArtefactRef) -> Path:
        """Return the path of a local file with an artefact's bytes, verified just now; do not write to it.

        Raises:
            ArtefactError: it is missing, or its bytes do not have its digest.
        """
        if isinstance(self._files, _LocalFiles):
            state = self.check(ref, deep=True)
            path = self._files.root / _path_of(ref)
            if state == "missing":
                raise ArtefactError(f"artefact {_name(ref)} is missing in store {self.location!r}; {_REMEDY}")
            if state == "damaged":
                raise ArtefactError(self._damage(ref, f"sha256 {self._files.digest(_path_of(ref))}"))
            return path
        cache = ArtefactStore(self._cache_folder)
        if cache.check(ref, deep=True) != "ok":
            cache.put_bytes(self.get_bytes(ref), ref.suffix)
        return self._cache_folder / _path_of(ref)

    def append_record(self, stream: str, record_json: dict[str, Any]) -> str:
        """Write one record for good (fsynced) and return the digest that names it; the same record twice is one record.

        Args:
            stream: What it is of, such as `review` or `llm_call`: lower case letters, digits, `_`, `-`.
            record_json: Plain JSON values.

        Raises:
            InputError: the stream's name is not allowed, or a value is not JSON (NaN, objects).
        """
        folder = _stream_folder(stream)
        try:
            data = canonical_json(record_json).encode()
        except (TypeError, ValueError) as error:
            raise InputError(f"record of stream {stream!r} is not plain JSON: {error}; use strings, finite numbers and lists") from error
        digest = digest_bytes(data)
        path = f"{folder}/{digest[:2]}/{digest}.json"
        if self._files.digest(path) != digest:
            self._files.write(path, data)
        return digest

    def iter_records(self, stream: str) -> Iterator[dict[str, Any]]:
        """Yield every record of a stream, in the order of their digests (times, where they matter, are in the record).

        Raises:
            ArtefactError: a record's bytes do not have the digest in its name.
        """
        for path in self._files.list_json(_stream_folder(stream)):
            digest = Path(path).stem
            data = self._files.read(path)
            found = None if data is None else digest_bytes(data)
            if data is None or found != digest:
                raise ArtefactError(
                    f"record {path!r} in store {self.location!r} is damaged: expected sha256 {digest}, found {found}; "
                    "restore the file from a copy, or remove it to go on without that record"
                )
            yield json.loads(data)

    def _damage(self, ref: ArtefactRef, found: str) -> str:
        return (
            f"artefact {_name(ref)} in store {self.location!r} is damaged: expected sha256 {ref.sha256}, {ref.n_bytes} bytes, "
            f"found {found}; {_REMEDY}"
        )


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as Parquet bytes that depend on rows, schema and pyarrow's version alone, not on chunks."""
    sink = io.BytesIO()
    pq.write_table(table.combine_chunks(), sink, compression="zstd", version="2.6", row_group_size=1 << 17, use_dictionary=True)
    return sink.getvalue()


def write_atomic(path: Path, data: bytes) -> None:
    """Write a local file so that it is either the old one or the whole new one, also after a power cut.

    A temporary file in the same folder is written, fsynced and renamed, then the folder is fsynced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.parent / f"{_TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        with temp.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


class _LocalFiles:
    """Files below a local folder, written durably."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.root.mkdir(parents=True, exist_ok=True)
        self._remove_stale()

    def _remove_stale(self) -> None:
        oldest = time.time() - STALE_TEMP_SECONDS
        for pattern in (f"sha256/*/{_TEMP_PREFIX}*", f"records/*/*/{_TEMP_PREFIX}*"):
            for temp in self.root.glob(pattern):
                with contextlib.suppress(FileNotFoundError):
                    if temp.is_file() and temp.stat().st_mtime < oldest:
                        temp.unlink()
                        _log.info("removed stale temporary file %s", temp)

    def size(self, path: str) -> int | None:
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None

    def digest(self, path: str) -> str | None:
        try:
            return digest_file(self.root / path)
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        write_atomic(self.root / path, data)

    def copy_in(self, path: str, source: Path, expected: str) -> str:
        """Copy a file in, block by block; keep it only when what was copied has the expected digest, which is returned."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temp = target.parent / f"{_TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        sha = hashlib.sha256()
        try:
            with source.open("rb") as reader, temp.open("xb") as writer:
                while block := reader.read(_BLOCK_BYTES):
                    sha.update(block)
                    writer.write(block)
                writer.flush()
                os.fsync(writer.fileno())
            if sha.hexdigest() == expected:
                temp.replace(target)
                fsync_folder(target.parent)
        finally:
            temp.unlink(missing_ok=True)
        return sha.hexdigest()

    def list_json(self, folder: str) -> list[str]:
        root = self.root / folder
        return sorted(file.relative_to(self.root).as_posix() for file in root.glob("*/*.json"))


class _RemoteFiles:
    """Files below an fsspec URL; object stores show a file only once it is whole."""

    def __init__(self, url: str) -> None:
        import fsspec

        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise ArtefactError(f"store {url!r} cannot be opened: {error}; use a local folder or install what fsspec asks for") from error

    def _full(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}"

    def size(self, path: str) -> int | None:
        try:
            return int(self._fs.info(self._full(path))["size"])
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes | None:
        try:
            return self._fs.cat_file(self._full(path))
        except FileNotFoundError:
            return None

    def digest(self, path: str) -> str | None:
        data = self.read(path)
        return None if data is None else digest_bytes(data)

    def write(self, path: str, data: bytes) -> None:
        full = self._full(path)
        self._fs.makedirs(full.rsplit("/", 1)[0], exist_ok=True)
        self._fs.pipe_file(full, data)

    def copy_in(self, path: str, source: Path, expected: str) -> str:
        data = source.read_bytes()
        found = digest_bytes(data)
        if found == expected:
            self.write(path, data)
        return found

    def list_json(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        root = self._full("")
        try:
            names = self._fs.find(self._full(folder))
        except FileNotFoundError:
            return []
        return sorted(str(name).removeprefix(root) for name in names if str(name).endswith(".json"))


def _path_of(ref: ArtefactRef) -> str:
    return f"sha256/{ref.sha256[:2]}/{ref.sha256}{ref.suffix}"


def _name(ref: ArtefactRef) -> str:
    return repr(f"{ref.sha256}{ref.suffix}")


def _stream_folder(stream: str) -> str:
    if not _STREAM.fullmatch(stream):
        raise InputError(f"record stream {stream!r} is not allowed, expected lower case letters, digits, '_' or '-' (at most 41)")
    return f"records/{stream}"


def _default_cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trigpoint" / "artefacts"


def fsync_folder(folder: Path) -> None:
    """Make names that were made or renamed in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
