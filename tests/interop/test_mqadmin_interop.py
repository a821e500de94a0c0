"""Java's mqadmin against our broker and against the Java broker, over copies of the same store.

Every command line of ``mqadmin.txt`` (and ``mqadmin52.txt``) runs against both, in the same order,
with a Java consumer connected to each; then the outputs are compared line by line.  What differs
by its nature (times, ids, ports, rates, places in the log) is replaced by a word first; topics that
one of the two makes for itself are left out.  A few commands have rules of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from contrailmq.settings import parse_properties
from testkit.golden import GOLDEN
from testkit.peer import VERSIONS, JavaBroker, JavaCall, JavaNameServer, MqAdmin

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).parents[2]
STORE = GOLDEN / "store" / "v49-features"
READY = re.compile(r"name server (\S+), broker (\S+), store")
NAMES = {
    "WireTopic": "GoldPlain",
    "WirePush": "GoldPlainGroup",
    "-g WireProducer": "-g CLIENT_INNER_PRODUCER",
    "-f export": "-f {directory}",
    # A queue of its own choice would differ from run to run.
    "-p hello -k mk -c MTag": "-p hello -k mk -c MTag -b broker-a -i 0",
    "-m POP -q 4": "-m PULL",
}
MORE = (
    "queryCq -n {ns} -t GoldSql -q 0 -i 0 -c 4 -b {broker}",
    "queryCq -n {ns} -t GoldSql -q 0 -i 0 -c 2 -b {broker} -g GoldSqlGroup0",
    "queryCq -n {ns} -t GoldUnicode -q 0 -i 0 -c 2 -b {broker} -g GoldMadeGroup",
    "queryCq -n {ns} -t GoldUnicode -q 77 -i 0 -c 2 -b {broker}",
    "consumerConnection -n {ns} -g GoldMadeGroup",
    "consumerProgress -n {ns} -g GoldMadeGroup",
    "consumerStatus -n {ns} -g GoldMadeGroup",
    "topicStatus -n {ns} -t GoldSql",
    "topicStatus -n {ns} -t NoSuchTopic",
    "topicRoute -n {ns} -t NoSuchTopic",
    "queryMsgByKey -n {ns} -t GoldProps -k nothing",
    "queryMsgByOffset -n {ns} -t GoldPlain -b broker-a -i 2 -o 3",
    "printMsgByQueue -n {ns} -t GoldOrder -a broker-a -i 1 -p true -d true",
    "printMsg -n {ns} -t GoldTx",
    "brokerConsumeStats -n {ns} -b {broker} -o true",
)
MORE_52 = ("consumerProgress -n {ns} -g GoldMadeGroup -t GoldUnicode",)
OWN_TOPICS = re.compile(r"\b(rmq_sys_\S+|RMQ_SYS_TRANS_(OP_)?HALF_TOPIC)\b")
SAME = (
    (re.compile(r"^\d\d:\d\d:\d\d,\d{3} \|-.*\n", re.MULTILINE), ""),  # what logback says
    (re.compile(r"/?127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"\b127\.0\.0\.1,\d+"), "ADDRESS"),
    (re.compile(r"\b(127\.0\.0\.1|192\.0\.2\.\d+|[\d.]+)@driver-\d+(#\d+)*"), "CLIENT"),
    (re.compile(r"\b[0-9A-F]{32}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d[,:]\d{3}\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b1[5-9]\d{11}\b"), "MILLISECONDS"),
    (re.compile(r"\brt=\d+ms"), "rt"),
    (re.compile(r"physicOffset=\d+|commitLogOffset=\d+|CommitLog Offset: +\d+"), "PLACE"),
    (re.compile(r"#MasterCommitLogMaxOffset\t\d+"), "PLACE"),
    (re.compile(r"\b(OK|OK,) \d+\b"), "OK COUNT"),
    (re.compile(r"(?<=\strue {20})\d+$|Avg RT: .*", re.MULTILINE), "RT"),
    (re.compile(r"\b\d+\.\d{2}\b"), "RATE"),
    (re.compile(r"subVersion=\d+"), "subVersion"),
    (re.compile(r"\S+/msgbodys/\S+"), "BODY"),
    (re.compile(r"\S+/export/"), ""),
    (re.compile(r"See http\S+"), "See"),
    # 4.9 does not store these with a message; we do, as 5.x.
    (re.compile(r"(TRACE_ON|MSG_REGION|WAIT)=\w+(, )?|, (TRACE_ON|MSG_REGION|WAIT)=\w+(?=})"), ""),
    (re.compile(r"(storeSize|physicSize)=\d+|Store Size: +\d+"), "SIZE"),
)


def _lines(version: str) -> list[str]:
    files = ["mqadmin.txt", *(["mqadmin52.txt"] if version == "5.2.0" else [])]
    found = [line for name in files for line in (GOLDEN / name).read_text().splitlines()]
    cut = next(i for i, line in enumerate(found) if line.startswith("cloneGroupOffset"))
    more = [*MORE, *(MORE_52 if version == "5.2.0" else ())]
    lines = found[:cut] + more + found[cut:]
    for old, new in NAMES.items():
        lines = [line.replace(old, new) for line in lines]
    return lines


def _conf() -> dict[str, str]:
    conf = parse_properties(Path(f"{STORE}.conf").read_text())
    for name in ("listenPort", "namesrvAddr", "storePathRootDir", "storePathCommitLog"):
        del conf[name]
    return conf | {"transactionCheckInterval": "3600000", "diskMaxUsedSpaceRatio": "95"}


class Side:
    """One of the two systems: a name server, a broker over a copy of the store."""

    def __init__(self, version: str, home: Path) -> None:
        self.version = version
        self.home = home
        self.namesrv = self.broker = ""
        shutil.copytree(STORE, home / "store")

    def close(self) -> None:
        raise AssertionError("told by the kinds")

    def mqadmin(self) -> list[str]:
        """What each command line printed."""
        words = {"ns": self.namesrv, "broker": self.broker, "directory": str(self.home / "export")}
        commands = [line.format(**words).split(" ") for line in _lines(self.version)]
        tool = MqAdmin(self.version, self.home / "tool")
        try:
            told = [tool.run(*command) for command in commands]
        finally:
            tool.close()
        return [
            text + self._exported(command[0]) for text, command in zip(told, commands, strict=True)
        ]

    def _exported(self, name: str) -> str:
        """What an export command has written, without what is each broker's own; one line."""
        if name not in ("exportMetadata", "exportConfigs"):
            return ""
        path = self.home / "export" / f"{name.removeprefix('export').lower()}.json"
        data = json.loads(path.read_text())
        # Whether a commit makes a group, and whether an empty answer ends an order, is ours.
        data.get("subscriptionGroupTable", {}).pop("MqadminClone", None)
        topics = data.get("topicConfigTable", {})
        for topic in [topic for topic in topics if OWN_TOPICS.search(topic)]:
            del topics[topic]
        for config in topics.values():
            config.pop("order", None)
        for config in data.get("brokerConfigs", {}).values():
            config.pop("filterServerNums", None)  # 5.x has it no more
        return "\n" + json.dumps(data, sort_keys=True)


class JavaSide(Side):
    """The Java name server and broker."""

    def __init__(self, version: str, home: Path) -> None:
        super().__init__(version, home)
        self._names = JavaNameServer(version, home / "ns")
        store = {
            "storePathRootDir": str(home / "store"),
            "storePathCommitLog": str(home / "store" / "commitlog"),
        }
        try:
            self._broker = JavaBroker(
                version, home / "broker", namesrv=self._names.address, conf=_conf() | store
            )
        except BaseException:
            self._names.kill()
            raise
        self.namesrv, self.broker = self._names.address, self._broker.address

    def close(self) -> None:
        self._broker.kill()
        self._names.kill()


class OurSide(Side):
    """``contrail up``."""

    def __init__(self, version: str, home: Path) -> None:
        super().__init__(version, home)
        conf = home / "broker.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in _conf().items()))
        command = [sys.executable, "-m", "contrailmq.main", "up", "-c", str(conf)]
        command += ["--namesrv-port", "0", "--port", "0", "--store", str(home / "store")]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            text=True,
        )
        assert self._process.stdout is not None
        found = READY.search(self._process.stdout.readline())
        assert found is not None
        self.namesrv, self.broker = found[1], found[2]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


Outputs = dict[str, Future[list[str]]]


@pytest.fixture(scope="module")
def outputs(
    tmp_path_factory: pytest.TempPathFactory, java_start: Callable[..., JavaCall]
) -> Iterator[dict[str, Outputs]]:
    """Version to side to what it printed; all four run at the same time."""
    home = tmp_path_factory.mktemp("mqadmin")
    sides: list[Side] = []

    def job(kind: type[Side], version: str) -> list[str]:
        side = kind(version, home / f"{kind.__name__}-{version}")
        sides.append(side)
        call = java_start(
            version, "consume",
            group="GoldMadeGroup", topic="GoldUnicode", namesrv=side.namesrv, timeoutMs=600_000,
        )  # fmt: skip
        call.expect("ready")
        return side.mqadmin()

    with ThreadPoolExecutor(4) as pool:
        try:
            yield {
                version: {
                    kind.__name__: pool.submit(job, kind, version) for kind in (JavaSide, OurSide)
                }
                for version in VERSIONS
            }
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for side in sides:
                side.close()


def _cases() -> list[Any]:
    return [
        pytest.param(version, number, id=f"{version}-{number}-{line.split(' ')[0]}")
        for version in VERSIONS
        for number, line in enumerate(_lines(version))
    ]


@pytest.mark.parametrize(("version", "number"), _cases())
def test_mqadmin_prints_the_same(outputs: dict[str, Outputs], version: str, number: int) -> None:
    theirs = outputs[version]["JavaSide"].result()[number]
    ours = outputs[version]["OurSide"].result()[number]
    line = _lines(version)[number]
    rule = RULES.get(line.split(" ")[0], _compare)
    rule(theirs, ours)


def _compare(theirs: str, ours: str) -> None:
    assert _normal(ours) == _normal(theirs)


def _normal(text: str) -> list[str]:
    """Lines without what differs by its nature, sorted: tables have the order of hash maps."""
    text = text.replace("\r", "")
    for pattern, word in SAME:
        text = pattern.sub(word, text)
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line and not OWN_TOPICS.search(line)]
    return sorted(" ".join(line.split()) for line in lines if "\tat " not in line)


def _table(text: str, separator: str) -> dict[str, str]:
    lines = (line for line in text.splitlines() if separator in line and "====" not in line)
    pairs = (line.partition(separator) for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _compare_cluster(theirs: str, ours: str) -> None:
    """The same columns; name, id and address of the broker in them."""

    def shape(text: str) -> list[list[str]]:
        return [line.split()[:3] for line in _normal(text)]

    assert shape(ours) == shape(theirs)


def _compare_runtime(theirs: str, ours: str) -> None:
    """All keys of the original, but the store's path; equal where nothing moves."""
    java, own = _table(theirs, ": "), _table(ours, ": ")
    java = {name: value for name, value in java.items() if "commitLogDiskRatio_" not in name}
    assert set(java) - set(own) == set()
    for name in ("msgPutTotalYesterdayMorning", "dispatchBehindBytes", "commitLogMinOffset"):
        assert own[name] == java[name], name
    levels = [name for name in java if name.startswith("scheduleMessageOffset_")]
    assert [own[name] for name in levels] == [java[name] for name in levels]


def _compare_config(theirs: str, ours: str) -> None:
    """Keys both have, with the same values but for places and defaults that are our own."""
    java, own = _table(theirs, "="), _table(ours, "=")
    both = set(java) & set(own)
    assert len(both) > 5
    different = {name for name in both if java[name] != own[name]}
    assert different <= OWN_VALUES, {name: (java[name], own[name]) for name in different}


def _compare_refusal(theirs: str, ours: str) -> None:
    """The original does not answer; we say why not."""
    assert "aclEnable" in ours or _normal(ours) == _normal(theirs)


OWN_VALUES = {
    "storePathRootDir",
    "storePathCommitLog",
    "listenPort",
    "haListenPort",  # 0 is the port behind listenPort
    "inSyncReplicas",  # 0 waits for one replica, as 4.9 does
    "allAckInSyncStateSet",  # true here: a failover loses nothing that was acknowledged
    "namesrvAddr",
    "brokerIP1",
    "brokerIP2",
    "bindAddress",
    "kvConfigPath",
    "configStorePath",
    "rocketmqHome",
    "registerBrokerTimeoutMills",  # the default of 5.x
    "timerWheelEnable",
    "bitMapLengthConsumeQueueExt",  # the original computes it
}
RULES: dict[str, Callable[[str, str], None]] = {
    "clusterList": _compare_cluster,
    "brokerStatus": _compare_runtime,
    "getBrokerConfig": _compare_config,
    "getNamesrvConfig": _compare_config,
    "clusterAclConfigVersion": _compare_refusal,
    "getAclConfig": _compare_refusal,
}
