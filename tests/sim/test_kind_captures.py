"""Requests about light and batch queues captured from a Java client, put to our broker.

Codes, fields and messages have to be the Java broker's; ids, times and hosts are our own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.message import decode_records
from testkit.broker_world import ADDRESS, World, run
from testkit.golden import GOLDEN, exchanges

OWN = {"msgId", "popTime", "reviveQid", "timestamp", "dataVersion"}
PULLS = {11, 200050}
ASKED = {10, 11, 14, 15, 17, 29, 30, 31, 310, 320, 351, 361, 200050, 200051}
# TAGS is the last property of those captures: the original leaves waste after light queues' ones.
OWN_PROPERTIES = {"TRACE_ON", "MSG_REGION"}


def is_own(name: str, topic: str) -> bool:
    return name in OWN_PROPERTIES or (name == "TAGS" and topic == "WireParent")


def facts(answer: Command, code: int) -> dict[str, Any]:
    """What of an answer does not depend on who gives it."""
    found: dict[str, Any] = {
        "code": answer.code,
        "fields": {n: v for n, v in answer.fields.items() if n not in OWN},
    }
    if code in PULLS:
        found["remark"] = answer.remark
    if answer.code == 0 and code in PULLS:
        found["messages"] = [
            (
                record.topic,
                record.queue_id,
                record.queue_offset,
                record.sys_flag,
                bytes(record.body),
                {n: v for n, v in record.properties.items() if not is_own(n, record.topic)},
            )
            for record in decode_records(answer.body)
        ]
    return found


@pytest.mark.parametrize("scenario", ["lmq", "batch-cq", "attributes"])
def test_answers_are_those_of_the_original(tmp_path: Path, scenario: str) -> None:
    async def play(world: World) -> None:
        lights = {"enableLmq": "true", "enableMultiDispatch": "true"}
        async with world.client() as client, world.broker(namesrvAddr="", **lights):
            compared = 0
            for exchange in exchanges(GOLDEN / "five" / f"{scenario}.jsonl"):
                request = decode(exchange.request.frame[4:])
                if exchange.request.target != "broker" or request.code not in ASKED:
                    continue
                if "bornTime" in request.fields:
                    request.fields["bornTime"] = "0"
                assert exchange.response is not None
                expected = decode(exchange.response.frame[4:])
                answer = await client.call(ADDRESS, request, timeout_s=30)
                got, wanted = facts(answer, request.code), facts(expected, request.code)
                assert got == wanted, (request, answer.remark, expected.remark)
                compared += 1
            assert compared > 5

    run(1, tmp_path, play)
