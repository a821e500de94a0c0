"""POP requests captured from a Java client, put to our broker: the answers are the Java broker's.

Handles in later requests have our own times and revive queues put in.  Which queue a pop looks at
first is drawn: here it is drawn as the captured answer says.  Popped messages that come back do so
when each system likes; what is captured after that point is not compared.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from contrailmq.broker.app import Broker
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.bodies.queues import BatchAckMessageRequest
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.message import decode_records
from contrailmq.testing.sim import SimClock
from testkit.broker_world import ADDRESS, World, run
from testkit.golden import GOLDEN, exchanges

FACTS = (
    "invisibleTime", "restNum", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo",
    "hasMsg", "pollingNum",
)  # fmt: skip
OWN_WORDS = {1, 13, 17, 208}  # refusals whose text names hosts, classes of Java or web pages


class Drawn(random.Random):
    """Draws what it is told to."""

    value = 1

    def randrange(self, *args: Any, **more: Any) -> int:
        return self.value


class Replay:
    """Puts captured requests to a broker and compares."""

    def __init__(self, broker: Broker, client: RemotingClient) -> None:
        self.client = client
        self.drawn = Drawn()
        broker.parts.pop.service.popping._rng = self.drawn
        self.pops: dict[str, tuple[str, str]] = {}  # captured time -> our time and revive queue
        self.wrong: list[str] = []
        self.compared = 0
        for name, queues in (("WireFivePop", 2), ("WireFiveOrder", 1)):
            broker.parts.tables.topics.put(
                TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues)
            )

    async def play(self, scenario: str, *, count: int = 10_000) -> None:
        for exchange in exchanges(GOLDEN / "five" / f"{scenario}.jsonl"):
            request = decode(exchange.request.frame[4:])
            wanted = request.code in (310, *range(200050, 200057), 200151)
            if exchange.request.target != "broker" or not wanted or exchange.response is None:
                continue
            if request.code != 310:
                count -= 1
            if count < 0:
                return
            await self.put(request, decode(exchange.response.frame[4:]))

    async def put(self, request: Command, expected: Command) -> None:
        late = request.code == RequestCode.POP_MESSAGE and "too much" in (expected.remark or "")
        if request.fields.get("bornTime", "0") != "0":
            request.fields["bornTime"] = str(SimClock().now_ms() - 60_000 * late)
        self._translate(request)
        self._draw(expected)
        answer = await self.client.call(ADDRESS, request, timeout_s=30)
        fields = expected.fields
        if fields.get("popTime", "0") != "0" and answer.fields.get("popTime", "0") != "0":
            ours = (answer.fields["popTime"], answer.fields["reviveQid"])
            self.pops[fields["popTime"]] = ours
        self._compare(request, answer, expected)

    def _translate(self, request: Command) -> None:
        parts = request.fields.get("extraInfo", "").split(" ")
        if len(parts) == 8 and parts[1] in self.pops:
            parts[1], parts[3] = self.pops[parts[1]]
            request.fields["extraInfo"] = " ".join(parts)
        if request.code == RequestCode.BATCH_ACK_MESSAGE and request.body:
            body = BatchAckMessageRequest.decode(bytes(request.body))
            for entry in body.acks:
                if str(entry.pop_time) in self.pops:
                    pop_ms, queue = self.pops[str(entry.pop_time)]
                    entry.pop_time, entry.revive_queue_id = int(pop_ms), int(queue)
            request.body = body.encode()

    def _draw(self, expected: Command) -> None:
        first = expected.fields.get("startOffsetInfo", "").partition(";")[0].split(" ")
        self.drawn.value = 1 if len(first) < 3 or first[1] == "1" else 2

    def _compare(self, request: Command, answer: Command, expected: Command) -> None:
        self.compared += 1
        ours: list[Any] = [answer.code, *map(answer.fields.get, FACTS)]
        java: list[Any] = [expected.code, *map(expected.fields.get, FACTS)]
        if expected.code not in OWN_WORDS and request.code != 310:
            ours.append((answer.remark or "").replace("10.0.0.1", "127.0.0.1"))
            java.append(expected.remark or "")
        if request.code == RequestCode.POP_MESSAGE and expected.code == 0:
            ours.append([record.payload() for record in decode_records(bytes(answer.body))])
            java.append([record.payload() for record in decode_records(bytes(expected.body))])
        revive = [each.fields.get("reviveQid") for each in (answer, expected)]
        if "999" in revive:
            ours.append(revive[0])
            java.append(revive[1])
            if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
                ours[1] = java[1] = None  # measured from the pop
        if ours != java:
            self.wrong.append(f"{request.code} {request.fields}\n ours {ours}\n java {java}")


def test_the_captured_scenarios_have_the_same_answers(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr="") as broker, world.client() as client:
            replay = Replay(broker, client)
            await replay.play("pop", count=6)
            await replay.play("pop-order", count=5)
            await replay.play("pop-errors")
        wrong = [text for text in replay.wrong if not _is_other_history(text)]
        assert not wrong, "\n".join(wrong)
        assert replay.compared > 30

    run(1, tmp_path, scenario, enablePropertyFilter="true")


def _is_other_history(text: str) -> bool:
    """Answers that count messages sent after what is replayed, or pops before it."""
    return "WireLast" in text
