"""Administrative actions with their results, for the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from contrailmq.errors import BrokerError
from contrailmq.net.connection import Connection
from contrailmq.net.dispatch import Handler
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.security.audit import Audit
from contrailmq.security.needs import ADMIN_CODES


def audited(handlers: Mapping[int, Handler], audit: Audit) -> dict[int, Handler]:
    """The handlers; those of administrators tell the audit how each request ended."""
    return {
        code: _Audited(handler, audit) if code in ADMIN_CODES else handler
        for code, handler in handlers.items()
    }


class _Audited:
    """Calls a handler and notes what it answers, now or later."""

    def __init__(self, handler: Handler, audit: Audit) -> None:
        self._handler = handler
        self._audit = audit

    def __call__(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None] | None:
        try:
            answer = self._handler(request, connection)
        except Exception as error:
            self._failed(request, connection, error)
            raise
        if answer is None or isinstance(answer, Command):
            self._done(request, connection, answer)
            return answer
        return self._wait(request, connection, answer)

    async def _wait(
        self, request: Command, connection: Connection, later: Awaitable[Command | None]
    ) -> Command | None:
        try:
            answer = await later
        except (Exception, asyncio.CancelledError) as error:
            self._failed(request, connection, error)
            raise
        self._done(request, connection, answer)
        return answer

    def _done(self, request: Command, connection: Connection, answer: Command | None) -> None:
        code = int(ResponseCode.SUCCESS) if answer is None else answer.code
        remark = "" if answer is None else str(answer.remark or "")
        self._audit.ended(request, connection.peer, answer=code, reason=remark)

    def _failed(self, request: Command, connection: Connection, error: BaseException) -> None:
        code = error.code if isinstance(error, BrokerError) else ResponseCode.SYSTEM_ERROR
        self._audit.ended(request, connection.peer, answer=int(code), reason=str(error))
