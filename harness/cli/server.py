"""The live page: a small web server over one store, read-only except for collecting.

/                the report's page, which polls the other two every few seconds
/data.json       the page's data; with an ETag, so that unchanged data are not sent
/progress.json   the progress of the sweeps, and the running tasks

It responds to GET and HEAD, serves nothing else of the store, and makes no requests itself. If it listens on
this machine only, the Host header must name it: a foreign page whose name suddenly resolves to this machine
(DNS rebinding) gets nothing.
"""

import hmac
import ipaddress
import re
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.cli.snapshot import LiveProgress, LiveRows
from harness.report.page.html import encode_data

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1", "[::1]")
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address may contain the token
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


def make_app(rows: LiveRows, progress: LiveProgress | None, host: str, token: str | None = None) -> Starlette:
    """The application for a server that listens on `host`; with a token, only for those who have it."""

    def page(request: Request) -> Response:
        html = rows.latest().page
        policy = POLICY.search(html)
        own = f"{policy[1]}; " if policy else ""
        return HTMLResponse(html, headers={"Content-Security-Policy": f"{own}frame-ancestors 'none'"})

    def data(request: Request) -> Response:
        snapshot = rows.latest()
        tag = {"ETag": snapshot.tag}
        known = [each.strip() for each in request.headers.get("If-None-Match", "").split(",")]
        if snapshot.tag in known:
            return Response(status_code=304, headers=tag)
        return Response(snapshot.data, media_type="application/json", headers=tag)

    def how_far(request: Request) -> Response:
        found = progress.look() if progress else {"sweeps": None, "running": []}
        return Response(encode_data(found), media_type="application/json")

    guards = [Middleware(SecureHeaders), Middleware(TrustedHostMiddleware, allowed_hosts=allowed_names(host))]
    if token is not None:
        guards.append(Middleware(TokenGate, token=token))
    routes = [Route("/", page), Route("/data.json", data), Route("/progress.json", how_far)]
    return Starlette(routes=routes, middleware=guards)


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_names(host: str) -> Sequence[str]:
    """The allowed Host headers: this machine's own names; any if a token is required."""
    return [*LOCAL_NAMES, host] if is_local(host) else ["*"]


class TokenGate:
    """Requires the token, in the address or as a bearer token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with 401."""
        if scope["type"] != "http" or self._has_token(scope):
            await self.app(scope, receive, send)
            return
        text = "give the token: /?token=TOKEN, or the header Authorization: Bearer TOKEN\n"
        refusal = PlainTextResponse(text, 401, headers={"WWW-Authenticate": "Bearer"})
        await refusal(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        kind, _, secret = Headers(scope=scope).get("Authorization", "").partition(" ")
        given = [QueryParams(scope["query_string"]).get("token", "")]
        given += [secret.strip()] if kind.lower() == "bearer" else []
        # In constant time, or the time to a refusal would leak how much of a guess is right.
        return any(hmac.compare_digest(each.encode(), self.token) for each in given)


class SecureHeaders:
    """Adds the headers to every response, refusals too, that lacks them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers to the response."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
