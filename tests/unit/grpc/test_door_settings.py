"""The settings of the gRPC door, and the signatures it checks."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from contrailmq.broker.grpc.access import GrpcAccess
from contrailmq.broker.grpc.settings import GrpcSettings
from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.grpc.backend import Need
from contrailmq.grpc.call import GrpcError, GrpcStatus
from contrailmq.security.accounts import Accounts
from contrailmq.security.files import AccountFiles
from contrailmq.security.guard import Guard
from contrailmq.settings import read

ACCOUNTS = """\
accounts:
- accessKey: publisher
  secretKey: secret-of-publisher
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - orders=PUB
- accessKey: consumer
  secretKey: secret-of-worker
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
"""


def access(folder: Path) -> GrpcAccess:
    path = folder / "plain_acl.yml"
    path.write_text(ACCOUNTS)
    accounts = Accounts(AccountFiles(path), clock=SystemClock())
    accounts.start()
    return GrpcAccess(accounts, Guard(accounts))


def signed(name: str, secret: str, *, tail: str = "", upper: bool = False) -> dict[str, str]:
    text = "20260101T000000Z"
    digest = hmac.new(secret.encode(), text.encode(), hashlib.sha1).hexdigest()
    digest = digest.upper() if upper else digest
    value = (
        f"MQv2-HMAC-SHA1 Credential={name}{tail}, SignedHeaders=x-mq-date-time, Signature={digest}"
    )
    return {"authorization": value, "x-mq-date-time": text}


def test_a_call_is_let_in_by_its_signature_and_its_accounts_permissions(tmp_path: Path) -> None:
    checked = access(tmp_path)
    peer = "192.0.2.7:5000"
    publish = [Need(topic="orders", is_write=True)]
    consume = [Need(topic="orders", group="workers")]
    checked.check(signed("publisher", "secret-of-publisher"), peer, publish)
    checked.check(
        signed("publisher", "secret-of-publisher", tail="//Rocketmq", upper=True), peer, publish
    )
    checked.check(signed("consumer", "secret-of-worker"), peer, consume)
    for metadata, needs in (
        ({}, publish),
        (signed("publisher", "wrong"), publish),
        (signed("nobody", "secret-of-publisher"), publish),
        (signed("publisher", "secret-of-publisher"), consume),
        (signed("consumer", "secret-of-worker"), publish),
        (signed("", ""), publish),
    ):
        with pytest.raises(GrpcError) as caught:
            checked.check(metadata, peer, needs)
        assert caught.value.status == GrpcStatus.PERMISSION_DENIED


def test_advertised_endpoints_have_a_name_a_host_and_a_port() -> None:
    found = GrpcSettings(advertised="a=mq.example.com:8081, b=[::1]:9").places()
    assert found == {"a": ("mq.example.com", 8081), "b": ("::1", 9)}
    with pytest.raises(ConfigError, match="expected name=host:port"):
        GrpcSettings(advertised="a=mq.example.com").places()


def test_brokers_of_one_up_have_ports_of_their_own_and_know_each_other() -> None:
    keys = dict(GrpcSettings().child_keys(1, 3, host="127.0.0.1"))
    assert read(GrpcSettings, keys).server_port == -8091, "as its process reads it"
    assert keys["grpcServerPort"] == "-8091"
    assert keys["grpcAdvertised"] == "broker-0=127.0.0.1:8081,broker-2=127.0.0.1:8101"
    assert GrpcSettings(server_port=0).child_keys(1, 3, host="127.0.0.1") == [
        ("grpcServerPort", "0")
    ]
    assert dict(GrpcSettings(server_port=500).child_keys(2, 1, host="h")) == {
        "grpcServerPort": "520"
    }
