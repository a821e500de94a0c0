"""Etcd by its client ``aetcd`` (the extra ``controller``): one server after another is tried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from contrailmq.controller.etcd import Change, Condition, EtcdFault, Outcome, Row
from contrailmq.errors import ConfigError

T = TypeVar("T")
TIMEOUT_S: Final = 1.0


class EtcdClient:
    """A connection to one server of an etcd cluster; after a fault to the next."""

    def __init__(
        self, endpoints: Sequence[tuple[str, int]], *, user: str = "", password: str = ""
    ) -> None:
        try:
            import aetcd
        except ImportError:
            raise ConfigError(
                "controllerLedger=etcd://… needs the package aetcd: "
                "pip install 'contrailmq[controller]'"
            ) from None
        self._aetcd: Any = aetcd
        self._endpoints = list(endpoints)
        self._access = (user or None, password or None)
        self._turn = 0
        self._client: Any = None

    async def lease(self, ttl_s: int) -> int:
        """Return a new lease."""
        found = await self._call(lambda client: client.lease(ttl_s))
        return int(found.id)

    async def refresh(self, lease: int) -> bool:
        """Keep a lease alive; False when it has ended."""
        found = await self._call(lambda client: client.refresh_lease(lease))
        if found is None:
            raise EtcdFault("no answer to a keep-alive")
        return int(found.TTL) > 0

    async def revoke(self, lease: int) -> None:
        """End a lease."""
        await self._call(lambda client: client.revoke_lease(lease))

    async def transact(
        self, conditions: Sequence[Condition], change: Change, *, prefix: str = ""
    ) -> Outcome:
        """Make a change if all conditions hold; read what is under ``prefix`` in any case."""

        async def run(client: Any) -> Outcome:
            words = client.transactions
            compare = [
                (words.create if one.is_create else words.mod)(one.key.encode()) == one.revision
                for one in conditions
            ]
            key = change.key.encode()
            if change.value is None:
                then = [words.delete(key)]
            else:
                then = [words.put(key, change.value, change.lease or None)]
            start = prefix.encode()
            reads = [words.get(start, self._aetcd.utils.prefix_range_end(start))] if start else []
            made, answers = await client.transaction(compare, [*then, *reads], reads)
            rows = [_row(found) for _, found in answers[-1]] if reads else []
            return Outcome(made, _revision(answers[0]) if made else 0, rows)

        return await self._call(run)

    async def aclose(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _call(self, act: Callable[[Any], Awaitable[T]]) -> T:
        if self._client is None:
            host, port = self._endpoints[self._turn % len(self._endpoints)]
            user, password = self._access
            self._client = self._aetcd.Client(
                host=host, port=port, username=user, password=password, timeout=TIMEOUT_S
            )
        client = self._client
        try:
            async with asyncio.timeout(TIMEOUT_S * 2):
                return await act(client)
        except (self._aetcd.ClientError, TimeoutError) as error:
            host, port = self._endpoints[self._turn % len(self._endpoints)]
            if self._client is client:
                self._turn += 1
                await self.aclose()
            raise EtcdFault(f"{host}:{port}: {error or 'no answer'}") from error


def _row(found: Any) -> Row:
    return Row(
        found.key.decode(), found.value, found.create_revision, found.mod_revision, found.lease
    )


def _revision(answer: Any) -> int:
    kind = answer.WhichOneof("response")
    return int(getattr(answer, kind).header.revision)
