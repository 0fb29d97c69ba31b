"""One build at a time in a work folder: a lock that the system frees when its process ends, however it ends."""

import fcntl
import os
import time
from pathlib import Path

from trigpoint.errors import InputError

_POLL_S = 0.2
_held: dict[Path, int] = {}
"""Open lock files of this process by path: a process never waits for itself."""


def hold_lock(path: Path, wait_s: float) -> None:
    """Take the lock at `path` for this process, waiting for another one for `wait_s` seconds at most.

    Raises:
        InputError: another process holds it; names the file and the process.
    """
    path = path.resolve()
    if path in _held:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(file, 32, 0).decode().strip() or "unknown"
                os.close(file)
                raise InputError(
                    f"another build works in {path.parent} (process {holder}); wait for it, or give this one its own run.work"
                ) from None
            time.sleep(_POLL_S)
        else:
            break
    os.ftruncate(file, 0)
    os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    _held[path] = file


def release_lock(path: Path) -> None:
    """Give the lock at `path` back, if this process holds it."""
    file = _held.pop(path.resolve(), None)
    if file is not None:
        os.close(file)
