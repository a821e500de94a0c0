"""Telling consumers that the clients of their group have changed, so that they rebalance.

However many clients come and go within one turn of the loop, a group is told once.
"""

from __future__ import annotations

import asyncio
import contextlib

from contrailmq.broker.tables.consumers import ConsumerTable
from contrailmq.errors import NetworkError
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.client import NotifyConsumerIdsChangedRequest


class IdsChanged:
    """Sends request code 40, oneway, to every client of a changed group."""

    def __init__(self, loop: asyncio.AbstractEventLoop, consumers: ConsumerTable) -> None:
        self._loop = loop
        self._consumers = consumers
        self._groups: dict[str, None] = {}

    def announce(self, group: str) -> None:
        """Somebody came or went."""
        if not self._groups:
            self._loop.call_soon(self._send)
        self._groups[group] = None

    def _send(self) -> None:
        groups, self._groups = self._groups, {}
        for name in groups:
            group = self._consumers.find(name)
            if group is None or group.is_broadcasting:
                continue
            header = NotifyConsumerIdsChangedRequest(consumer_group=name)
            for connection in list(group.members):
                notice = Command.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header)
                with contextlib.suppress(NetworkError):
                    connection.oneway(notice)
