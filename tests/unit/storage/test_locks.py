"""One build at a time in a work folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from storage.locks import hold_lock, release_lock
from trigpoint.errors import InputError

HOLDER = (
    "import sys, time; from pathlib import Path; from storage.locks import hold_lock\n"
    "hold_lock(Path(sys.argv[1]), 0)\nprint('held', flush=True)\ntime.sleep(60)"
)


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "build.lock")], cwd=root, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_with_the_first_ones_name_until_that_is_killed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    lock = tmp_path / "build.lock"

    with pytest.raises(InputError, match=rf"another build works in .* \(process {holder.pid}\)"):
        hold_lock(lock, 0.3)
    holder.kill()
    holder.communicate()
    hold_lock(lock, 5)
    release_lock(lock)


def test_a_process_does_not_wait_for_itself(tmp_path: Path) -> None:
    hold_lock(tmp_path / "build.lock", 0)
    hold_lock(tmp_path / "build.lock", 0)
    release_lock(tmp_path / "build.lock")
    release_lock(tmp_path / "build.lock")
