"""The commands `trigpoint exchange …`: masks to and from the programs where people already work. Loaded by name from `trigpoint.cli`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from tasks.exchange import Which, export_masks, open_exchange, plan_masks, read_masks, write_decisions
from tasks.workspace import Workspace
from trigpoint.cli import FINDINGS, GOOD, make_table, out, print_json, print_line, say
from trigpoint.errors import InputError
from trigpoint.exchange.items import NAME_OF, Form, Format
from trigpoint.exchange.merge import ImportPlan, Removed
from trigpoint.records.review import MaskValue, Role, Who


def export(
    config: Path, *, format_name: str, folder: Path, scenes: Sequence[str], which: str, form: str, url_prefix: str, as_json: bool
) -> int:
    """Write masks for another program; returns the exit code."""
    chosen: Format = _one_of("--format", format_name, Format)
    wanted: Which = _one_of("--what", which, Which)
    drawn: Form = _one_of("--as", form, Form)
    made = export_masks(open_exchange(Workspace(config.resolve())), chosen, folder, scenes, wanted, drawn, url_prefix)
    if as_json:
        print_json({"folder": str(made.folder), "scenes": made.n_scenes, "items": made.n_items})
        return GOOD
    out.print(make_table(("category", "masks"), made.n_items.items()))
    print_line(f"{sum(made.n_items.values())} masks in {made.n_scenes} scenes for {NAME_OF[chosen]}: {made.folder}")
    if not made.n_items and wanted == "waiting":
        say("nothing waits for review; --what all exports every mask")
    return GOOD


def import_(
    config: Path,
    file: Path,
    *,
    who: str,
    role: str,
    removed: str,
    round_number: int | None,
    is_dry: bool,
    is_partial: bool,
    list_file: Path | None,
    orientation: int,
    as_json: bool,
) -> int:
    """Take in what another program wrote; returns the exit code."""
    try:
        signed: str = TypeAdapter(Who).validate_python(who)
    except ValidationError as error:
        raise InputError(f"--who {who!r}: {error.errors()[0]['msg']}; 1 to 64 characters, no space at either end") from error
    opened = open_exchange(Workspace(config.resolve()))
    document = read_masks(opened, file, list_file, orientation)
    plan = plan_masks(opened, document, signed, _one_of("--role", role, Role), _one_of("--removed", removed, Removed), round_number)
    is_written = not is_dry and (is_partial or not plan.problems)
    n = write_decisions(opened, plan) if is_written else 0
    if as_json:
        print_json({**_plan_json(plan), "written": n})
    else:
        _show(plan, NAME_OF[document.format])
        _conclude(plan, n, is_dry=is_dry, is_written=is_written)
    return FINDINGS if plan.problems else GOOD


def _show(plan: ImportPlan, program: str) -> None:
    if plan.planned:
        rows = [
            (entry.what, entry.decision.item_id, entry.decision.scene_id, _categories(entry.decision), entry.place, "; ".join(entry.notes))
            for entry in plan.planned
        ]
        out.print(make_table(("what", "item", "scene", "category", f"where in {program}", "notes"), rows))
    for problem in plan.problems:
        print_line(f"problem: {problem}")
    if plan.missing:
        shown = ", ".join(plan.missing[:5]) + (f" and {len(plan.missing) - 5} more" if len(plan.missing) > 5 else "")
        print_line(f"exported and not in the file, left as they are (--removed reject rejects them): {shown}")
    for remark in plan.remarks:
        print_line(f"note: {remark}")


def _conclude(plan: ImportPlan, n: int, *, is_dry: bool, is_written: bool) -> None:
    counts = Counter(entry.what for entry in plan.planned)
    said = ", ".join(f"{counts[what]} {what}" for what in ("edited", "recategorised", "added", "split", "removed") if counts[what])
    print_line(f"{said or 'nothing changed'}; {len(plan.unchanged)} unchanged, {len(plan.problems)} problems")
    if is_dry:
        say("dry run: nothing was written")
    elif not is_written:
        say("nothing was written because of the problems; mend them in the file, or take in the rest with --partial", style="red")
    elif plan.planned:
        say(f"{n} decisions written; the next build applies them", style="green")


def _categories(decision: Any) -> str:
    values = [decision.after] if decision.after is not None else [part.value for part in decision.parts]
    return ", ".join(dict.fromkeys("+".join(value.category) for value in values if isinstance(value, MaskValue)))


def _plan_json(plan: ImportPlan) -> dict[str, Any]:
    planned = [
        {"what": entry.what, "place": entry.place, "notes": list(entry.notes), "decision": entry.decision.to_json()}
        for entry in plan.planned
    ]
    problems = [problem._asdict() for problem in plan.problems]
    rest = {"unchanged": list(plan.unchanged), "missing": list(plan.missing), "remarks": list(plan.remarks)}
    return {"planned": planned, "problems": problems, **rest}


def _one_of(option: str, value: str, kind: Any) -> Any:
    known: tuple[str, ...] = get_args(kind)
    if value not in known:
        raise InputError(f"{option} {value!r}: expected one of {', '.join(known)}")
    return value
