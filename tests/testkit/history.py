"""What clients asked and were told, and whether one log per queue explains it all.

In the manner of Jepsen's total-queue and log tests.  A send is attempted, and perhaps acknowledged
at a place (queue, offset).  A read is what a client was given at a place, at any time, by any
broker.  The final log is what the last primary has at the end.  Then

* every acknowledged message is in the final log, at its place;
* no two acknowledged messages have one place;
* what was read was attempted;
* a place that was read once never has another message, and never disappears;
* a message that was sent after another was acknowledged, to the same queue, comes after it;
* no acknowledged message is there twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[int, int]


@dataclass(slots=True)
class Send:
    """One attempt. Times are those of the simulation."""

    body: bytes
    queue: int
    began: float
    ended: float | None = None
    offset: int | None = None  # of the acknowledgement


@dataclass(slots=True)
class History:
    """Everything clients saw."""

    sends: list[Send] = field(default_factory=list)
    reads: dict[Place, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def begin(self, body: bytes, queue: int, now: float) -> Send:
        """An attempt begins."""
        found = Send(body, queue, now)
        self.sends.append(found)
        return found

    def read(self, queue: int, offset: int, body: bytes) -> None:
        """A client was given a message."""
        before = self.reads.setdefault((queue, offset), body)
        if before != body:
            self.faults.append(f"{queue}/{offset} was {before!r} and is {body!r}")

    def acknowledged(self) -> list[Send]:
        """The sends whose success was told."""
        return [send for send in self.sends if send.offset is not None]


def check(history: History, final: dict[Place, bytes]) -> list[str]:
    """What is wrong; nothing when one log per queue explains the history."""
    faults = list(history.faults)
    attempted = {send.body for send in history.sends}
    places: dict[Place, bytes] = {}
    for send in history.acknowledged():
        assert send.offset is not None
        place = (send.queue, send.offset)
        if place in places:
            faults.append(f"{place}: {places[place]!r} and {send.body!r} were acknowledged there")
        places[place] = send.body
        if final.get(place) != send.body:
            faults.append(f"{place}: {send.body!r} was acknowledged, {final.get(place)!r} is there")
    for place, body in history.reads.items():
        if body not in attempted:
            faults.append(f"{place}: {body!r} was read and never sent")
        if final.get(place) != body:
            faults.append(f"{place}: {body!r} was read, {final.get(place)!r} is there")
    found: dict[bytes, int] = {}
    for body in final.values():
        found[body] = found.get(body, 0) + 1
    faults += [
        f"{body!r} is there {found[body]} times"
        for body in places.values()
        if found.get(body, 0) > 1
    ]
    return faults + _order(history)


def _order(history: History) -> list[str]:
    faults = []
    for queue in sorted({send.queue for send in history.sends}):
        sends = [send for send in history.acknowledged() if send.queue == queue]
        sends.sort(key=lambda send: send.offset or 0)
        latest = None  # of those before in the log, the one that began last
        for send in sends:
            if latest is not None and send.ended is not None and send.ended < latest.began:
                faults.append(
                    f"{queue}/{send.offset} ended at {send.ended:.3f} and is after "
                    f"{queue}/{latest.offset}, which began at {latest.began:.3f}"
                )
            if latest is None or send.began > latest.began:
                latest = send
    return faults
