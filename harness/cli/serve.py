"""`privbench serve`: the report's page, live from a store."""

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import output
from harness.cli.options import DatabaseOption, StoreOption, database_url, store_path
from workloads.errors import SpecError

if TYPE_CHECKING:
    from starlette.applications import Starlette

ANYWHERE = ("0.0.0.0", "::")
"""Addresses that mean all interfaces."""
TOKEN_LENGTH = 16
"""The fewest characters of a token."""


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="PRIVBENCH_TOKEN",
            help="A secret for visitors; `auto` generates one. Required if other machines can reach --host.",
        ),
    ] = None,
    store: StoreOption = None,
    database: DatabaseOption = None,
) -> None:
    """Serve the page live on this machine: new rows and the progress of sweeps. Ctrl-C ends it.

    New results are collected first. With --database and without --store it shows that database and collects
    nothing.
    """
    from harness.cli.server import is_local, make_app
    from harness.cli.snapshot import LiveProgress, LiveRows
    from harness.store import Store

    secret = _secret(token)
    if secret is None and not is_local(host):
        raise SpecError(
            f"--host {host} can be reached by other machines: give --token auto, or a token of your own; or "
            "leave --host out and forward the port (ssh -L)"
        )
    opened = None if database and store is None else Store.open(store_path(store))
    listener = _listen(host, port)
    with listener:
        rows = LiveRows(opened, database_url(database))
        rows.first()
        progress = LiveProgress(opened) if opened else None
        output.say(f"{_address(listener, host, secret)}   (Ctrl-C ends it)")
        _run(make_app(rows, progress, host, secret), listener)


def _secret(token: str | None) -> str | None:
    if token == "auto":
        import secrets

        return secrets.token_urlsafe(24)
    if token is not None and (len(token) < TOKEN_LENGTH or not token.isascii() or not token.isprintable()):
        raise SpecError(
            f"a token is at least {TOKEN_LENGTH} printable ASCII characters, got {len(token)}: "
            "give --token auto to generate one"
        )
    return token


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpecError(
            f"cannot listen at {host}, port {port}: {reason}; "
            "give another --port (0 takes any free one) or --host"
        ) from error


def _address(listener: socket.socket, host: str, secret: str | None) -> str:
    name = socket.gethostname() if host in ANYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/" + (f"?token={secret}" if secret else "")


def _run(app: "Starlette", listener: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses may contain the token
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=64,
        timeout_graceful_shutdown=5,
    )
    with suppress(KeyboardInterrupt):  # raised again after a clean shutdown
        uvicorn.Server(config).run(sockets=[listener])
