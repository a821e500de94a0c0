"""Sockets in virtual time: hosts, connections and everything that can happen to them.

``SimNetwork`` is the wire.  ``network.host("10.0.0.1")`` is a machine on it, and a ``Network`` for
the servers and clients that run there.  A connection is two pipes; bytes written into one arrive,
in order, in pieces of random size after a random delay.  As with real sockets there is room for
``WINDOW_SIZE`` bytes on the way; what is beyond waits in the writer's transport, which then asks
its protocol to pause.

Faults, all of them off until asked for:

* ``delay``: how long a piece takes, as a range of seconds.
* ``reset(a, b)``: connections between two hosts break; both ends notice.
* ``cut(a, b)``: nothing gets from a to b (one way) until ``heal``; connections stay, as TCP's do.
* ``crash(host)``: the machine is gone without a word; its peers notice when they write after it
  is back (``restart``), or by their own timeouts. Half-open connections come from this.
* ``stall(host)``: the machine hangs: nothing gets to it or away from it until ``heal``.

Every event is written into ``trace``: equal seeds give equal traces.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from contrailmq.net.accepting import Factory, unlimited

Buffer = bytes | bytearray | memoryview

WINDOW_SIZE: Final = 256 * 1024
FIRST_PORT: Final = 40_000
TICK_S: Final = 0.05  # how often a pipe that is cut tries again


class SimNetwork:
    """The wire between all hosts of a simulation."""

    def __init__(self, rng: random.Random, *, delay: tuple[float, float] = (0.0001, 0.002)) -> None:
        self.rng = rng
        self.delay = delay
        self.trace: list[tuple[float, str]] = []
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self.transports: dict[SimTransport, None] = {}
        self.names: dict[str, str] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._stalled: set[str] = set()
        self._crashed: set[str] = set()
        self._next_port = FIRST_PORT

    def host(self, ip: str) -> SimHost:
        """A machine with this address."""
        return SimHost(self, ip)

    def cut(self, source: str, target: str, *, both: bool = False) -> None:
        """Let nothing get from ``source`` to ``target`` (and back)."""
        self._cuts.add((source, target))
        if both:
            self._cuts.add((target, source))
        self.note(f"cut {source} {target} both={both}")

    def stall(self, ip: str) -> None:
        """A machine hangs: it takes and sends nothing until healed."""
        self._stalled.add(ip)
        self.note(f"stall {ip}")

    def heal(self) -> None:
        """End all cuts and stalls; what waited on the way arrives."""
        self._cuts.clear()
        self._stalled.clear()
        self.note("heal")

    def reset(self, first: str, second: str) -> int:
        """Break every connection between two hosts; returns how many there were."""
        hit = [t for t in self.transports if {t.ip, t.peer_ip} == {first, second}]
        for transport in hit:
            transport.break_off(ConnectionResetError("connection reset by peer"))
        self.note(f"reset {first} {second}")
        return len(hit) // 2

    def crash(self, ip: str) -> None:
        """A machine is gone: its listeners and its ends of connections vanish silently."""
        self._crashed.add(ip)
        for place in [place for place in self.listeners if place[0] == ip]:
            del self.listeners[place]
        for transport in [t for t in self.transports if t.ip == ip]:
            transport.vanish()
        self.note(f"crash {ip}")

    def restart(self, ip: str) -> None:
        """A crashed machine is back, with no memory of its connections."""
        self._crashed.discard(ip)
        self.note(f"restart {ip}")

    def is_open(self, source: str, target: str) -> bool:
        """Whether bytes get from one host to the other now."""
        return (
            (source, target) not in self._cuts
            and self._stalled.isdisjoint((source, target))
            and self._crashed.isdisjoint((source, target))
        )

    def is_crashed(self, ip: str) -> bool:
        """Whether this machine is gone."""
        return ip in self._crashed

    def resolve(self, name: str) -> str:
        """The address a name has now."""
        return self.names.get(name, name)

    def take_port(self) -> int:
        """A port nobody uses."""
        self._next_port += 1
        return self._next_port

    def pause_s(self) -> float:
        """How long the next piece is under way."""
        return self.rng.uniform(*self.delay)

    def note(self, event: str) -> None:
        """Write an event into the trace."""
        self.trace.append((asyncio.get_running_loop().time(), event))


class SimHost:
    """A machine on the simulated wire: a ``Network`` for what runs there."""

    def __init__(self, network: SimNetwork, ip: str) -> None:
        self.network = network
        self.ip = ip

    async def connect(self, factory: Factory, host: str, port: int) -> asyncio.BaseProtocol:
        """Connect; refused when nobody listens, no answer at all across a cut."""
        network, target = self.network, self.network.resolve(host)
        await asyncio.sleep(network.pause_s())
        while not (  # noqa: ASYNC110 (virtual time: a tick costs nothing)
            network.is_open(self.ip, target) and network.is_open(target, self.ip)
        ):
            await asyncio.sleep(TICK_S)  # the caller's timeout ends this
        listener = network.listeners.get((target, port))
        if listener is None:
            network.note(f"refused {self.ip} -> {target}:{port}")
            raise ConnectionRefusedError(f"connection refused: {host}:{port}")
        while listener.room() <= 0:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(TICK_S)
        ours = SimTransport(network, (self.ip, network.take_port()), (target, port))
        theirs = SimTransport(network, (target, port), ours.name)
        ours.other, theirs.other = theirs, ours
        network.note(f"connect {self.ip}:{ours.name[1]} -> {target}:{port}")
        protocol = factory()
        theirs.open(listener.factory())
        ours.open(protocol)
        return protocol

    async def listen(
        self,
        factory: Factory,
        host: str,
        port: int,
        *,
        backlog: int = 1024,
        room: Callable[[], int] = unlimited,
    ) -> SimListener:
        """Listen on a port of this machine, whatever ``host`` says."""
        place = (self.ip, port or self.network.take_port())
        if place in self.network.listeners:
            raise OSError(98, f"address already in use: {place}")
        listener = SimListener(self.network, place, factory, room)
        self.network.listeners[place] = listener
        return listener


class SimListener:
    """A port that is listened on."""

    def __init__(
        self, network: SimNetwork, place: tuple[str, int], factory: Factory, room: Callable[[], int]
    ) -> None:
        self._network, self._place = network, place
        self.factory, self.room = factory, room

    def resume(self) -> None:
        """Who waits for room looks for it in every tick."""

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._place[1]

    def close(self) -> None:
        """Take no more connections."""
        if self._network.listeners.get(self._place) is self:
            del self._network.listeners[self._place]

    async def wait_closed(self) -> None:
        """Simulated ports are free at once."""


class SimTransport(asyncio.Transport):
    """One end of a simulated connection, with the interface of asyncio's transports."""

    def __init__(self, network: SimNetwork, name: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__({"sockname": name, "peername": peer})
        self.network = network
        self.name = name
        self.ip, self.peer_ip = name[0], peer[0]
        self.other: SimTransport | None = None
        self.is_vanished = False
        self._loop = asyncio.get_running_loop()
        self._protocol: Any = None
        self._waiting: deque[memoryview] = deque()  # written, not yet on the way
        self._waiting_size = 0
        self._on_the_way = 0  # sent or received, not yet taken by the other end's protocol
        self._received: deque[bytes] = deque()
        self._flight: deque[bytes | None] = deque()
        self._blocked: deque[bytes | None] = deque()  # on the way, stopped by a cut
        self._last_arrival = 0.0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_write_paused = self._is_read_paused = False
        self._is_closing = self._is_gone = self._has_eof = self._sent_eof = False

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        """Both ends exist: begin."""
        self._protocol = protocol
        self.network.transports[self] = None
        protocol.connection_made(self)

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._is_closing

    def write(self, data: Buffer) -> None:
        """Queue bytes for the other end."""
        if self._is_closing or self.is_vanished or not data:
            return
        self._waiting.append(memoryview(bytes(data)))
        self._waiting_size += len(data)
        self._pump()
        if self._waiting_size > self._high and not self._is_write_paused:
            self._is_write_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Queue several buffers."""
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        """Bytes queued and not yet on the way."""
        return self._waiting_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Where the protocol is asked to pause and to go on."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def is_reading(self) -> bool:
        """Whether received bytes are handed to the protocol."""
        return not (self._is_read_paused or self._is_closing)

    def pause_reading(self) -> None:
        """Hand nothing to the protocol for now."""
        self._is_read_paused = True

    def resume_reading(self) -> None:
        """Hand over what has come meanwhile."""
        self._is_read_paused = False
        self._loop.call_soon(self._deliver)

    def close(self) -> None:
        """Send what is queued, then end."""
        if self.is_vanished:
            self._gone(None)
        elif not self._is_closing:
            self._is_closing = True
            self._finish_if_drained()

    def abort(self) -> None:
        """End now; the other end sees a reset."""
        other = self.other
        self.network.note(f"abort {self.name} -> {self.peer_ip}")
        self._gone(None)
        if other is None or self.is_vanished:
            return
        if self.network.is_open(self.ip, other.ip):
            other.break_off(ConnectionResetError("connection reset by peer"))

    def vanish(self) -> None:
        """This end's machine has crashed: nobody is told, and nothing more leaves it."""
        self.is_vanished = True
        self._received.clear()
        self.network.transports.pop(self, None)

    def break_off(self, error: Exception | None) -> None:
        """The connection ends here with an error."""
        self._loop.call_later(self.network.pause_s(), self._gone, error)

    def _pump(self) -> None:
        """Put as much on the way as the window allows."""
        while self._waiting and self._on_the_way < WINDOW_SIZE:
            data = self._waiting.popleft()
            room = WINDOW_SIZE - self._on_the_way
            size = min(len(data), room, self.network.rng.choice((1 << 20, 1 << 16, 4096, 100)))
            if size < len(data):
                self._waiting.appendleft(data[size:])
            self._waiting_size -= size
            self._on_the_way += size
            self._send(bytes(data[:size]))
        if self._is_write_paused and self._waiting_size <= self._low:
            self._is_write_paused = False
            self._protocol.resume_writing()
        if self._is_closing:
            self._finish_if_drained()

    def _send(self, data: bytes | None) -> None:
        arrival = max(self._last_arrival, self._loop.time() + self.network.pause_s())
        self._last_arrival = arrival
        self._flight.append(data)
        self._loop.call_at(arrival, self._arrive)

    def _arrive(self) -> None:
        """A piece reaches the other machine, unless something is in its way."""
        data = self._flight.popleft()  # timers of one moment go off in any order, pieces do not
        other = self.other
        if other is None or self.is_vanished or self._is_refused(other):
            return
        if self._blocked or not self.network.is_open(self.ip, other.ip):
            self._blocked.append(data)
            if len(self._blocked) == 1:
                self._loop.call_later(TICK_S, self._retry)
            return
        other.receive(data)

    def _retry(self) -> None:
        """Something was in the way: is it still?"""
        other = self.other
        if other is None or self.is_vanished or self._is_refused(other):
            self._blocked.clear()
        elif self.network.is_open(self.ip, other.ip):
            pieces, self._blocked = self._blocked, deque()
            for piece in pieces:
                other.receive(piece)
        else:
            self._loop.call_later(TICK_S, self._retry)

    def _is_refused(self, other: SimTransport) -> bool:
        """Whether the other end is no more; its machine, if it is there, answers with a reset."""
        if not (other._is_gone or other.is_vanished):
            return False
        if self.network.is_crashed(other.ip):
            return False  # nobody answers: the piece waits for the machine, as TCP's would
        if not self._is_gone:
            self._gone(ConnectionResetError("connection reset by peer"))
        return True

    def receive(self, data: bytes | None) -> None:
        """A piece has come, or (None) the other end sends no more."""
        if data is None:
            self._has_eof = True
        else:
            self._received.append(data)
        self._deliver()

    def _deliver(self) -> None:
        while self._received and self.is_reading():
            data = self._received.popleft()
            view = self._protocol.get_buffer(len(data))
            size = min(len(view), len(data))
            view[:size] = data[:size]
            if size < len(data):
                self._received.appendleft(data[size:])
            self.network.trace.append((self._loop.time(), f"{self.name} got {size}"))
            self._protocol.buffer_updated(size)
            if self.other is not None:
                self.other._taken(size)
        if self._has_eof and not self._received and self.is_reading():
            self._protocol.eof_received()
            self.close()

    def _taken(self, size: int) -> None:
        self._on_the_way -= size
        if not self._is_gone:
            self._pump()

    def _finish_if_drained(self) -> None:
        if not self._waiting and not self._sent_eof:
            self._sent_eof = True
            self._send(None)
            self._loop.call_soon(self._gone, None)

    def _gone(self, error: Exception | None) -> None:
        if self._is_gone:
            return
        self._is_closing = self._is_gone = True
        self._waiting.clear()
        self._waiting_size = 0
        self.network.transports.pop(self, None)
        self.network.trace.append((self._loop.time(), f"{self.name} gone {error!r}"))
        self._loop.call_soon(self._protocol.connection_lost, error)
