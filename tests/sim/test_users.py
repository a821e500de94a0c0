"""Codes 3001 to 3010 on a running broker: users and policies, in force when they are answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contrailmq.net.client import RemotingClient
from contrailmq.protocol.acl import signed
from contrailmq.protocol.bodies.acl import AclInfo, Policy, PolicyEntry, UserInfo
from contrailmq.protocol.command import Command
from testkit.broker_world import ADDRESS, World, run
from testkit.lanes import FIELDS

ADMIN = ("adminAccount", "adminSecret")
ACCOUNTS = "accounts:\n- {accessKey: adminAccount, secretKey: adminSecret, admin: true}\n"


async def call(
    client: RemotingClient,
    code: int,
    *,
    who: tuple[str, str] = ADMIN,
    body: bytes = b"",
    **ext: str,
) -> Command:
    fields = signed(ext, body, access_key=who[0], secret_key=who[1])
    return await client.call(ADDRESS, Command(code, fields=fields, body=body), timeout_s=3)


def send_fields(topic: str) -> dict[str, Any]:
    return {**FIELDS, "b": topic, "i": "UNIQ_KEY\x017F0001\x02"}


def policy(resource: str, decision: str = "Allow", *actions: str) -> bytes:
    entry = PolicyEntry(resource=resource, actions=list(actions) or ["Pub"], decision=decision)
    return AclInfo(
        subject="User:alice", policies=[Policy(policy_type="Custom", entries=[entry])]
    ).encode()


def test_users_and_policies(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    path.chmod(0o600)

    async def scenario(world: World) -> None:
        async with world.broker(namesrvAddr=""), world.client() as client:
            alice = ("alice", "pw")

            async def answer(code: int, **more: Any) -> tuple[int, str | None]:
                found = await call(client, code, **more)
                return found.code, found.remark

            user = UserInfo(username="alice", password="pw", user_type="Normal").encode()
            assert (await answer(3001, username="alice", body=user))[0] == 0
            assert await answer(3001, username="alice", body=user) == (16, "The user is existed")
            assert await answer(3002, username="bob", body=user) == (16, "The user is not exist")
            assert (await answer(310, who=alice, body=b"x", **send_fields("T")))[0] == 1
            assert await answer(3006, subject="User:bob", body=policy("Topic:T")) == (
                16, "The subject of User:bob is not exist.",
            )  # fmt: skip
            assert (await answer(3006, subject="User:alice", body=policy("Topic:T")))[0] == 0
            for _ in range(3):  # the second and third in the lane
                assert (await answer(310, who=alice, body=b"x", **send_fields("T")))[0] == 0
            shown = await call(client, 3004, username="alice")
            assert UserInfo.decode(shown.body).password == "…"
            assert b"pw" not in (await call(client, 3005, filter="ali")).body
            acl = AclInfo.decode((await call(client, 3009, subject="User:alice")).body)
            assert acl.policies is not None
            assert acl.policies[0].entries is not None
            assert acl.policies[0].entries[0].resource == "Topic:T"
            denied = policy("Topic:T", "Deny")
            assert (await answer(3007, subject="User:alice", body=denied))[0] == 0
            assert (await answer(310, who=alice, body=b"x", **send_fields("T")))[0] == 1
            assert (await answer(3005, who=alice))[0] == 1
            assert (await answer(3008, subject="User:alice", resource="Topic:T"))[0] == 0
            assert (await call(client, 3009, subject="User:alice")).body == b""
            off = UserInfo(username="alice", user_status="disable").encode()
            assert (await answer(3002, username="alice", body=off))[0] == 0
            refused = await answer(310, who=alice, body=b"x", **send_fields("T"))
            assert "User:alice is disabled." in (refused[1] or "")
            assert (await answer(3003, username="alice"))[0] == 0
            assert (await call(client, 3004, username="alice")).body == b""

    run(1, tmp_path, scenario, aclEnable="true", aclFile=str(path))
