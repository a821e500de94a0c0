"""What POP needs to know of the timers: how they cut time, and how far they have come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from contrailmq.clock import Clock
from contrailmq.errors import DiskFull, InvalidParameter, ServiceNotAvailable, StoreClosed
from contrailmq.protocol.names import TIMER_TOPIC
from contrailmq.store.settings import StoreSettings

INVISIBLE_SPARE_MS: Final = 1000


class Wheel(Protocol):
    """What this module needs of the store's timers."""

    queue_offset: int
    delivered_ms: int

    @property
    def is_open(self) -> bool:
        """Whether there are timers at all."""
        ...

    def exist(self) -> bool:
        """Whether the store has timers."""
        ...

    def open(self, now_ms: int) -> None:
        """Make their files."""
        ...

    def behind(self) -> int:
        """How many messages of the timer topic are not in the wheel yet."""
        ...


class PopTimers:
    """The timers as POP sees them."""

    def __init__(
        self,
        wheel: Wheel,
        *,
        settings: Callable[[], StoreSettings],
        store_time: Callable[[str, int, int], int],
        clock: Clock,
    ) -> None:
        self._wheel = wheel
        self._settings = settings
        self._store_time = store_time
        self._clock = clock

    @property
    def is_enabled(self) -> bool:
        """Whether timer messages are delivered."""
        return self._settings().timer_enable

    @property
    def precision_ms(self) -> int:
        """The width of a slot of the timer wheel."""
        return self._settings().timer_slot_ms

    def check(self, invisible_ms: int) -> None:
        """Raise unless a message can be hidden for so long."""
        longest_ms = self._settings().timer_max_delay_s * 1000 - INVISIBLE_SPARE_MS
        if invisible_ms > longest_ms:
            raise InvalidParameter(
                f"invisibleTime {invisible_ms} ms, at most {longest_ms} (timerMaxDelaySec)"
            )

    def prepare(self) -> None:
        """Have the files of the timers made before the first record for them is stored."""
        if not self._wheel.is_open:
            try:
                self._wheel.open(self._clock.now_ms())
            except (DiskFull, OSError) as error:
                raise ServiceNotAvailable(f"no room for the timers: {error}") from error
            except StoreClosed as error:
                raise ServiceNotAvailable(str(error)) from error

    def delivered_until_ms(self) -> int:
        """Every timer message stored and due before this moment is in its topic."""
        wheel = self._wheel
        if not wheel.is_open:  # a new primary's are opened soon: until then nothing is certain
            return 0 if wheel.exist() else self._clock.now_ms()
        if wheel.behind():
            stored_ms = self._store_time(TIMER_TOPIC, 0, wheel.queue_offset)
            return min(wheel.delivered_ms, stored_ms)
        return wheel.delivered_ms
