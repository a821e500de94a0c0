"""A number that changes whenever a decision taken earlier may be wrong.

The hot paths decide once per topic or group (does it exist, how many queues, may one write) and
reuse the decision while ``value`` has not changed.  Every table that such a decision reads bumps
the one ``Revision`` it was given; a bump costs nothing but a look-up for everybody.
"""

from __future__ import annotations


class Revision:
    """Shared by the tables of one broker; only they bump it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def bump(self) -> None:
        """Make every cached decision stale."""
        self.value += 1

    def __repr__(self) -> str:
        return f"<Revision {self.value}>"
