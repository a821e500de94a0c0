"""The lane and the ordinary path are one broker: the same bytes get the same answers and records.

Every scenario is played twice, with the fast lane and without it, over the same stream of requests,
cut into reads at random or at every byte.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from contrailmq.protocol.command import Command, Serialization
from testkit.lane_play import both

FIELDS = {
    "a": "producers", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x017F0001\x02WAIT\x01true\x02TAGS\x01A\x02", "j": "0", "k": "false",
    "m": "false",
}  # fmt: skip
ODD: tuple[dict[str, str], ...] = (
    {"i": "TAGS\x01A\x02"},  # no unique key
    {"i": "UNIQ_KEY\x01U\x02DELAY\x013\x02"},
    {"b": "another"},  # made by the send
    {"e": "99"},  # no such queue
    {"e": "-1"},  # any queue
    {"b": ""},  # refused
    {"j": "2"},
    {"k": "true"},
    {"i": "UNIQ_KEY\x01U\x02a\x01b\x01c\x02"},
)


def requests(rng: random.Random, count: int) -> list[bytes]:
    """Mostly plain sends, with everything else in between."""
    found = []
    for number in range(count):
        command = Command(310, fields=dict(FIELDS), body=b"%d" % number * rng.randint(1, 40))
        kind = rng.random()
        if kind < 0.15:
            command.fields |= rng.choice(ODD)
        elif kind < 0.25:
            command.flag = 2  # nobody waits for an answer
        elif kind < 0.35:
            command.serialization = Serialization.ROCKETMQ
        elif kind < 0.4:
            command = Command(34, fields={})  # a heartbeat without a body: refused
        command.opaque = number
        command.fields.setdefault("e", "0")
        if command.code == 310 and "e" in command.fields and kind >= 0.15:
            command.fields["e"] = str(rng.randrange(4))
        found.append(bytes(command.encode()))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_lane_and_ordinary_path_answer_and_store_the_same(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    stream = b"".join(requests(rng, 60))
    cuts = sorted(rng.sample(range(1, len(stream)), 25)) if seed else []
    conf = {"flushDiskType": "SYNC_FLUSH"} if seed == 5 else {}
    quick, slow = both(tmp_path, stream, cuts, **conf)
    if conf:  # answers that wait for the disk and those that do not may change places
        quick[0].sort(key=lambda answer: answer[0])
        slow[0].sort(key=lambda answer: answer[0])
    assert quick == slow
    assert len(quick[1]) > 30


def test_frames_cut_at_every_byte(tmp_path: Path) -> None:
    stream = b"".join(requests(random.Random(11), 6))
    quick, slow = both(tmp_path, stream, list(range(1, len(stream))))
    assert quick == slow
    assert quick[1]
