"""Limits per account, on a running broker: each says which it is, and ends with time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from contrailmq.protocol.acl import signed
from contrailmq.protocol.command import Command
from testkit.broker_world import ADDRESS, World, run
from testkit.lanes import FIELDS

ACCOUNTS = """
accounts:
- accessKey: slowAccount
  secretKey: slowSecret
  defaultTopicPerm: PUB
  limits: {messagesPerSecond: 5, bytesPerSecond: 1000, connections: 1, newTopicsPerMinute: 1}
- {accessKey: freeAccount, secretKey: freeSecret, defaultTopicPerm: PUB}
"""


def send(name: str, topic: str, body: bytes = b"x") -> Command:
    fields = {**FIELDS, "b": topic, "e": "0", "i": "UNIQ_KEY\x017F0001\x02"}
    secret = name.replace("Account", "Secret")
    return Command(310, fields=signed(fields, body, access_key=name, secret_key=secret), body=body)


def test_limits_of_an_account(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    path.chmod(0o600)

    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr=""), world.client() as client, world.client() as other:

            async def ask(name: str, topic: str, body: bytes = b"x", via: Any = client) -> Any:
                found = await via.call(ADDRESS, send(name, topic, body), timeout_s=3)
                return found.code, found.remark or ""

            assert (await ask("freeAccount", "T"))[0] == 0
            for _ in range(5):  # all but the first in the lane
                assert (await ask("slowAccount", "T"))[0] == 0
            code, remark = await ask("slowAccount", "T")
            assert (code, "5 messages a second" in remark) == (2, True)
            assert (await ask("freeAccount", "T"))[0] == 0
            await asyncio.sleep(1)
            assert (await ask("slowAccount", "T", b"x" * 900))[0] == 0
            code, remark = await ask("slowAccount", "T", b"x" * 900)
            assert (code, "1000 bytes a second" in remark) == (2, True)
            await asyncio.sleep(2)
            assert (await ask("slowAccount", "new1"))[0] == 0
            code, remark = await ask("slowAccount", "new2")
            assert (code, "1 new topics a minute" in remark) == (2, True)
            code, remark = await ask("slowAccount", "T", via=other)
            assert (code, "1 connections" in remark) == (2, True)
            await client.aclose()
            await asyncio.sleep(1)
            assert (await ask("slowAccount", "T", via=other))[0] == 0

    run(1, tmp_path, scenario, aclEnable="true", aclFile=str(path))
