"""Keeping the name servers informed: at start, every 30 seconds, after every change, at the end.

All name servers are told in parallel; each is an independent directory.  A change is registered
at once; changes that come while a registration is under way are gathered into the next, and so
are those that come soon after it: a registration names all topics, and a thousand of them for a
thousand new topics would cost a million.  (A new topic is announced by itself at once.)  The answer
brings the order configuration, and for a replica the addresses of its primary.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.clock import Clock
from contrailmq.errors import BrokerError, NetworkError, RemoteProtocolError, error_of
from contrailmq.net.client import RemotingClient
from contrailmq.net.noise import Noise
from contrailmq.protocol.bodies.route import KVTable
from contrailmq.protocol.bodies.topic import (
    RegisterBrokerBody,
    TopicConfigAndMappingWrapper,
    body_crc32,
)
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.route import (
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)

log = logging.getLogger(__name__)

UNREGISTER_TIMEOUT_S: Final = 0.4  # stopping does not wait long for a name server
ANNOUNCE_TIMEOUT_S: Final = 2.0
FIRST_SEND_TIMEOUT_S: Final = 0.3  # how long the first message of a topic waits for name servers
RETRY_S: Final = (0.2, 0.5, 1.0, 2.0, 5.0)  # after failures one after another; then the last
LOOK_S: Final = 1.0  # how soon a lost connection to a name server is noticed
NAME_SERVERS_MAX: Final = 64
PERIOD_S_MIN: Final = 10.0
PERIOD_S_MAX: Final = 60.0
REST: Final = 20  # times as long as it took to write all topics down
REST_S_MIN: Final = 0.001
REST_S_MAX: Final = 1.0
PLAIN_SIZE_MAX: Final = 8 * 1024 * 1024  # a frame holds 16 MiB; larger tables go compressed


def split_addresses(text: str) -> list[str]:
    """``a:9876;b:9876`` as a list; commas separate too."""
    found = dict.fromkeys(part.strip() for part in re.split("[;,]", text))
    found.pop("", None)
    return list(found)[:NAME_SERVERS_MAX]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a round of registrations went."""

    told: tuple[str, ...]
    failed: dict[str, str]


class Registration:
    """Registers the broker; a service that runs until cancelled."""

    def __init__(
        self,
        client: RemotingClient,
        topics: TopicTable,
        *,
        identity: Identity,
        live: LiveSettings,
        clock: Clock,
    ) -> None:
        self._client = client
        self._topics = topics
        self._identity = identity
        self._live = live
        self._noise = Noise(clock)
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._body_s = 0.0
        self.last: Outcome | None = None
        self.is_held = False  # a broker that does not know its part yet is registered nowhere
        self.on_primary: Callable[[str, str], None] = lambda address, ha_address: None

    def changed(self) -> None:
        """Topics or permissions have changed: register soon."""
        self._wake.set()

    @property
    def addresses(self) -> list[str]:
        """The name servers."""
        return split_addresses(self._live.now.namesrv_addr)

    async def run(self) -> None:
        """Register on every change and every ``registerNameServerPeriod``, until cancelled.

        A name server that was not told is told again soon, and one whose connection is lost, since
        it may have started anew and know nothing.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            if self.last is not None and self.last.failed:
                wait_s = RETRY_S[min(failures, len(RETRY_S) - 1)]
                failures += 1
            else:
                wait_s = min(
                    max(self._live.now.register_period_ms / 1000, PERIOD_S_MIN), PERIOD_S_MAX
                )
                failures = 0
            due_at = loop.time() + wait_s
            while not self._wake.is_set() and loop.time() < due_at and not self._has_lost_one():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(LOOK_S, due_at - loop.time())):
                        await self._wake.wait()
            for address in self.addresses:
                if self._client.find_connection(address) is None:
                    self._client.drop(address, "it is tried again")  # its failures are forgotten
            await self.register()
            rest_s = min(REST * self._body_s, REST_S_MAX)
            if rest_s > REST_S_MIN:
                await asyncio.sleep(rest_s)

    def _has_lost_one(self) -> bool:
        """Whether a name server that was told has no connection any more."""
        told = self.last.told if self.last is not None else ()
        return any(self._client.find_connection(address) is None for address in told)

    async def announce(self, topic: str, *, timeout_s: float = ANNOUNCE_TIMEOUT_S) -> None:
        """Tell all name servers of one changed topic, before its maker asks them for it.

        A name server that knows this broker takes a table with one topic as a change of it; one
        that does not refuses it, and gets everything with the next registration.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self.register(only=topic)
        except TimeoutError:
            self._wake.set()

    async def register(self, *, only: str | None = None) -> Outcome:
        """Tell all name servers now; raises nothing, the outcome says how it went."""
        async with self._lock:
            if only is None:
                self._wake.clear()
            if self.is_held:
                self.last = Outcome((), {})
                return self.last
            addresses = self.addresses
            began = asyncio.get_running_loop().time()
            body, is_compressed = self._body(only)
            if only is None:
                self._body_s = asyncio.get_running_loop().time() - began
            header = RegisterBrokerRequest(
                broker_name=self._identity.broker_name,
                broker_addr=self._identity.address,
                cluster_name=self._identity.cluster_name,
                ha_server_addr=self._identity.ha_address,
                broker_id=self._identity.broker_id,
                enable_acting_master=False,
                compressed=is_compressed,
                body_crc32=body_crc32(body),
            )
            timeout_s = self._live.now.register_timeout_ms / 1000
            answers = await asyncio.gather(
                *(
                    self._register_at(address, header, body, timeout_s=timeout_s)
                    for address in addresses
                )
            )
            faults = {a: fault for a, fault in zip(addresses, answers, strict=True) if fault}
            told = tuple(address for address in addresses if address not in faults)
            for address, fault in faults.items():
                self._complain(address, fault)
            self.last = Outcome(told, faults)
            return self.last

    async def unregister(self) -> None:
        """Say goodbye to all name servers; one that does not answer is left to its own scan."""
        header = UnregisterBrokerRequest(
            broker_name=self._identity.broker_name,
            broker_addr=self._identity.address,
            cluster_name=self._identity.cluster_name,
            broker_id=self._identity.broker_id,
        )

        async def leave(address: str) -> None:
            command = Command.request(RequestCode.UNREGISTER_BROKER, header)
            try:
                await self._client.call(address, command, timeout_s=UNREGISTER_TIMEOUT_S)
            except NetworkError as error:
                log.info("not unregistered: namesrv=%s error=%s", address, error)

        await asyncio.gather(*(leave(address) for address in self.addresses))

    def _body(self, only: str | None) -> tuple[bytes, bool]:
        """What is told of the topics, and whether it is compressed."""
        registered = self._topics.registered(self._live.permission.bits, only=only)
        wrapper = TopicConfigAndMappingWrapper(
            data_version=registered.data_version,
            mapping_data_version=registered.data_version,
            topic_config_table=registered.topic_config_table,
        )
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)
        plain = body.encode()
        if len(plain) <= PLAIN_SIZE_MAX:
            return plain, False
        return body.encode_compressed(attributes=False), True

    async def _register_at(
        self, address: str, header: RegisterBrokerRequest, body: bytes, *, timeout_s: float
    ) -> str | None:
        """None, or what went wrong."""
        command = Command.request(RequestCode.REGISTER_BROKER, header, body=body)
        try:
            answer = await self._client.call(address, command, timeout_s=timeout_s)
            if answer.code != 0:
                raise error_of(answer.code, answer.remark)
            if answer.body:
                self._topics.apply_order_topics(KVTable.decode(answer.body).table)
            found = RegisterBrokerResponse.from_fields(answer.fields)
            if found.master_addr or found.ha_server_addr:
                self.on_primary(found.master_addr or "", found.ha_server_addr or "")
        except (NetworkError, BrokerError, RemoteProtocolError) as error:
            return str(error)
        return None

    def _complain(self, address: str, fault: str) -> None:
        held_back = self._noise.held_back(address)
        if held_back is not None:
            log.warning(
                "not registered: namesrv=%s error=%s held_back=%s", address, fault, held_back
            )
