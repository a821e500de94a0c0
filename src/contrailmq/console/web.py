"""What handlers share: their visitor, parameters with bounds, answers as JSON, errors in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from contrailmq.console.desk import Desk
from contrailmq.console.sessions import Session
from contrailmq.errors import (
    BrokerError,
    ClientError,
    ContrailError,
    NetworkError,
    NoPermission,
    NoRoute,
    QueryNotFound,
    SubscriptionGroupNotExist,
    TopicNotExist,
)

JSON: Final = "application/json"
NO_STORE: Final = {"cache-control": "no-store"}
TEXT_SIZE_MAX: Final = 16_384

Handler = Callable[[Request], Awaitable[Response]]


class Refused(ClientError):
    """A request that the console itself refuses, with the status of the answer."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


def session_of(request: Request) -> Session:
    """Who asks."""
    session: Session = request.scope["contrail.session"]
    return session


def desk_of(request: Request) -> Desk:
    """The visitor's desk, which is kept fresh from now on."""
    desk = session_of(request).desk
    desk.touch()
    return desk


def answer(value: Any, status: int = 200) -> Response:
    """A value as JSON that no cache keeps."""
    return Response(msgspec.json.encode(value), status, headers=NO_STORE, media_type=JSON)


def text_of(request: Request, name: str, default: str = "") -> str:
    """A parameter of the query."""
    value = request.query_params.get(name, default)
    if len(value) > TEXT_SIZE_MAX:
        raise Refused(f"{name} of {len(value)} characters, at most {TEXT_SIZE_MAX}")
    return value


def whole_of(
    request: Request, name: str, default: int, *, low: int = 0, high: int = 1 << 62
) -> int:
    """A number of the query, within bounds."""
    value = request.query_params.get(name, "")
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise Refused(f"{name}={value[:40]!r}: expected a whole number") from None
    if not low <= number <= high:
        raise Refused(f"{name}={number}: expected a number from {low} to {high}")
    return number


def guarded(handler: Handler) -> Handler:
    """The handler, with errors of the cluster as JSON: what is wrong, which code, what to do."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ContrailError as error:
            return refusal(error)

    return handle


def refusal(error: ContrailError) -> Response:
    """An error as an answer."""
    body: dict[str, Any] = {"error": str(error), "kind": type(error).__name__}
    if isinstance(error, BrokerError):
        body["code"] = int(error.code)
    body["hint"] = _hint(error)
    return answer(body, _status(error))


def _status(error: ContrailError) -> int:
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, NoPermission):
        return 403
    if isinstance(error, NoRoute | TopicNotExist | QueryNotFound | SubscriptionGroupNotExist):
        return 404
    if isinstance(error, NetworkError):
        return 502
    return 400 if isinstance(error, ClientError) else 409


def _hint(error: ContrailError) -> str:
    if isinstance(error, NoPermission):
        return "The account may not do this. Log in with another one, or ask an administrator."
    if isinstance(error, NetworkError):
        return "Is the server running, and reachable from the console's machine? Then try again."
    if isinstance(error, NoRoute | TopicNotExist):
        return "The topic may have been deleted. The list of topics shows what there is."
    return ""
