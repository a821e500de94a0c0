"""Which messages have a time of their own, and where they wait for it.

The rules and their order are the original's (HookUtils.handleScheduleMessage): TIMER_DELAY_SEC
before TIMER_DELAY_MS before TIMER_DELIVER_MS; a delay level outranks all three; a message that is
due already is an ordinary one, except a cancel, which is refused.  A message that waits is a record
of the timer topic with TIMER_OUT_MS, REAL_TOPIC and REAL_QID.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from contrailmq.broker.tables.timer_tally import TimerTally
from contrailmq.clock import Clock
from contrailmq.errors import (
    DiskFull,
    IllegalMessage,
    ServiceNotAvailable,
    StoreClosed,
    SystemFailure,
)
from contrailmq.protocol.names import TIMER_TOPIC
from contrailmq.protocol.properties import (
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TIMER_DEL_UNIQKEY,
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_TIMER_OUT_MS,
    encode_properties,
)
from contrailmq.store.settings import StoreSettings
from contrailmq.store.types import NewMessage

TIMES: Final = (
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELIVER_MS,
)
PROPERTIES_MAX: Final = 32_767
DELIVERY_SIZE: Final = 160  # what delivering and storing again add to the properties
LONG_MAX: Final = 2**63 - 1


class Slots(Protocol):
    """What this module needs of the timers."""

    @property
    def is_open(self) -> bool:
        """Whether there are timers at all."""
        ...

    def open(self, now_ms: int) -> None:
        """Make their files."""
        ...

    def waits_in_slot(self, slot_ms: int) -> int:
        """How many messages a slot has."""
        ...


class Timing:
    """Turns messages with a time into records of the timer topic."""

    def __init__(
        self,
        slots: Slots,
        *,
        settings: Callable[[], StoreSettings],
        tally: TimerTally,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._slots = slots
        self._tally = tally
        self._settings = settings
        self._clock = clock
        self._rng = rng

    @staticmethod
    def has_time(topic: str, properties: Mapping[str, str]) -> bool:
        """Whether a message without a delay level asks for a moment of its own."""
        if topic == TIMER_TOPIC or PROPERTY_TIMER_OUT_MS in properties:
            return False
        return any(name in properties for name in TIMES)

    def arrange(self, message: NewMessage, properties: dict[str, str]) -> NewMessage:
        """The message as the timer topic holds it; itself when it is due. Raises a refusal."""
        settings = self._settings()
        if not settings.timer_enable:
            raise SystemFailure("accurate timer message is not enabled, timerWheelEnable is false")
        now_ms = self._clock.now_ms()
        due_ms = self._due_ms(properties, now_ms)
        if due_ms is None or due_ms - now_ms > 1000 * settings.timer_max_delay_s:
            raise _illegal(settings)
        if due_ms <= now_ms:
            if PROPERTY_TIMER_DEL_UNIQKEY in properties:
                raise _illegal(settings)
            return message
        precision = settings.timer_slot_ms
        out_ms = (due_ms - 1) // precision * precision
        self._check_slot(out_ms, settings)
        properties[PROPERTY_TIMER_OUT_MS] = str(out_ms)
        properties[PROPERTY_REAL_TOPIC] = message.topic
        properties[PROPERTY_REAL_QUEUE_ID] = str(message.queue_id)
        encoded = encode_properties(properties)
        if len(encoded) + DELIVERY_SIZE > PROPERTIES_MAX:
            raise IllegalMessage(
                f"properties of {len(encoded)} bytes, at most {PROPERTIES_MAX - DELIVERY_SIZE} "
                "with those that delivery adds; make them shorter"
            )
        self._open(now_ms)
        self._tally.note(message.topic, (due_ms - now_ms) / 1000)
        return dataclasses.replace(message, topic=TIMER_TOPIC, queue_id=0, properties=encoded)

    def _due_ms(self, properties: Mapping[str, str], now_ms: int) -> int | None:
        """When a message is due; None for a text that is no number."""
        name = next(name for name in TIMES if name in properties)
        text = properties[name]
        if not text.removeprefix("-").removeprefix("+").isdecimal() or not text.isascii():
            return None
        value = int(text) if len(text) <= 20 else LONG_MAX + 1
        if not -LONG_MAX <= value <= LONG_MAX:
            return None
        if name == PROPERTY_TIMER_DELIVER_MS:
            return value
        return now_ms + value * (1000 if name == PROPERTY_TIMER_DELAY_SEC else 1)

    def _check_slot(self, out_ms: int, settings: StoreSettings) -> None:
        """Refuse more and more of what goes to a slot that has too many already."""
        limit = settings.timer_slot_max
        waits = self._slots.waits_in_slot(out_ms)
        if waits <= limit:
            return
        if waits >= 2 * limit or 1000 * (waits - limit) / limit > self._rng.randrange(1000):
            raise SystemFailure(
                f"timer message is under flow control, max num limit is {limit} or the current "
                f"value is greater than {limit} and less than {2 * limit}, trigger random flow "
                "control"
            )

    def _open(self, now_ms: int) -> None:
        if self._slots.is_open:
            return
        try:
            self._slots.open(now_ms)
        except (DiskFull, StoreClosed) as error:
            raise ServiceNotAvailable(f"service not available now. {error}") from error


def _illegal(settings: StoreSettings) -> IllegalMessage:
    return IllegalMessage(
        "timer message illegal, the delay time should not be bigger than the max delay "
        f"{1000 * settings.timer_max_delay_s}ms; or if set del msg, the delay time should be "
        "bigger than the current time"
    )
