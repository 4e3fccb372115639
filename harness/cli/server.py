"""The page, live: a small web server over one store that only reads, apart from collecting.

/                the report's page, which asks for the other two every few seconds
/data.json       what the page shows; with an ETag, so that what has not changed is not sent
/progress.json   how far the sweeps are, and which tasks run

It answers GET and HEAD, hands out nothing else of the store, and asks nobody for anything. Where it listens
to this machine alone, the Host header must name it: a page of somebody else whose name suddenly points
here (DNS rebinding) gets nothing.
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
    "Referrer-Policy": "no-referrer",  # the address may hold the token
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


def make_app(rows: LiveRows, progress: LiveProgress | None, host: str, token: str | None = None) -> Starlette:
    """The application for a server that listens at `host`; with a token, only for who knows it."""

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
    """Whether only this machine reaches a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_names(host: str) -> Sequence[str]:
    """What the Host header may say: this machine's own names; anything where a token is asked for."""
    return [*LOCAL_NAMES, host] if is_local(host) else ["*"]


class TokenGate:
    """Lets through who gives the token, in the address or as a bearer's."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse with 401."""
        if scope["type"] != "http" or self._knows(scope):
            await self.app(scope, receive, send)
            return
        text = "give the token: /?token=TOKEN, or the header Authorization: Bearer TOKEN\n"
        refusal = PlainTextResponse(text, 401, headers={"WWW-Authenticate": "Bearer"})
        await refusal(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        kind, _, word = Headers(scope=scope).get("Authorization", "").partition(" ")
        given = [QueryParams(scope["query_string"]).get("token", "")]
        given += [word.strip()] if kind.lower() == "bearer" else []
        # In constant time, or the time to a refusal would tell how much of a guess is right.
        return any(hmac.compare_digest(each.encode(), self.token) for each in given)


class SecureHeaders:
    """Puts the headers on every answer, refusals too, that does not bring its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
