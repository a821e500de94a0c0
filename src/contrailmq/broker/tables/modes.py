"""Which groups pop which topics, by order of an operator."""

from __future__ import annotations

from typing import Final

from contrailmq.errors import SystemBusy
from contrailmq.protocol.bodies.queues import MessageRequestModes, SetMessageRequestModeRequest

MODES_MAX: Final = 100_000


class RequestModes:
    """Which groups pop which topics: the table of ``messageRequestMode.json``."""

    def __init__(self) -> None:
        self._modes: dict[str, dict[str, SetMessageRequestModeRequest]] = {}
        self._count = 0
        self.revision = 0

    def find(self, topic: str, group: str) -> SetMessageRequestModeRequest | None:
        """What an operator set, or None."""
        return self._modes.get(topic, {}).get(group)

    def put(self, mode: SetMessageRequestModeRequest) -> None:
        """Set the mode of a group in a topic; at the bound a new one is refused."""
        if self.find(mode.topic, mode.consumer_group) is None:
            if self._count >= MODES_MAX:
                raise SystemBusy(f"{MODES_MAX} modes are set, at most {MODES_MAX}")
            self._count += 1
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.revision += 1

    def saved(self) -> MessageRequestModes:
        """The whole table."""
        return MessageRequestModes(message_request_mode_map=self._modes)

    def load(self, found: MessageRequestModes) -> None:
        """Take over what a file held."""
        self._modes = {topic: dict(m) for topic, m in found.message_request_mode_map.items()}
        self._count = sum(map(len, self._modes.values()))
