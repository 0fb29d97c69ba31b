"""What machines proposed: proposals.jsonl against the instances that come from them, and the manifest's proposers.

Written from docs/release-format.md ("proposals.jsonl").
"""

import itertools
import json
from collections import Counter
from typing import Any, cast

from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import Release, read_lines

PROPOSALS = "proposals.jsonl"
MANIFEST = "manifest.json"
IDENTITY = ("proposer", "model", "version", "weights_sha256", "device")
LINE_KEYS = (*IDENTITY, "n_pieces", "prompt", "proposal_id", "scene_id", "score", "specks_px")
PROPOSER_KEYS = (*IDENTITY, "answers", "instances", "versions")
PROMPT_KEYS = ("categories", "origin", "shape", "source_id")
ORIGINS = ("poi", "footprint", "drawn", "automatic")


def check_proposals(release: Release, notes: Notebook) -> None:
    """Check that every machine's instance names a proposal that is there, and that the proposers are those of the proposals."""
    lines: dict[str, dict[str, Any]] = {}
    if (release.folder / PROPOSALS).exists():
        with notes.guard("table_unreadable", PROPOSALS):
            for number, text in enumerate(read_lines(release.folder, PROPOSALS), start=1):
                with notes.guard("proposal_wrong", PROPOSALS, f"line {number}"):
                    line = _line(json.loads(text))
                    if lines and line["proposal_id"] <= next(reversed(lines)):
                        notes.add(
                            "proposal_wrong", PROPOSALS, line["proposal_id"], "sorted by id, each once", "another order, or one twice"
                        )
                    lines[line["proposal_id"]] = line
            if not lines:
                notes.add("proposal_wrong", PROPOSALS, "", "no file where no instance comes of a proposal", "an empty one")
    named: Counter[str] = Counter()
    for instance in release.instances.values():
        notes.count("proposals")
        own = [source for source in instance.source_ids if source.startswith("p-")]
        named.update(own)
        if not own and instance.proposal in ("sam2", "classical"):
            notes.add("proposal_wrong", "instances.parquet", instance.instance_id, "a proposal among source_ids", list(instance.source_ids))
        for source in own:
            line = lines.get(source)
            if line is None or line["scene_id"] != instance.scene_id:
                expected = f"a proposal of {instance.scene_id} in {PROPOSALS}"
                notes.add("proposal_wrong", "instances.parquet", instance.instance_id, expected, source)
    for proposal_id in lines.keys() - named.keys():
        notes.add("proposal_wrong", PROPOSALS, proposal_id, "a proposal that an instance comes from", "none does")
    with notes.guard("proposer_wrong", MANIFEST, "proposers"):
        _check_proposers(release.manifest["proposers"], list(lines.values()), notes)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    if sorted(row) != sorted(LINE_KEYS):
        raise ValueError(f"the keys are {sorted(LINE_KEYS)}, found {sorted(row)}")
    prompt = cast("dict[str, Any]", row["prompt"])
    if sorted(prompt) != list(PROMPT_KEYS) or prompt["origin"] not in ORIGINS or not prompt["source_id"]:
        raise ValueError(f"prompt has {list(PROMPT_KEYS)} and an origin of {', '.join(ORIGINS)}, found {prompt}")
    score = row["score"]
    if score is not None and (type(score) not in (int, float) or not 0 <= score <= 1):
        raise ValueError(f"score is a number from 0 to 1, or null, found {score!r}")
    if not str(row["proposal_id"]).startswith("p-"):
        raise ValueError(f"proposal_id starts with p-, found {row['proposal_id']!r}")
    for name, least in (("n_pieces", 1), ("specks_px", 0)):
        if type(row[name]) is not int or row[name] < least:
            raise ValueError(f"{name} is a whole number from {least}, found {row[name]!r}")
    return row


def _who(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(json.dumps(row[name]) for name in IDENTITY)


def _check_proposers(rows: Any, lines: list[dict[str, Any]], notes: Notebook) -> None:
    if not isinstance(rows, list):
        notes.add("proposer_wrong", MANIFEST, "proposers", "a list", rows)
        return
    listed = cast("list[dict[str, Any]]", rows)
    found = Counter(_who(line) for line in lines)
    keys: list[str] = []
    for number, row in enumerate(listed):
        item = f"proposers[{number}]"
        notes.count("proposers")
        if sorted(row) != sorted(PROPOSER_KEYS):
            notes.add("proposer_wrong", MANIFEST, item, sorted(PROPOSER_KEYS), sorted(row))
            continue
        if row["instances"] != found[_who(row)]:
            notes.add("proposer_wrong", MANIFEST, f"{item}.instances", found[_who(row)], row["instances"])
        if type(row["answers"]) is not int or row["answers"] < 0:
            notes.add("proposer_wrong", MANIFEST, f"{item}.answers", "a whole number from 0", row["answers"])
        if row["proposer"] == "sam2" and not row["weights_sha256"]:
            notes.add("proposer_wrong", MANIFEST, f"{item}.weights_sha256", "the digest of the weights", row["weights_sha256"])
        keys.append(json.dumps([_who(row), row["versions"]], sort_keys=True))
    for who in found.keys() - {_who(row) for row in listed if sorted(row) == sorted(PROPOSER_KEYS)}:
        notes.add("proposer_wrong", MANIFEST, "proposers", f"a row of {', '.join(who)}", "none")
    if any(one == other for one, other in itertools.pairwise(sorted(keys))):
        notes.add("proposer_wrong", MANIFEST, "proposers", "each once", "one twice")
