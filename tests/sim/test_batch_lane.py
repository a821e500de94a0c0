"""The batch lane beside the ordinary handler: the same frames, the same files, the same answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from contrailmq.broker.lanes.send import BrokerLane
from contrailmq.errors import NetworkError
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.command import Command, Serialization
from contrailmq.testing.files import SimFiles
from testkit.broker_world import ADDRESS, World, run

PAIRS = (
    "WAIT\x01true", "WAIT\x01false", "TAGS\x01TagA", "KEYS\x01one two", "a\x01b", "Ärger\x01über",
    "CLUSTER\x01mine", "TRACE_ON\x01false", "a\x01again", "no value\x01", "no separator",
    "a\x01b\x01c", "TRAN_MSG\x01false", "UNIQ_KEX\x01x", "DELAY\x010", "\x01nameless", "",
)  # fmt: skip
RARE_PAIRS = ("DELAY\x013", "TRAN_MSG\x01true", 'UNIQ_KEY\x01"q"', "UNIQ_KEY\x01twice")


def frames(seed: int) -> list[Command]:
    """Batches of every kind, most of them ordinary, and single sends between them."""
    rng = random.Random(seed)
    made = []
    for number in range(40):
        pairs = rng.sample(PAIRS, rng.randrange(4))
        if rng.random() < 0.9:
            pairs.insert(rng.randrange(len(pairs) + 1), f"UNIQ_KEY\x01{number:032X}")
        if rng.random() < 0.1:
            pairs.append(rng.choice(RARE_PAIRS))
        text = "\x02".join(pairs) + rng.choice(("", "\x02"))
        fields = {
            "a": "p", "b": "T", "c": "TBW102", "d": "4", "e": str(rng.choice((0, 1, 2, 3, 3, 9))),
            "f": rng.choice(("0", "0", "0", "1", "4")), "g": "1700000000000",
            "h": rng.choice(("0", "7")), "i": text, "j": rng.choice(("0", "0", "2")),
            "k": "false", "m": "true",
        }  # fmt: skip
        code, body = rng.choice((310, 320, 320)), batch(rng)
        if rng.random() < 0.1:
            fields["m"] = "false"  # a batch by its code, or one message
        if rng.random() < 0.1:
            del fields[rng.choice("fghijkm")]
        if rng.random() < 0.1:
            body = body[: rng.randrange(len(body) + 1)]
        command = Command(code, fields=fields, body=body)
        if rng.random() < 0.3:
            command.serialization = Serialization.ROCKETMQ
        made.append(command)
    return made


def batch(rng: random.Random) -> bytes:
    return encode_batch(
        BatchMessage(
            rng.randbytes(rng.choice((0, 1, 63, 64, 128, 700))),
            rng.choice(
                (b"", b"TAGS\x01A", b"TAGS\x01A\x02", b"UNIQ_KEY\x01%d\x02KEYS\x01k\x02")
            ).replace(b"%d", b"%d" % rng.randrange(1000)),
            flag=rng.randrange(3),
        )
        for _ in range(rng.choice((1, 2, 3, 30)))
    )


def play(directory: Path, seed: int, **conf: str) -> tuple[dict[str, bytes], list[Any]]:
    """Every file and every answer of a broker that got the frames."""
    files, answers = SimFiles(), []

    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr="", files=files) as broker, world.client() as client:
            first = Command(310, fields={"a": "p", "b": "T", "e": "0"}, body=b"makes the topic")
            assert (await client.call(ADDRESS, first, timeout_s=3)).code == 0
            for command in frames(seed):
                try:
                    answer = await client.call(ADDRESS, command, timeout_s=3)
                except NetworkError as error:
                    answers.append(type(error))
                else:
                    answers.append((answer.code, answer.remark, answer.fields, bytes(answer.body)))
            answers.append(dict(broker.parts.tables.counters.put_by_queue()))

    run(seed, directory, scenario, mappedFileSizeCommitLog="200000", **conf)
    kept = ("/commitlog/", "/consumequeue/", "/index/")
    return (
        {path: files.read(path) or b"" for path in files.paths() if any(k in path for k in kept)},
        answers,
    )


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("seed", range(8))
def test_the_lane_stores_and_answers_what_the_handler_would(
    tmp_path: Path, seed: int, flush: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    lane = BrokerLane.other

    def counted(self: BrokerLane, buffer: Any, start: int, end: int, *more: Any) -> int:
        nonlocal taken
        position = lane(self, buffer, start, end, *more)
        taken += position > start
        return position

    monkeypatch.setattr(BrokerLane, "other", counted)
    with_lane = play(tmp_path / "lane", seed, flushDiskType=flush)
    monkeypatch.setattr(BrokerLane, "other", lambda self, buffer, start, *more: start)
    without = play(tmp_path / "lane", seed, flushDiskType=flush)
    assert taken >= 5, "ordinary batches are for the lane"
    assert with_lane[1] == without[1]
    assert sorted(with_lane[0]) == sorted(without[0])
    for path, content in with_lane[0].items():
        assert content == without[0][path], path
