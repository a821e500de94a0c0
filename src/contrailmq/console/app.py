"""The console's composition root: routes, handlers, and the guard before them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from contrailmq.client.settings import ClientSettings
from contrailmq.clock import SystemClock
from contrailmq.console import (
    brokers_api,
    groups_api,
    letters_api,
    messages_api,
    overview_api,
    tail_api,
    topics_api,
    waiting_api,
)
from contrailmq.console.actions import Actions
from contrailmq.console.desk import DeskMaker
from contrailmq.console.guard import Guard
from contrailmq.console.pages import Pages, Statics
from contrailmq.console.sessions import Sessions
from contrailmq.console.settings import ConsoleSettings
from contrailmq.console.web import Handler, answer, guarded

READS: dict[str, Handler] = {
    "/api/overview": overview_api.overview,
    "/api/history": overview_api.history,
    "/api/search": overview_api.search,
    "/api/doctor": overview_api.doctor,
    "/api/topics": topics_api.topics,
    "/api/topics/{name:path}": topics_api.topic,
    "/api/messages": messages_api.messages,
    "/api/message": messages_api.message,
    "/api/raw": messages_api.raw,
    "/api/trace": messages_api.trace,
    "/api/tail": tail_api.tail,
    "/api/groups": groups_api.groups,
    "/api/groups/{name:path}/reset": groups_api.reset_preview,
    "/api/groups/{name:path}/members": groups_api.members,
    "/api/groups/{name:path}": groups_api.group,
    "/api/dead-letters": letters_api.dead_letters,
    "/api/brokers": brokers_api.brokers,
    "/api/broker": brokers_api.broker,
    "/api/settings": brokers_api.settings,
    "/api/store": brokers_api.store,
    "/api/replication": brokers_api.replication,
    "/api/accounts": brokers_api.accounts,
    "/api/waiting": waiting_api.waiting,
}
SHELLS = (
    "/", "/topics", "/topics/{name:path}", "/messages", "/groups", "/groups/{name:path}",
    "/dead-letters", "/waiting", "/brokers", "/replication", "/store", "/settings", "/accounts",
    "/trace",
)  # fmt: skip


class Console:
    """One console over one cluster: ``async with console.open() as app`` gives the application."""

    def __init__(
        self, name_servers: str, settings: ConsoleSettings, *, client: ClientSettings
    ) -> None:
        self._settings = settings
        self._name_servers = name_servers
        self._maker = DeskMaker(name_servers, client)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Starlette]:
        """Connect to the cluster and serve it for the length of a block."""
        sessions = Sessions(self._maker, clock=SystemClock())
        async with sessions.open(login=self._settings.login):
            yield self._application(sessions)

    def _application(self, sessions: Sessions) -> Starlette:
        pages = Pages(self._settings, sessions, cluster=self._name_servers)
        actions, statics = Actions(self._settings), Statics()
        routes = [Route(path, guarded(handler)) for path, handler in READS.items()]
        routes += [
            Route("/api/act/{action}", guarded(actions.act), methods=["POST"]),
            Route("/login", pages.login, methods=["GET", "POST"]),
            Route("/logout", pages.logout, methods=["POST"]),
            Route("/favicon.svg", statics.file),
            Route("/static/{path:path}", statics.file),
        ]
        routes += [Route(path, pages.shell) for path in SHELLS]
        app = Starlette(
            routes=routes,
            middleware=[Middleware(Guard, settings=self._settings, sessions=sessions)],
            exception_handlers={404: _unknown},
        )
        app.state.sessions = sessions
        return app


async def _unknown(request: Request, error: Exception) -> Response:
    return answer({"error": f"there is no page {request.url.path[:200]}", "hint": ""}, 404)
