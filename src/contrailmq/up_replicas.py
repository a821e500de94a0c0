"""The brokers of ``contrail up`` with more than one: a process each, started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self

from contrailmq.errors import ContrailError
from contrailmq.lifecycle import Tasks

log = logging.getLogger(__name__)

CHILD_READY_S: Final = 120.0  # a store that was not stopped cleanly is walked first
AGAIN_S: Final = 0.5
LOOK_S: Final = 0.5
PAUSE_S: Final = 5.0  # after a broker that could not be started again
END_S: Final = 60.0  # it flushes; a broker that is killed meanwhile has to recover
STOP_S: Final = 20.0
Spawn = Callable[[Sequence[str]], Awaitable[asyncio.subprocess.Process]]
Ready = Callable[[asyncio.subprocess.Process], Awaitable[str]]


class ReplicaProcesses:
    """``async with ReplicaProcesses(commands, spawn, ready)``: all serve, and return after a kill.

    ``spawn`` starts a process with its output in a pipe.  ``ready`` waits until a process serves,
    and returns its address.
    """

    def __init__(self, commands: Sequence[Sequence[str]], spawn: Spawn, ready: Ready) -> None:
        self._commands = commands
        self._spawn = spawn
        self._ready = ready
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._tasks = Tasks()
        self.addresses: list[str] = []
        self.restarts = 0

    async def __aenter__(self) -> Self:
        try:
            for number in range(len(self._commands)):
                self.addresses.append(await self._start(number))
            for number in range(len(self._commands)):
                self._tasks.start(self._keep(number), name=f"replica {number}")
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop all of them."""
        await self._tasks.aclose()
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        for child in self._children.values():
            try:
                async with asyncio.timeout(STOP_S):
                    await child.wait()
            except TimeoutError:
                child.kill()
                await child.wait()

    def pids(self) -> list[int]:
        """The processes, in the order of the commands."""
        return [child.pid for _, child in sorted(self._children.items())]

    async def _start(self, number: int) -> str:
        child = await self._spawn(self._commands[number])
        self._children[number] = child
        return await self._ready(child)

    async def _keep(self, number: int) -> None:
        while True:
            code = await self._children[number].wait()
            log.warning("a replica has ended and is started again: number=%s code=%s", number, code)
            self.restarts += 1
            await asyncio.sleep(AGAIN_S)
            try:
                await self._start(number)
            except Exception as error:
                log.error("a replica does not start: number=%s error=%s", number, error)
                await asyncio.sleep(AGAIN_S)


async def ready_address(child: asyncio.subprocess.Process) -> str:
    """The address in the line a broker prints when it serves."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(CHILD_READY_S):
            line = (await child.stdout.readline()).decode()
    except TimeoutError:
        raise ContrailError(f"a broker was not ready within {CHILD_READY_S:g} s") from None
    if "boot success" not in line:
        raise ContrailError("a broker did not start, for the reason above; so none does")
    return line.partition(", ")[2].partition("]")[0]


async def keep_running(
    children: list[asyncio.subprocess.Process], commands: Sequence[Sequence[str]], spawn: Spawn
) -> None:
    """Start a broker again that has ended, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        for number, child in enumerate(children):
            if child.returncode is None:
                continue
            log.warning(
                "a broker has ended and is started again: number=%s code=%s",
                number,
                child.returncode,
            )
            children[number] = await spawn(commands[number])
            try:
                await ready_address(children[number])
            except ContrailError as error:
                log.error("a broker cannot be started again: number=%s error=%s", number, error)
                await asyncio.sleep(PAUSE_S)


async def await_end(child: asyncio.subprocess.Process) -> None:
    """Wait until a process that was told to end has ended, and kill it if it does not."""
    try:
        async with asyncio.timeout(END_S):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
