"""Runs of both stages, each killed with SIGKILL at a random moment, then two at once that may finish; prints what was seen as JSON.

A program of its own, so that it can fork a process per run while no other thread is there:
`python -m tests.llm_killed_runs URL FOLDER TARGETS KILLS`.
"""

import json
import os
import random
import signal
import ssl
import sys
import time
from pathlib import Path

from storage.calls import CallRecord
from tests.llm_targets import target, targets
from trigpoint.config import LanguageConfig
from trigpoint.language.openai_provider import OpenAIProvider
from trigpoint.language.provider import TargetRequest, ask_all

PROMPTS = Path(__file__).parents[1] / "prompts"


def run(url: str, folder: Path, requests: list[TargetRequest]) -> None:
    settings = LanguageConfig.model_validate({"provider": "openai", "base_url": url, "backoff_s": 0.01, "concurrency": 4})
    with OpenAIProvider(settings, PROMPTS, CallRecord(folder), "release-1") as provider:
        ask_all(provider, requests)


def start(url: str, folder: Path, requests: list[TargetRequest]) -> int:
    child = os.fork()
    if child == 0:
        try:
            run(url, folder, requests)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return child


def main(url: str, folder: Path, n_targets: int, n_kills: int) -> None:
    # done once for all runs: certificates, pictures and first imports are most of what a run would take
    context = ssl.create_default_context()
    ssl.create_default_context = lambda *_, **__: context
    requests = targets(n_targets)
    run(url, folder.with_name("warm-up"), [target("warm up")])
    moments = random.Random(20)
    path = folder / "calls.jsonl"
    killed, recorded, under_way = 0, [], set()
    for _ in range(n_kills):
        grown = _size(path) + moments.randrange(12_000)
        child = start(url, folder, requests)
        while _size(path) < grown:
            time.sleep(0.0005)
        time.sleep(moments.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        record = CallRecord(folder)
        lines = [line for _, line in record.lines()]
        done = {line.key for line in lines if line.line == "answered" and line.outcome == "answered"}
        under_way |= {line.key for line in lines if line.line == "asked" and line.key not in done}
        recorded.append(len(done))
        record.close()
    # the last two run side by side
    last = [start(url, folder, requests) for _ in range(2)]
    if any(os.waitpid(child, 0)[1] != 0 for child in last):
        raise SystemExit("the last runs failed")
    sys.stdout.write(json.dumps({"killed": killed, "recorded_after_kills": recorded, "under_way_at_kills": sorted(under_way)}))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
