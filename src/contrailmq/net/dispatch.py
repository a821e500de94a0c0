"""From request code to handler: the only place where an exception becomes a response."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from contrailmq.errors import (
    BrokerError,
    LocalProtocolError,
    RemoteProtocolError,
    StoreError,
    StoreRefusal,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command

log = logging.getLogger(__name__)

Handler = Callable[[Command, Connection], Command | Awaitable[Command | None] | None]
Check = Callable[[Command, Connection], object]


class Dispatcher:
    """Calls the handler of a request's code.

    A handler is a plain call.  It returns its answer, or an awaitable of it if it must wait (a
    future costs least), or None when there is no answer or it follows by ``connection.reply``.
    Refusals are exceptions: ``BrokerError`` carries its code, all else is SYSTEM_ERROR.  ``check``
    is called before every request, also of a code that has no handler.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        default: Handler | None = None,
        *,
        check: Check | None = None,
    ) -> None:
        self._check = check
        self._handlers: dict[int, Handler] = {int(code): h for code, h in handlers.items()}
        self._default = default

    def __call__(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None] | None:
        """Run the handler; never raises on account of a request."""
        if self._check is not None:
            try:
                self._check(request, connection)
            except Exception as error:
                return self.failure(request, error)
        handler = self._handlers.get(request.code, self._default)
        if handler is None:
            return request.refuse(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {request.code} not supported",
            )
        try:
            return handler(request, connection)
        except Exception as error:
            return self.failure(request, error)

    def failure(self, request: Command, error: BaseException) -> Command:
        """The response a failed request gets; what nobody foresaw is logged with its trace."""
        if isinstance(error, BrokerError):
            return request.refuse(error.code, error.remark)
        if isinstance(error, StoreRefusal):
            return request.refuse(ResponseCode.MESSAGE_ILLEGAL, str(error))
        if isinstance(error, StoreError):
            return request.refuse(ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        if isinstance(error, RemoteProtocolError | LocalProtocolError):
            return request.refuse(ResponseCode.SYSTEM_ERROR, str(error))
        log.error("handler failed: code=%s opaque=%s", request.code, request.opaque, exc_info=error)
        return request.refuse(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
