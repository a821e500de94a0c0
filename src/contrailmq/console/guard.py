"""What stands before every handler: hosts, origins, tokens, sessions, sizes, and headers.

* ``Host`` must be one of ours, or a page of another name could be pointed at us (DNS rebinding).
* What is not a GET, and each stream, must come from a page of ours (``Sec-Fetch-Site``,
  ``Origin``) and carry the session's token in a header that forms cannot send.
* Where accounts are needed, only the login and static files are served without one.
* Every answer says what a browser may do with it: nothing but scripts and styles of ours.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contrailmq.console.sessions import COOKIE, Session, Sessions
from contrailmq.console.settings import REQUEST_SIZE_MAX, ConsoleSettings
from contrailmq.console.web import answer

TOKEN_HEADER: Final = "x-contrail-token"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; require-trusted-types-for 'script'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
OPEN_PATHS: Final = ("/login", "/static/", "/favicon.svg")
READING: Final = frozenset({"GET", "HEAD"})


class Guard:
    """Middleware that lets a request pass, or answers it."""

    def __init__(self, app: ASGIApp, *, settings: ConsoleSettings, sessions: Sessions) -> None:
        self._app = app
        self._hosts = settings.allowed_hosts()
        self._is_local = settings.is_local or settings.allow_remote
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, send_guarded)
            return
        await self._app(scope, _bounded(receive), send_guarded)

    def _refused(self, scope: Scope) -> Response | None:
        request = HTTPConnection(scope)
        headers, path, method = request.headers, scope["path"], scope["method"]
        if host_of(headers.get("host", "")) not in self._hosts:
            return _no(421, "this console is not known under that name; name it with --host-name")
        if int(headers.get("content-length") or 0) > REQUEST_SIZE_MAX:
            return _no(413, f"a request of more than {REQUEST_SIZE_MAX} bytes")
        session = self._sessions.find(request.cookies.get(COOKIE))
        scope["contrail.session"] = session
        is_open = path.startswith(OPEN_PATHS)
        if session is None and not is_open:
            if path.startswith("/api/"):
                return _no(401, "log in first: the session has ended")
            return RedirectResponse(f"/login?next={quote(path, safe='/')}", 303)
        if not self._sessions.needs_login and not self._is_local:
            return _no(403, "this console serves other machines only with access control, "
                       "or with --allow-remote")  # fmt: skip
        if method not in READING or path == "/api/tail":
            return self._foreign(headers, session, is_read=method in READING, is_open=is_open)
        return None

    def _foreign(
        self, headers: Headers, session: Session | None, *, is_read: bool, is_open: bool
    ) -> Response | None:
        """Why a request that changes something, or a stream, does not come from a page of ours."""
        site = headers.get("sec-fetch-site", "same-origin")
        origin = headers.get("origin")
        is_ours = origin is None or host_of(urlsplit(origin).netloc) == host_of(
            headers.get("host", "")
        )
        if site not in ("same-origin", "none") or not is_ours:
            return _no(403, "a page of another site asked for this")
        if is_read or is_open:
            return None
        if session is None or headers.get(TOKEN_HEADER) != session.token:
            return _no(403, "the token of the page is missing or old; reload the page")
        return None


def host_of(netloc: str) -> str:
    """The name of ``name:port``, in lower case; IPv6 keeps its brackets."""
    name, _, port = netloc.rpartition(":")
    return (name if name and port.isdecimal() else netloc).lower()


def _no(status: int, text: str) -> Response:
    return answer({"error": text, "kind": "Refused", "hint": ""}, status)


def _bounded(receive: Receive) -> Receive:
    """The same with an end to bodies that did not say how long they are."""
    size = 0

    async def receive_bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > REQUEST_SIZE_MAX:
            return {"type": "http.disconnect"}
        return message

    return receive_bounded
