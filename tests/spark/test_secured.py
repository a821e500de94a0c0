"""Spark over TLS and with an account: a batch written and read, and what wrong keys get."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.test_broker_interop import Up

from testkit.authority import make_certificates

pytestmark = pytest.mark.spark

ACCOUNTS = Path(__file__).parents[1] / "golden" / "data" / "security" / "plain_acl.yml"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A cluster that speaks TLS only and wants to know who is there."""
    (tmp_path / "certs").mkdir()
    certs = make_certificates(tmp_path / "certs")
    shutil.copy(ACCOUNTS, tmp_path / "plain_acl.yml")
    started = Up(
        tmp_path,
        **{
            "aclEnable": "true",
            "tls.enable": "true",
            "tls.server.mode": "enforcing",
            "tls.server.keyPath": str(certs / "server.key"),
            "tls.server.certPath": str(certs / "server.pem"),
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": str(certs / "ca.pem"),
        },
    )
    yield started
    started.stop()


def test_a_batch_there_and_back(spark: Any, up: Up, tmp_path: Path) -> None:
    known = {
        "nameServers": up.namesrv, "tlsCa": str(tmp_path / "certs" / "ca.pem"),
        "accessKey": "wideAccount", "secretKey": "wideSecret",
    }  # fmt: skip
    frame = spark.range(2000).selectExpr("cast(id as string) as body")
    frame.write.format("rocketmq").mode("append").options(topic="sec_spark", **known).save()
    reader = spark.read.format("rocketmq").options(topics="sec_spark", **known)
    rows = reader.load().collect()
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(2000))
    for changes, text in (
        ({"secretKey": "notTheSecret"}, "Check signature failed"),
        ({"accessKey": "bareAccount", "secretKey": "bareSecret"}, "No default permission"),
    ):
        wrong = spark.read.format("rocketmq").options(topics="sec_spark", **{**known, **changes})
        with pytest.raises(Exception, match=text):
            wrong.load().collect()
