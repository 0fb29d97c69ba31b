"""The command `trigpoint review`: brings the build up to what reviewers see, and serves the page. Loaded by name from `trigpoint.cli`."""

import socket
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flows.cli import Bars
from tasks.builds import conclude, run_stage
from tasks.desk import WorkspaceDesk, results_for_review, stages_before_review
from tasks.engine import close_pool, start_build
from tasks.last_build import last_build
from tasks.review import orphans_of, told_damaged, told_orphans
from tasks.steps import Done
from tasks.workspace import Workspace
from trigpoint.cli import GOOD, print_line, say
from trigpoint.errors import InputError
from trigpoint.identity import digest_json
from trigpoint.review.page import make_app
from trigpoint.review.page_board import Board
from trigpoint.review.page_guard import Sessions, is_loopback, origin_of, signed_as
from trigpoint.review.page_serve import bind_door, server_of

MIN_TOKEN_CHARACTERS = 16
"""Shortest token for a page that other machines reach."""

_FIRST_PORT, _N_PORTS = 21_000, 8_000


def review(
    config: Path,
    *,
    host: str,
    port: int | None,
    token: str | None,
    who: str | None,
    role: str,
    scenes: Sequence[str],
    is_built: bool,
    opens_browser: bool,
    public_url: str | None = None,
) -> int:
    """Serve the review page until it is stopped; returns the exit code."""
    if not is_loopback(host) and token is None:
        raise InputError(f"--host {host}: other machines would reach the page; give --token with a secret of your own as well")
    if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
        raise InputError(f"--token has {len(token)} characters, expected at least {MIN_TOKEN_CHARACTERS}; `openssl rand -hex 16` makes one")
    public = None if public_url is None else origin_of(public_url)
    sessions = Sessions(token, None if who is None else signed_as(who, role))
    workspace = Workspace(config.resolve())
    done = _results(workspace, is_built)
    desk = WorkspaceDesk(workspace, done, scenes)
    if orphans := orphans_of(workspace, done):
        say(told_orphans(orphans), style="yellow")
    if damaged := workspace.ledger.damaged:
        say(told_damaged(damaged), style="yellow")
    board = Board(desk)
    board.warm()
    with _door_of(config, host, port) as door:
        number = int(door.getsockname()[1])
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        url = f"{public or f'http://{shown}:{number}'}/#token={sessions.new_link()}"
        say(f"{len(desk.items)} items in {len(desk.scenes)} scenes; decisions go to {workspace.ledger.path}")
        once = "" if token is not None else "; it works once, and the page makes more for other browsers"
        behind = "" if public is None else f" (the proxy passes it on to {shown}:{number})"
        say(f"open this link{once}{behind}. Ctrl-C stops.")
        print_line(url)
        sys.stdout.flush()
        if opens_browser:
            webbrowser.open(url)
        app = make_app(board, sessions, host, number, public)
        with suppress(KeyboardInterrupt):  # how people end it
            server_of(app).run(sockets=[door])
    return GOOD


def _results(workspace: Workspace, is_built: bool) -> Done:
    """Results up to what reviewers see: built when they are not there, or as the last build left them."""
    workspace.check()
    if not is_built:
        found = last_build(workspace)
        for remark in found.remarks:
            say(remark, style="yellow")
        return found.done
    with suppress(InputError):
        return results_for_review(workspace)
    with Bars() as bars:
        run = start_build(workspace, "review", progress=bars)
        try:
            for stage in stages_before_review():
                run_stage(run, stage)
            report = conclude(run, is_whole=False)
        finally:
            close_pool()
    for drop in report.quarantined:
        say(f"quarantined in {drop.stage}, and not on the page: {drop.item_id}: {drop.detail}", style="yellow")
    return run.done


def _port_of(config: Path) -> int:
    """The same port for the same configuration, so that drafts in the browser are found again."""
    return _FIRST_PORT + int(digest_json(str(config.resolve()))[:8], 16) % _N_PORTS


def _door_of(config: Path, host: str, port: int | None) -> socket.socket:
    """Bind; without a wanted port, the one of the configuration, or a free one when it is taken."""
    if port is not None:
        return bind_door(host, port)
    try:
        return bind_door(host, _port_of(config))
    except InputError as error:
        say(f"{error}; drafts that a browser keeps for it are not seen on another", style="yellow")
        return bind_door(host, 0)
