"""The consumers that pop, for callers that wait; see ``blocking``."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from contrailmq.client.consumer import simple
from contrailmq.client.consumer.pops import PoppedMessage as AsyncMessage
from contrailmq.client.consumer.subscription import Topics
from contrailmq.client.loop_thread import Bridge, LoopThread
from contrailmq.client.settings import ClientSettings


class PoppedMessage(AsyncMessage):
    """A message that is hidden from the other members of the group for a while."""

    bridge: SimpleConsumer

    def ack(self) -> None:  # type: ignore[override]
        """Settle it: it does not come again."""
        self.bridge.ack(self)

    def extend(self, seconds: float) -> None:  # type: ignore[override]
        """Hide it for so many seconds from now on; 0 lets it come again at once."""
        self.bridge.change_invisible(self, seconds)

    def dead_letter(self) -> None:  # type: ignore[override]
        """Put it into the group's dead-letter topic, and settle it."""
        self.bridge.dead_letter(self)


class SimpleConsumer(Bridge):
    """A member of a consumer group that asks for messages and settles them one by one."""

    def __init__(
        self,
        group: str,
        *,
        topics: Topics,
        name_servers: str | Sequence[str] | None = None,
        endpoints: str | Sequence[str] | None = None,
        start_from: str = "first",
        invisible_s: float = 30.0,
        client: ClientSettings | None = None,
        loop: LoopThread | None = None,
    ) -> None:
        super().__init__(loop)
        self._twin = self._make(
            lambda: simple.SimpleConsumer(
                group,
                topics=topics,
                name_servers=name_servers,
                endpoints=endpoints,
                start_from=start_from,
                invisible_s=invisible_s,
                client=client,
                kind=PoppedMessage,
            )
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Join the group."""
        self._call(self._twin.start)

    def close(self) -> None:
        """Leave the group; what was received and not settled comes back to other members."""
        try:
            self._call(self._twin.aclose)
        finally:
            self._release()

    def receive(
        self, count: int = 16, *, invisible_s: float | None = None, wait_s: float = 15.0
    ) -> list[PoppedMessage]:
        """Up to ``count`` messages; waits for the first, and returns none when none came."""
        found: list[Any] = self._call(
            lambda: self._twin.receive(count, invisible_s=invisible_s, wait_s=wait_s)
        )
        for message in found:
            message.bridge = self
        return found

    def ack(self, *messages: AsyncMessage) -> None:
        """Settle messages; several go in one request for each broker."""
        self._call(lambda: self._twin.ack(*messages))

    def change_invisible(self, message: AsyncMessage, seconds: float) -> None:
        """Hide a message for so many seconds from now on; 0 lets it come again at once."""
        self._call(lambda: self._twin.change_invisible(message, seconds))

    def dead_letter(self, message: AsyncMessage) -> None:
        """Put a message into the group's dead-letter topic, and settle it."""
        self._call(lambda: self._twin.dead_letter(message))
