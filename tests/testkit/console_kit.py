"""A console over a real cluster in one loop, and a visitor that speaks ASGI to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from contrailmq.admin.client import AdminClient
from contrailmq.client.message import Message
from contrailmq.client.producer.producer import Producer
from contrailmq.client.settings import ClientSettings
from contrailmq.console.app import Console
from contrailmq.console.settings import ConsoleSettings
from contrailmq.lifecycle import Tasks
from contrailmq.up import local_cluster

PROPERTIES = {"mappedFileSizeCommitLog": str(1 << 22), "enablePropertyFilter": "true"}


@dataclass
class Answer:
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Visitor:
    """A browser, as far as requests go: it keeps the token of the last page, and its cookie."""

    app: Any
    headers: dict[str, str] = field(default_factory=lambda: {"host": "127.0.0.1:8080"})
    token: str = ""

    async def get(self, path: str, **headers: str) -> Answer:
        return await self._ask("GET", path, b"", headers)

    async def json(self, path: str) -> Any:
        answer = await self.get(path)
        assert answer.status == 200, (path, answer.status, answer.body[:300])
        return answer.json

    async def act(self, name: str, order: Mapping[str, Any], **headers: str) -> Answer:
        if not self.token:
            page = (await self.get("/")).body.decode()
            self.token = page.partition('contrail-token" content="')[2].partition('"')[0]
        headers.setdefault("x_contrail_token", self.token)
        return await self._ask("POST", f"/api/act/{name}", json.dumps(order).encode(), headers)

    async def post_form(self, path: str, text: str) -> Answer:
        return await self._ask("POST", path, text.encode(), {})

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await pieces.put(message.get("body", b""))

        tasks = Tasks()
        tasks.start(self.app(self._scope("GET", path, {}), receive, send))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
        finally:
            gone.set()
            await tasks.aclose()

    async def _ask(self, method: str, path: str, body: bytes, more: dict[str, str]) -> Answer:
        found = Answer(0, {}, b"")
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:
                await asyncio.Event().wait()
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                found.status = message["status"]
                found.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                found.body += message.get("body", b"")

        if method == "POST":
            more = {"content-length": str(len(body)), **more}
        await self.app(self._scope(method, path, more), receive, send)
        return found

    def _scope(self, method: str, path: str, more: dict[str, str]) -> dict[str, Any]:
        parts = urlsplit(path)
        headers = {**self.headers, **{name.replace("_", "-"): v for name, v in more.items()}}
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": unquote(parts.path), "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(), "root_path": "", "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8080),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }  # fmt: skip


@dataclass
class World:
    """A cluster with messages, its console, and who visits it."""

    visitor: Visitor
    admin: AdminClient
    name_servers: str

    def look_again(self) -> None:
        """Forget what the console knows, so that its next answer is of now."""
        session = self.visitor.app.state.sessions.find(None)
        session.desk.view.tables_ms = 0
        session.desk.view.ends.clear()

    async def send(self, topic: str, *bodies: bytes, **options: Any) -> None:
        async with Producer("tests", name_servers=self.name_servers) as producer:
            for body in bodies:
                await producer.send(Message(topic, body, **options))
        self.look_again()


@asynccontextmanager
async def console_world(
    folder: Path,
    settings: ConsoleSettings | None = None,
    *,
    client: ClientSettings | None = None,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[World]:
    """A cluster of one broker with the topic ``orders`` of two queues, and a console."""
    conf = {**PROPERTIES, **(properties or {})}
    async with local_cluster(str(folder), conf) as cluster:
        names = cluster.namesrv_address
        async with AdminClient(names, settings=client) as admin:
            await admin.topics.create("orders", queues=2)
            console = Console(
                names, settings or ConsoleSettings(), client=client or ClientSettings()
            )
            async with console.open() as app:
                yield World(Visitor(app), admin, names)
