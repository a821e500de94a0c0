"""With access control the lane takes signed frames, and refuses with the ordinary path's words.

Streams of sends, batches and pulls of several accounts, signed right, wrong or not at all, with
accounts that change in between, are played with the lane and without it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from contrailmq.protocol.acl import signed
from contrailmq.protocol.batch import BatchMessage, encode_batch
from contrailmq.protocol.command import Command, Serialization
from testkit.lane_play import both

ACCOUNTS = """
accounts:
- {accessKey: adminAccount, secretKey: adminSecret, admin: true}
- {accessKey: writer-account, secretKey: writerSecret, oldSecretKey: olderSecret,
   topicPerms: [T=PUB]}
- {accessKey: reader-account, secretKey: readerSecret, topicPerms: [T=SUB], groupPerms: [g=SUB]}
- {accessKey: deniedAccount, secretKey: deniedSecret, defaultTopicPerm: DENY}
- {accessKey: homeAccount, secretKey: homeSecret, whiteRemoteAddress: 10.0.2.*}
"""
SECRETS = {
    "adminAccount": "adminSecret", "writer-account": "writerSecret",
    "reader-account": "readerSecret", "deniedAccount": "deniedSecret", "homeAccount": "homeSecret",
}  # fmt: skip
FIELDS = {
    "a": "producers", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000",
    "h": "0", "i": "UNIQ_KEY\x017F0001\x02WAIT\x01true\x02TAGS\x01A\x02", "j": "0", "k": "false",
    "m": "false",
}  # fmt: skip
PULL = {
    "consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "3",
    "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
    "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip


def requests(rng: random.Random, count: int) -> list[bytes]:
    """Mostly sends of an account that may, with everything else in between."""
    found = []
    for number in range(count):
        name = "writer-account"
        command = Command(310, fields=dict(FIELDS), body=b"%d" % number * rng.randint(1, 40))
        command.fields["e"] = str(rng.randrange(4))
        kind = rng.random()
        if number in (0, 1, 2):
            name = ("adminAccount", "writer-account", "reader-account")[number]
        if kind < 0.15 or number == 2:
            name = rng.choice(("reader-account", "reader-account", "writer-account"))
            command = Command(11, fields={**PULL, "queueOffset": str(rng.randrange(3))})
        elif kind < 0.25:
            body = encode_batch([BatchMessage(body=b"in a batch", properties=b"A\x011\x02")])
            command = Command(320, fields={**FIELDS, "m": "true"}, body=body)
        elif kind < 0.32:
            name = rng.choice(("deniedAccount", "reader-account", "homeAccount"))
        elif kind < 0.42:
            command.serialization = Serialization.ROCKETMQ
        elif kind < 0.45:
            command = Command(26)  # an administrator's
            name = rng.choice(("adminAccount", "writer-account"))
        command.opaque = number
        sign(command, name, rng, number)
        found.append(bytes(command.encode()))
    return found


def sign(command: Command, name: str, rng: random.Random, number: int) -> None:
    """Sign as an account does, or spoil it in one of many ways."""
    secret = SECRETS[name]
    fault = rng.random() if number > 2 else 1.0
    if fault < 0.04:
        secret = "wrongSecret"
    elif fault < 0.08 and name == "writer-account":
        secret = "olderSecret"
    command.fields = signed(command.fields, command.body, access_key=name, secret_key=secret)
    if 0.08 <= fault < 0.11:
        command.body = bytes(command.body) + b"x"
    elif 0.11 <= fault < 0.13:
        command.fields["AccessKey"] = "nobodyAccount"
    elif 0.13 <= fault < 0.15:
        del command.fields["AccessKey"]
    elif 0.15 <= fault < 0.17:
        del command.fields["Signature"]
    elif 0.17 <= fault < 0.19:
        command.fields["b"] = "other"


def changes(stream: list[bytes], at: int) -> list[bytes]:
    """The stream with the writer's account taken away and given back in the middle."""
    drop = Command(51, fields={"accessKey": "writer-account"}, opaque=100_000)
    give = {
        "accessKey": "writer-account", "secretKey": "writerSecret", "admin": "false",
        "topicPerms": "T=PUB",
    }  # fmt: skip
    back = Command(50, fields=give, opaque=100_001)
    for command in (drop, back):
        command.fields = signed(
            command.fields, b"", access_key="adminAccount", secret_key="adminSecret"
        )
    return [
        *stream[:at], bytes(drop.encode()), *stream[at : at + 10], bytes(back.encode()),
        *stream[at + 10 :],
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_signed_frames_in_the_lane_and_without_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    frames = requests(rng, 80)
    if seed > 1:
        frames = changes(frames, 30)
    stream = b"".join(frames)
    cuts = sorted(rng.sample(range(1, len(stream)), 20)) if seed else []
    quick, slow = both(tmp_path, stream, cuts, accounts=ACCOUNTS)
    assert quick == slow
    codes = {code for _, code, *_ in quick[0]}
    assert {0, 1} <= codes
    assert len(quick[1]) > 30
