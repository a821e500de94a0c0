"""The name servers of a client: one is asked until it fails, then the next.

The list is fixed, comes from the environment, or is fetched over HTTP now and then; a list that
changes takes effect at the next question.
"""

from __future__ import annotations

import asyncio
import logging
import random
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Protocol

from contrailmq.errors import ClientError, NetworkError
from contrailmq.protocol.command import Command

log = logging.getLogger(__name__)

_FETCH_TIMEOUT_S = 3.0
_ANSWER_SIZE_MAX = 64 * 1024


class Caller(Protocol):
    """How a request gets to an address and its answer back."""

    async def call(self, address: str, command: Command, *, timeout_s: float) -> Command:
        """The answer, whatever its code."""
        ...


class NameServers:
    """A list of addresses, and which of them is in use."""

    def __init__(self, addresses: Sequence[str], *, caller: Caller, rng: random.Random) -> None:
        self._caller = caller
        self._rng = rng
        self._addresses: list[str] = []
        self._index = 0
        self.replace(addresses)

    @property
    def addresses(self) -> list[str]:
        """All name servers, in the order they are tried."""
        return list(self._addresses)

    def replace(self, addresses: Sequence[str]) -> bool:
        """Use another list; the one in use is kept if it is still there. Whether it changed."""
        if sorted(addresses) == sorted(self._addresses):
            return False
        current = self._addresses[self._index] if self._addresses else None
        self._addresses = list(addresses)
        self._rng.shuffle(self._addresses)
        self._index = self._addresses.index(current) if current in self._addresses else 0
        return True

    async def ask(self, command: Command, *, timeout_s: float) -> Command:
        """The answer of the first name server that can be reached, whatever its code."""
        if not self._addresses:
            raise ClientError(
                "no name server is known: give name_servers='host:9876', or set NAMESRV_ADDR"
            )
        failures = []
        for _ in range(len(self._addresses)):
            address = self._addresses[self._index]
            try:
                return await self._caller.call(address, command, timeout_s=timeout_s)
            except NetworkError as error:
                text = str(error)
                failures.append(text if text.startswith(address) else f"{address}: {text}")
                self._index = (self._index + 1) % len(self._addresses)
        raise NetworkError(
            "no name server answers; is one running there, and can it be reached from here? "
            + "; ".join(failures)
        )

    def __str__(self) -> str:
        return ";".join(self._addresses)


async def discover(url: str, *, unit_name: str | None = None) -> list[str]:
    """The addresses an HTTP address server answers with; raises NetworkError."""
    if unit_name:
        url = f"{url}-{unit_name}?nofix=1"
    try:
        text = await asyncio.to_thread(_get, url)
    except (OSError, ValueError) as error:
        raise NetworkError(f"name servers could not be fetched from {url}: {error}") from error
    return [part for part in text.replace(",", ";").strip().split(";") if part]


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("an address server has an http or https address")
    with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as answer:
        data: bytes = answer.read(_ANSWER_SIZE_MAX)
    return data.decode("ascii", "replace")
