"""The pages: one shell for all of them, filled by the module that its path names."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from contrailmq.console.sessions import COOKIE, Sessions
from contrailmq.console.settings import SESSION_S, ConsoleSettings
from contrailmq.errors import ContrailError
from contrailmq.version import VERSION

FOLDER: Final = Path(__file__).parent
STATIC: Final = FOLDER / "static"
NAVIGATION: Final = (
    ("/", "Overview", "overview"),
    ("/topics", "Topics", "topics"),
    ("/messages", "Messages", "messages"),
    ("/groups", "Groups", "groups"),
    ("/dead-letters", "Dead letters", "dead-letters"),
    ("/waiting", "Waiting", "waiting"),
    ("/brokers", "Brokers", "brokers"),
    ("/replication", "Replication", "replication"),
    ("/store", "Store", "store"),
    ("/settings", "Settings", "settings"),
    ("/accounts", "Accounts", "accounts"),
)
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FORM_SIZE_MAX: Final = 8192


class Pages:
    """Handlers that answer with HTML."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, *, cluster: str) -> None:
        self._settings = settings
        self._sessions = sessions
        self._cluster = cluster

    async def shell(self, request: Request) -> Response:
        """The page of a path; its module fetches what it shows."""
        session = request.scope["contrail.session"]
        first = request.url.path.split("/")[1]
        page = next((m for p, _, m in NAVIGATION if p.strip("/") == first), "overview")
        if first == "trace":
            page = "trace"
        name = request.path_params.get("name")
        title = next((t for _, t, m in NAVIGATION if m == page), "Trace")
        text = _environment().get_template("shell.html").render(
            page=page.rstrip("s") if name and page in ("topics", "groups") else page,
            section=page,
            title=f"{name} · {title}" if name else title,
            name=name or "",
            token=session.token,
            account=session.account,
            read_only=self._settings.read_only,
            needs_login=self._sessions.needs_login,
            navigation=NAVIGATION,
            cluster=self._cluster,
            version=VERSION,
        )  # fmt: skip
        return Response(text, media_type="text/html", headers={"cache-control": "no-store"})

    async def login(self, request: Request) -> Response:
        """The form, and what it sends."""
        if not self._sessions.needs_login:
            return RedirectResponse("/", 303)
        target = _own_path(request.query_params.get("next", "/"))
        fault = ""
        if request.method == "POST":
            fields = await _form(request)
            peer = request.client.host if request.client else ""
            try:
                session = await self._sessions.log_in(
                    fields.get("account", ""), fields.get("secret", ""), peer=peer
                )
            except ContrailError as error:
                fault = f"The cluster does not accept this account: {error}"
            else:
                found = RedirectResponse(target, 303)
                found.set_cookie(
                    COOKIE, session.id, max_age=int(SESSION_S), httponly=True,
                    samesite="strict", secure=request.url.scheme == "https",
                )  # fmt: skip
                return found
        text = _environment().get_template("login.html").render(
            fault=fault, cluster=self._cluster, target=target
        )  # fmt: skip
        return Response(
            text, 401 if fault else 200, media_type="text/html",
            headers={"cache-control": "no-store"},
        )  # fmt: skip

    async def logout(self, request: Request) -> Response:
        """End the session."""
        self._sessions.end(request.scope["contrail.session"])
        found = Response(status_code=204)
        found.delete_cookie(COOKIE)
        return found


class Statics:
    """Scripts, styles and the icon, read once: no thread and no disk in the broker's process."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for path in sorted(STATIC.rglob("*")):
            if path.suffix in TYPES:
                body = path.read_bytes()
                mark = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
                self._files[path.relative_to(STATIC).as_posix()] = (body, TYPES[path.suffix], mark)

    async def file(self, request: Request) -> Response:
        """One file; browsers ask each time whether it has changed."""
        found = self._files.get(request.path_params.get("path", "icon.svg"))
        if found is None:
            return Response(status_code=404)
        body, kind, mark = found
        headers = {"etag": mark, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=kind, headers=headers)


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(FOLDER / "templates")
    return Environment(
        loader=loader, autoescape=select_autoescape(default=True), trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def _own_path(path: str) -> str:
    """A path of this console; anything that could lead elsewhere is the first page."""
    is_own = path.startswith("/") and not path.startswith("//") and "\\" not in path
    return path if is_own and path.isprintable() else "/"


async def _form(request: Request) -> dict[str, str]:
    body = await request.body()
    fields = parse_qs(body[:FORM_SIZE_MAX].decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
