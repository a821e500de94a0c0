"""``namesrv.conf`` of the original is read as it is, and every key is accounted for."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from contrailmq.errors import ConfigError, ProtocolError, SystemFailure
from contrailmq.namesrv.files import read_newest, write_replacing
from contrailmq.namesrv.kv import KvConfig
from contrailmq.namesrv.main import main
from contrailmq.namesrv.settings import IGNORED, Configuration, NameServerSettings
from contrailmq.net.settings import ServerSettings
from contrailmq.settings import keys_of, read_file

# NamesrvConfig and NettyServerConfig of 4.9.7, 5.2.0 and later, as their tools print them.
KEYS_OF_THE_ORIGINAL = [
    "bindAddress",
    "clientRequestThreadPoolNums",
    "clientRequestThreadPoolQueueCapacity",
    "clusterTest",
    "configBlackList",
    "configStorePath",
    "defaultThreadPoolNums",
    "defaultThreadPoolQueueCapacity",
    "deleteTopicWithBrokerRegistration",
    "enableAllTopicList",
    "enableControllerInNamesrv",
    "enableShutdownGracefully",
    "enableTopicList",
    "kvConfigPath",
    "listenPort",
    "needWaitForService",
    "notifyMinBrokerIdChanged",
    "orderMessageEnable",
    "productEnvName",
    "returnOrderTopicConfigToBroker",
    "rocketmqHome",
    "scanNotActiveBrokerInterval",
    "serverAsyncSemaphoreValue",
    "serverCallbackExecutorThreads",
    "serverChannelMaxIdleTimeSeconds",
    "serverNettyWorkerGroupEnable",
    "serverOnewaySemaphoreValue",
    "serverPooledByteBufAllocatorEnable",
    "serverSelectorThreads",
    "serverSocketBacklog",
    "serverSocketRcvBufSize",
    "serverSocketSndBufSize",
    "serverWorkerThreads",
    "shutdownWaitTimeSeconds",
    "supportActingMaster",
    "unRegisterBrokerQueueCapacity",
    "useEpollNativeSelector",
    "waitSecondsForService",
    "writeBufferHighWaterMark",
    "writeBufferLowWaterMark",
]


def test_every_key_of_the_original_is_used_or_known_as_ignored() -> None:
    used = keys_of(NameServerSettings) | keys_of(ServerSettings)
    assert set(KEYS_OF_THE_ORIGINAL) <= used | set(IGNORED)
    assert not used & set(IGNORED)


def test_a_file_is_read_and_each_odd_key_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(
        "# name server\nlistenPort = 19876\norderMessageEnable=true\n"
        "serverWorkerThreads=32\nnoSuchKey=1\nserverChannelMaxIdleTimeSeconds=60\n"
    )
    with caplog.at_level(logging.INFO):
        found = Configuration.of(read_file(file))
    assert (found.settings.listen_port, found.settings.order_message) == (19876, True)
    assert found.server.idle_s == 60
    assert "key=serverWorkerThreads" in caplog.text
    assert "setting is unknown: key=noSuchKey" in caplog.text
    assert "serverWorkerThreads=32\n" in found.as_text()
    with pytest.raises(ConfigError, match="noSuchKey"):
        Configuration.of(read_file(file), strict=True)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("listenPort=98 76", "listenPort = '98 76': expected a whole number"),
        ("listenPort=70000", "listenPort = 70000: expected 0 to 65535"),
        ("orderMessageEnable=yes", "orderMessageEnable = 'yes': expected true or false"),
        ("scanNotActiveBrokerInterval=0", "scanNotActiveBrokerInterval = 0"),
    ],
)
def test_a_bad_value_stops_the_start(tmp_path: Path, line: str, text: str) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text(line)
    with pytest.raises(ConfigError, match=text):
        main(["-c", str(file), "-p"])


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.conf: No such file.*; -c takes"):
        main(["-c", str(tmp_path / "nowhere.conf")])


def test_options_print_settings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["-m", "--port", "1234", "--store", str(tmp_path), "-n", "ignored:1"]) == 0
    important = capsys.readouterr().out.splitlines()
    assert "listenPort=1234" in important
    assert f"kvConfigPath={tmp_path}/kvConfig.json" in important
    assert main(["-p"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert {line.partition("=")[0] for line in everything} >= set(KEYS_OF_THE_ORIGINAL)
    assert len(everything) > len(important)


def test_live_keys_change_and_others_do_not() -> None:
    before = Configuration()
    after = before.updated({"orderMessageEnable": "true", "serverWorkerThreads": "9"})
    assert after.settings.order_message
    assert after.ignored["serverWorkerThreads"] == "9"
    for name, value in (("listenPort", "1"), ("netConnectionsMax", "1"), ("nonsense", "1")):
        with pytest.raises(ConfigError, match=name):
            before.updated({name: value})
    with pytest.raises(ConfigError, match="expected true or false"):
        before.updated({"orderMessageEnable": "perhaps"})


def test_a_replaced_file_leaves_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kvConfig.json"
    write_replacing(path, b"one")
    assert not path.with_name("kvConfig.json.bak").exists()
    write_replacing(path, b"two")
    write_replacing(path, b"three")
    assert path.read_bytes() == b"three"
    assert path.with_name("kvConfig.json.bak").read_bytes() == b"two"
    assert sorted(p.name for p in path.parent.iterdir()) == ["kvConfig.json", "kvConfig.json.bak"]


@pytest.mark.parametrize("torn", [b"", b"  \n", b'{"configTable":{"n":{"k', b"\x00" * 50])
def test_a_torn_file_is_read_from_its_backup(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "kvConfig.json"
    first = KvConfig()
    first.put("n", "k", "v")
    write_replacing(path, first.encode())
    write_replacing(path, first.encode())
    path.write_bytes(torn)
    second = KvConfig()
    read_newest(path, second.load)
    assert second.find("n", "k") == "v"
    path.with_name("kvConfig.json.bak").unlink()
    with pytest.raises(ConfigError, match=r"kvConfig\.json"):
        read_newest(path, second.load)


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert read_newest(tmp_path / "none", lambda data: data) is None
    with pytest.raises(ConfigError):
        (tmp_path / "bad").write_bytes(b"x")
        read_newest(tmp_path / "bad", _fails)


def _fails(data: bytes) -> None:
    raise ProtocolError("no")


def test_a_kv_file_of_the_original_is_read() -> None:
    kv = KvConfig()
    kv.load(b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"},"N":{}}}')
    assert kv.find("ORDER_TOPIC_CONFIG", "T") == "broker-a:4"
    assert kv.namespace("N") is None, "nothing is in it"
    assert kv.namespace("M") is None
    again = KvConfig()
    again.load(kv.encode())
    assert again.encode() == kv.encode()


def test_values_are_bounded() -> None:
    kv = KvConfig(entries_max=2, size_max=20)
    kv.put("n", "a", "1")
    kv.put("m", "b", "2")
    with pytest.raises(SystemFailure, match="2 values, at most 2"):
        kv.put("n", "c", "3")
    assert kv.namespace("n") is not None
    kv.put("n", "a", "replaced")
    with pytest.raises(SystemFailure, match="25 characters, at most 20"):
        kv.put("n", "a", "x" * 23)
    assert kv.delete("n", "a")
    assert not kv.delete("n", "a")
    kv.put("n", "c", "3")


def test_all_values_together_are_bounded_and_no_namespace_is_left_over() -> None:
    kv = KvConfig(whole_size_max=30)
    for number in range(1000):
        kv.put(f"n{number}", "key", "value")
        assert kv.delete(f"n{number}", "key")
    assert b"n1" not in kv.encode()
    kv.put("n", "key", "x" * 20)
    with pytest.raises(SystemFailure, match="all values have 24 characters, at most 30"):
        kv.put("m", "key", "value")
    kv.put("n", "key", "x" * 26)
    with pytest.raises(SystemFailure, match="all values have 30 characters, at most 30"):
        kv.put("n", "key", "x" * 27)
    again = KvConfig(whole_size_max=30)
    again.load(kv.encode())
    with pytest.raises(SystemFailure, match="all values have 30 characters"):
        again.put("n", "k", "")
    assert again.delete("n", "key")
    again.put("n", "key", "x" * 26)
