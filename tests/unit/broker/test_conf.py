"""broker.conf: every key of the original is known, bad values stop the start by name."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from contrailmq.broker.config.file import COMPONENTS, read_conf
from contrailmq.broker.config.known_keys import KNOWN_KEYS
from contrailmq.broker.config.settings import BrokerSettings, completed
from contrailmq.errors import ConfigError
from contrailmq.settings import keys_of, read, read_file

VECTORS = Path(__file__).parents[2] / "golden" / "data" / "vectors"


def defaults(version: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in (VECTORS / version / "config-defaults.jsonl").read_text().splitlines():
        row = json.loads(line)
        found.setdefault(row["class"], {})[row["key"]] = row["value"]
    return found


@pytest.mark.parametrize("version", ["4.9.7", "5.2.0"])
def test_every_key_of_the_original_is_known(version: str) -> None:
    keys = {key for table in defaults(version).values() for key in table}
    assert keys - KNOWN_KEYS == set()


def test_no_key_of_ours_shadows_another_meaning() -> None:
    ours = {key for component in COMPONENTS for key in keys_of(component)}
    private = {key for key in ours - KNOWN_KEYS if not key.startswith(("net", "tls."))}
    assert private <= {
        "aclFile",
        "aclTokenAudience",
        "aclTokenKeys",
        "auditLogPath",
        "grpcAdvertised",
        "grpcServerPort",
        "haAllowed",
        "haTls",
        "innerClientAuthenticationCredentials",
        "proxyProtocolFrom",
        "mapedFileSizeCommitLog",
        "mapedFileSizeConsumeQueue",
        "mapedFileSizeConsumeQueueExt",
        "queueMappingsMax",
        "rebalanceLockMaxLiveTime",
        "warmMappedFileEnable",
    }


def test_defaults_are_those_of_5_2_0() -> None:
    theirs = defaults("5.2.0")["BrokerConfig"]
    from contrailmq.settings import as_properties

    ours = as_properties(BrokerSettings())
    different = {
        key: (value, theirs[key]) for key, value in ours.items() if theirs.get(key, value) != value
    }
    # The start script of the original overrides the object's 6888 with 10911.
    assert different == {"listenPort": ("10911", "6888")}


def test_a_stock_broker_conf_is_read_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    text = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "deleteWhen": "04",
        "fileReservedTime": "48",
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": "ASYNC_FLUSH",
        "sendMessageThreadPoolNums": "8",
    }
    with caplog.at_level(logging.INFO):
        conf = read_conf(text)
    assert conf.broker.broker_name == "broker-a"
    assert conf.store.retention_hours == 48
    (warning,) = [record for record in caplog.records if record.levelno > logging.INFO]
    assert "sendMessageThreadPoolNums" in warning.getMessage()


def test_a_key_nobody_knows_is_a_warning_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    read_conf({"brokerNam": "x"})
    assert "brokerNam" in caplog.text
    with pytest.raises(ConfigError, match="brokerNam"):
        read_conf({"brokerNam": "x"}, strict=True)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("listenPort", "ten", "a whole number"),
        ("autoCreateTopicEnable", "yes", "true or false"),
        ("flushDiskType", "SYNC", "one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("brokerPermission", "99", "from 0 to 15"),
        ("listenPort", "70000", "from 0 to 65535"),
        ("fileReservedTime", "-1", "at least 0"),
        ("flushIntervalCommitLog", "0", "at least 1"),
        ("transactionCheckInterval", "0", "at least 1"),
        ("diskMaxUsedSpaceRatio", "500", "from 0 to 100"),
        ("mappedFileSizeCommitLog", "5000000000000", "from 0 to 2147483647"),
        ("serverChannelMaxIdleTimeSeconds", "0", "at least 1"),
        ("deleteWhen", "at night", "hours such as 04"),
        ("messageDelayLevel", "", "levels such as 1s"),
        ("messageDelayLevel", "1s 5x", "a number and one of s, m, h, d"),
        ("namesrvAddr", "here", "host:port"),
        ("namesrvAddr", "a:9876;b:port", "host:port"),
    ],
)
def test_a_bad_value_names_key_value_and_expectation(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_conf({key: value})
    assert key in str(caught.value)
    assert value in str(caught.value)
    assert expected in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"broker\.conf"):
        read_file(tmp_path / "broker.conf")


def test_what_only_the_machine_knows_is_found() -> None:
    settings = completed(read(BrokerSettings, {"brokerIP1": "10.1.2.3"}))
    assert settings.broker_name
    assert settings.ha_ip == "10.1.2.3"
    assert completed(BrokerSettings()).advertised_ip.count(".") == 3
