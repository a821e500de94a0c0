"""Where a controller keeps its groups: every change is certain before anybody hears of it.

``file``: one file, replaced whole and synced at each change.  One controller owns it.  While it is
down brokers go on as they are, and nobody is elected.  The other kind is in ``etcd.py``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from contrailmq.controller.groups import Group
from contrailmq.errors import StoreError
from contrailmq.lifecycle import uninterrupted


class Ledger(Protocol):
    """What a controller needs of its memory."""

    async def open(self) -> dict[str, Group]:
        """Everything that was kept."""
        ...

    def leads(self) -> bool:
        """Whether this controller may change anything."""
        ...

    def leader(self) -> str:
        """The address of the controller that leads; empty when none does."""
        ...

    def controllers(self) -> list[str]:
        """The addresses of all controllers."""
        ...

    async def follow(self, address: str, tell: Callable[[dict[str, Group]], None]) -> None:
        """Lead, or wait until the leader is gone; ``tell`` hears the groups when they are read."""
        ...

    async def swap(self, name: str, old: Group | None, new: Group | None) -> bool:
        """Put a new state in the place of the old one; False when that is not the state."""
        ...

    async def aclose(self) -> None:
        """Let go of it."""
        ...


class FileLedger:
    """One file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser()
        self._groups: dict[str, Group] = {}
        self._address = ""

    async def open(self) -> dict[str, Group]:
        """Read the file."""
        loop = asyncio.get_running_loop()
        try:
            data = await loop.run_in_executor(None, self._path.read_bytes)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from error
        try:
            self._groups = msgspec.json.decode(data, type=dict[str, Group])
        except msgspec.DecodeError as error:
            raise StoreError(f"{self._path} is not a ledger of a controller: {error}") from error
        return dict(self._groups)

    def leads(self) -> bool:
        """There is no other."""
        return True

    def leader(self) -> str:
        """This controller."""
        return self._address

    def controllers(self) -> list[str]:
        """This controller."""
        return [self._address]

    async def follow(self, address: str, tell: Callable[[dict[str, Group]], None]) -> None:
        """Lead until cancelled."""
        self._address = address
        await asyncio.get_running_loop().create_future()

    async def swap(self, name: str, old: Group | None, new: Group | None) -> bool:
        """Write the file with the new state; it is on disk when this returns."""
        if self._groups.get(name) != old:
            return False
        groups = dict(self._groups)
        if new is None:
            groups.pop(name, None)
        else:
            groups[name] = new
        loop = asyncio.get_running_loop()
        data = msgspec.json.format(msgspec.json.encode(groups), indent=1)
        await uninterrupted(loop.run_in_executor(None, self._write, data))
        self._groups = groups
        return True

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _write(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
