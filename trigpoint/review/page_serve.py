"""From an application to a server that listens. Not here: what it serves (`trigpoint.review.page`)."""

import socket

import uvicorn
from starlette.types import ASGIApp

from trigpoint.errors import InputError


def bind_door(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address.

    Raises:
        InputError: the address cannot be had.
    """
    door = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind((host, port))
        door.listen(128)  # who opens the link at once waits, and is not turned away
    except OSError as error:
        door.close()
        raise InputError(f"--host {host} --port {port}: cannot be had: {error.strerror}; take another") from error
    return door


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server that says only what goes wrong, and speaks nothing but HTTP."""
    return uvicorn.Server(
        uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off", timeout_graceful_shutdown=3
        )
    )
