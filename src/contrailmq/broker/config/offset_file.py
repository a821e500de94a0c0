"""Committed offsets on disk: ``consumerOffset.json``, or ``lmqConsumerOffset.json`` with LMQ on.

The original reads and writes one of the two, so that switching ``enableLmq`` loses all offsets.
Here both are read and the newer one counts; the one that the original would use is written.  The
offsets of light groups (``%LMQ%…``) have a table of their own there, one number per topic and
group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contrailmq.broker.config.saved_file import ConfigFile
from contrailmq.broker.tables.offsets import SEPARATOR, OffsetTable
from contrailmq.protocol.bodies.queues import ConsumerOffsets, LightOffsets
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.protocol.names import is_lmq

PLAIN: Final = "consumerOffset.json"
LIGHT: Final = "lmqConsumerOffset.json"


def offset_file(*, has_lights: bool) -> str:
    """The file that is written."""
    return LIGHT if has_lights else PLAIN


def load_offsets(
    file: Callable[[str], ConfigFile], offsets: OffsetTable, *, has_lights: bool
) -> None:
    """Take over the newer of both files; of equally new ones the one that is written."""
    own = offset_file(has_lights=has_lights)
    found: list[LightOffsets] = []
    for name in (own, LIGHT if own == PLAIN else PLAIN):
        if file(name).exists() or name == own:
            value = file(name).read(LightOffsets.decode)
            if value is not None:
                found.append(value)
    if not found:
        return
    newest = max(found, key=_written_ms)
    table = dict(newest.offset_table)
    for pair, offset in newest.lmq_offset_table.items():
        table.setdefault(pair, {0: offset})
    offsets.load(table, saved_ms=_written_ms(newest))


def encode_offsets(
    table: dict[str, dict[int, int]], version: DataVersion, *, has_lights: bool
) -> bytes:
    """The text of the file."""
    if not has_lights:
        return ConsumerOffsets(data_version=version, offset_table=table).encode(pretty=True)
    light = {pair for pair in table if is_lmq(pair.partition(SEPARATOR)[2])}
    return LightOffsets(
        data_version=version,
        offset_table={pair: queues for pair, queues in table.items() if pair not in light},
        lmq_offset_table={
            pair: next(iter(queues.values()))
            for pair, queues in table.items()
            if pair in light and queues
        },
    ).encode(pretty=True)


def _written_ms(offsets: ConsumerOffsets) -> int:
    return 0 if offsets.data_version is None else offsets.data_version.timestamp
