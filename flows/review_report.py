"""The command `trigpoint review --report`: how far a review is and what people did so far, without a page or a build. Loaded by name."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.desk import WorkspaceDesk
from tasks.last_build import last_build
from tasks.review import orphans_of, told_damaged, told_orphans
from tasks.workspace import Workspace
from trigpoint.cli import GOOD, make_table, out, print_json, print_line, say
from trigpoint.review.report import desk_report

STATES = ("approved", "rejected", "returned", "waiting")


def report(config: Path, *, scenes: Sequence[str], as_json: bool) -> int:
    """Print progress, change rates, agreement, spot checks, and decisions without effect; returns the exit code."""
    workspace = Workspace(config.resolve())
    workspace.check()
    found = last_build(workspace)
    orphans, damaged = orphans_of(workspace, found.done), workspace.ledger.damaged
    said = desk_report(WorkspaceDesk(workspace, found.done, scenes))
    if as_json:
        without_effect = [{"decision_id": one.decision_id, **one.to_json()} for one in orphans]
        print_json({**said, "without_effect": without_effect, "damaged": damaged, "remarks": list(found.remarks)})
        return GOOD
    _print_tables(said)
    for remark in found.remarks:
        say(remark, style="yellow")
    if orphans:
        say(told_orphans(orphans), style="yellow")
    if damaged:
        say(told_damaged(damaged), style="yellow")
    return GOOD


def _print_tables(said: Mapping[str, Any]) -> None:
    """Print everything by kind, then the scenes that wait, what people did, and how well they agree."""
    rows: list[dict[str, Any]] = said["progress"]
    if not rows:
        print_line("there is nothing to decide about")
        return
    head = ("items", *STATES, "waits for")
    kinds = dict.fromkeys(row["kind"] for row in rows)
    _print("Progress", ("kind", *head), ((kind, *_summed(row for row in rows if row["kind"] == kind)) for kind in kinds))
    waiting = [row for row in rows if row["returned"] + row["waiting"]]
    if waiting:
        listed = ((row["scene_id"], row["kind"], *_summed([row])) for row in waiting)
        _print("Scenes that wait for people", ("scene", "kind", *head), listed)
    n_scenes, n_waiting = (len({row["scene_id"] for row in some}) for some in (rows, waiting))
    print_line(f"\n{n_scenes - n_waiting} of {n_scenes} scenes are decided")
    if said["changed"]:
        _print(
            "What people did",
            ("kind", "as", "decided about", "changed", "rejected", "removed", "changed or removed"),
            (line for kind, found in said["changed"].items() for line in _rates(kind, found)),
        )
    if said["spot_check"]:
        _print(
            "Spot checks, of the drawn items alone",
            ("kind", "drawn", "decided", "wrong", "share", "95 % interval"),
            (_spot_check(kind, found) for kind, found in said["spot_check"].items()),
        )
    _print_agreement(said["agreement"])


def _print(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    print_line("")
    out.print(make_table(columns, rows, title=title))


def _summed(rows: Iterable[Mapping[str, Any]]) -> tuple[Any, ...]:
    listed = list(rows)
    waits_for: Counter[str] = Counter()
    for row in listed:
        waits_for.update(row["waits_for"])
    told = ", ".join(f"{who} {n}" for who, n in sorted(waits_for.items()))
    return (*(sum(row[name] for row in listed) for name in ("items", *STATES)), told)


def _rates(kind: str, found: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    """A row for everybody, then one for each role."""
    for who, rate in (("all", found), *found["by_role"].items()):
        changed, either = (_counted(rate[name], rate[share]) for name, share in _SHARES)
        yield kind, who, rate["seen"], changed, rate["rejected"], rate["removed"], either


_SHARES = (("changed", "share"), ("changed_or_removed", "changed_or_removed_share"))


def _counted(n: int, share: float) -> str:
    return f"{n} ({_percent(share)})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _spot_check(kind: str, found: Mapping[str, Any]) -> tuple[Any, ...]:
    interval = " to ".join(map(_percent, found["interval"])) if found["interval"] else "–"
    return kind, found["drawn"], found["decided"], found["wrong"], _percent(found["share"]), interval


def _print_agreement(found: Mapping[str, Any]) -> None:
    if found["cohen"]:
        rows = ((" and ".join(pair["who"]), pair["items"], _number(pair["kappa"])) for pair in found["cohen"])
        _print("Agreement", ("judged by", "items", "Cohen's κ"), rows)
        print_line(f"\n{found['items']} items judged by two or more at one version; Fleiss' κ {_number(found['fleiss'])}")
    if found["mask_pairs"]:
        print_line(f"mean IoU of two people's outlines {found['mask_iou_mean']} ({found['mask_pairs']} pairs)")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
