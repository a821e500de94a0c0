"""Calls of the v2 service to any number of addresses, with the headers that SDKs send."""

from __future__ import annotations

import hashlib
import hmac
import random
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from contrailmq.client.access import Credentials
from contrailmq.client.over_grpc.statuses import code_of, error_of_call, remark_of
from contrailmq.clock import Clock
from contrailmq.grpc import messages
from contrailmq.grpc.call import GrpcError
from contrailmq.grpc.http2.client import Channel, Fields
from contrailmq.grpc.protobuf import codec_of
from contrailmq.net.network import Network
from contrailmq.protocol.command import Command

SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
SPOKEN_VERSION: Final = "5.2.0"  # of the service, which compares it with that of old clients
M = TypeVar("M", bound=msgspec.Struct)


class Calls:
    """The channels of one client."""

    def __init__(
        self,
        client_id: str,
        network: Network,
        *,
        clock: Clock,
        rng: random.Random,
        credentials: Credentials | None,
    ) -> None:
        self._client_id = client_id
        self._network = network
        self._clock = clock
        self._rng = rng
        self._credentials = credentials
        self._channels: dict[str, Channel] = {}

    async def aclose(self) -> None:
        """Close all connections."""
        for channel in self._channels.values():
            await channel.aclose()

    async def ask(
        self, address: str, method: str, request: msgspec.Struct, kind: type[M], *, timeout_s: float
    ) -> M:
        """One call and its answer; raises ContrailError."""
        encoded = codec_of(type(request)).encode(request)
        try:
            answer = await self.channel(address).call(
                SERVICE + method, encoded, passing=self.passing(), timeout_s=timeout_s
            )
        except GrpcError as error:
            raise error_of_call(error, address) from None
        return codec_of(kind).decode(answer)

    def channel(self, address: str) -> Channel:
        """The channel to an address."""
        found = self._channels.get(address)
        if found is None:
            lasting = (
                ("user-agent", "contrailmq"),
                ("x-mq-client-id", self._client_id),
                ("x-mq-language", "PYTHON"),
                ("x-mq-client-version", SPOKEN_VERSION),
                ("x-mq-protocol", "v2"),
            )
            found = self._channels[address] = Channel(address, self._network, lasting=lasting)
        return found

    def passing(self) -> Fields:
        """Headers that differ with every call: its id, and the signature of its moment."""
        request_id = f"{self._rng.getrandbits(128):032x}"
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        fields = [("x-mq-request-id", request_id), ("x-mq-date-time", now)]
        account = self._credentials
        if account is not None:
            sign = hmac.new(account.secret_key.encode(), now.encode(), hashlib.sha1).hexdigest()
            text = f"Credential={account.access_key}, SignedHeaders=x-mq-date-time, Signature="
            fields.append(("authorization", f"MQv2-HMAC-SHA1 {text}{sign.upper()}"))
            if account.security_token is not None:
                fields.append(("x-mq-session-token", account.security_token))
        return fields

    async def carry_out(
        self, address: str, command: Command, method: str, request: msgspec.Struct, *,
        timeout_s: float,
    ) -> Command:  # fmt: skip
        """Make a call that answers with a status only, as the answer to a remoting request."""
        answer = await self.ask(
            address, method, request, messages.StatusResponse, timeout_s=timeout_s
        )
        code = code_of(answer.status)
        return command.refuse(code, remark_of(answer.status)) if code else command.reply()
