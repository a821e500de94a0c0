"""``contrail admin`` prints what Java's mqadmin prints, asked of the same broker."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq.admin import main as admin
from contrailmq.testing.cluster import ClusterThread

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

LINES = (
    "clusterList",
    "clusterList -m",
    "topicList",
    "topicRoute -t orders",
    "topicRoute -t orders -l",
    "topicStatus -t orders",
    "topicClusterList -t orders",
    "queryMsgByKey -t orders -k k1",
    "queryMsgByOffset -t orders -b broker-a -i 0 -o 0",
    "getConsumerConfig -g made",
    "queryCq -t orders -q 0 -i 0 -c 2 -b {broker}",
    "printMsg -t orders -d false",
)
EXPORTS = {
    "metadata": "exportMetadata -c DefaultCluster",
    "topic": "exportMetadata -b {broker} -t -s",
    "subscriptionGroup": "exportMetadata -b {broker} -g",
    "configs": "exportConfigs -c DefaultCluster",
    "metrics": "exportMetrics -c DefaultCluster",
}
CHANGES = (
    (re.compile(r"^\d\d:\d\d:\d\d,\d{3} \|-.*\n", re.MULTILINE), ""),  # what logback says
    (re.compile(r"\b\d+\.\d{2,4}\b"), "RATE"),
    (re.compile(r"(?<=Properties:) .*"), ""),  # in the order of a hash table
    (re.compile(r"properties=\{.*?\}"), ""),
    (re.compile(r"(?<=Message Body Path:).*"), ""),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    running = ClusterThread()
    try:
        for line in (
            "updateTopic -c DefaultCluster -t orders -r 1 -w 1",
            "updateSubGroup -c DefaultCluster -g made -r 5",
            "sendMessage -t orders -p hello -k k1 -c paid",
            "sendMessage -t orders -p again -k k2",
        ):
            _ours(running, line)
        yield running
    finally:
        running.close()


def _ours(cluster: ClusterThread, line: str) -> str:
    out = io.StringIO()
    assert admin.main([*line.split(), "-n", cluster.name_servers], out=out) == 0
    return out.getvalue()


def _comparable(text: str) -> list[str]:
    """Lines without rates and without the order of hash tables."""
    for pattern, word in CHANGES:
        text = pattern.sub(word, text)
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("line", LINES)
def test_the_same_lines(cluster: ClusterThread, mqadmin: Callable[..., str], line: str) -> None:
    asked = line.format(broker=cluster.addresses[0])
    theirs = mqadmin("4.9.7", *asked.split(), "-n", cluster.name_servers)
    ours = _comparable(_ours(cluster, asked))
    assert ours == _comparable(theirs)


@pytest.mark.parametrize("name", EXPORTS)
def test_the_same_files(
    cluster: ClusterThread, mqadmin: Callable[..., str], tmp_path: Path, name: str
) -> None:
    line = EXPORTS[name].format(broker=cluster.addresses[0])

    def lasting(folder: str) -> Any:
        """What was written, without moments, rates and the tool's own version."""
        found = json.loads((tmp_path / folder / f"{name}.json").read_bytes())
        found.pop("exportTime", None)
        for broker in found.get("evaluateReport", {}).values():
            del broker["runtimeVersion"]["rocketmqVersion"]
            assert set(map(type, broker["runtimeQuota"].pop("tps").values())) == {float}
        if "totalData" in found:
            found["totalData"]["totalTps"] = sorted(found["totalData"]["totalTps"])
        return found

    theirs = f"{line} -f {tmp_path}/theirs -n {cluster.name_servers}"
    assert "success" in mqadmin("4.9.7", *theirs.split())
    _ours(cluster, f"{line} -f {tmp_path}/ours")
    assert lasting("ours") == lasting("theirs")
