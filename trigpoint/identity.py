"""Identity by content: canonical JSON, digests, ids and seeded generators.

Every id in trigpoint derives from what a thing is (a source digest and a window, a scene and a program), never from
order or time. Not here: file walking (storage) and stage keys (tasks).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

ID_DIGITS = 16
"""Hex digits of a SHA-256 that an id keeps: 64 bits, so that a million ids collide with probability 3e-8."""

_BLOCK_BYTES = 1 << 20


def canonical_json(value: Any) -> str:
    """Write a JSON value in one fixed way: sorted keys, no spaces, no NaN, non-ASCII kept.

    Raises:
        ValueError: a float is NaN or infinite.

    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value` as 64 hex digits."""
    return digest_bytes(canonical_json(value).encode())


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits, reading it in blocks."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            sha.update(block)
    return sha.hexdigest()


def make_id(prefix: str, *parts: Any) -> str:
    """Make an id such as `s-0123456789abcdef` from the content that identifies a thing.

    >>> make_id("s", "abc", [0, 0, 8, 8]) == make_id("s", "abc", [0, 0, 8, 8])
    True
    """
    return f"{prefix}-{digest_json(list(parts))[:ID_DIGITS]}"


def seeded_generator(seed: int, *parts: Any) -> np.random.Generator:
    """Return a generator seeded by (seed, content), so that no draw depends on order or process.

    Source: PCG64 of numpy; the stream is fixed by numpy's compatibility policy for `Generator.random` on PCG64.
    """
    return np.random.Generator(np.random.PCG64(int(digest_json([seed, *parts])[:32], 16)))
