"""``contrail admin``: the columns of mqadmin 4.9.7, letter by letter, over a real broker."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrailmq import Message, PushConsumer
from contrailmq.admin import main as admin
from contrailmq.admin.mqadmin.command import moment_of, moment_text
from contrailmq.blocking import Producer
from contrailmq.errors import ClientError, ConsumerNotOnline, UsageError
from contrailmq.testing.cluster import ClusterThread


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    running = ClusterThread()
    try:
        yield running
    finally:
        running.close()


def _run(cluster: ClusterThread, line: str) -> list[str]:
    out = io.StringIO()
    assert admin.main([*line.split(), "-n", cluster.name_servers], out=out) == 0
    return out.getvalue().splitlines()


# Each is a line that Java's tool printed.
HEADS = {
    "clusterList": (
        "#Cluster Name     #Broker Name            #BID  #Addr                  #Version        "
        "        #InTPS(LOAD)       #OutTPS(LOAD) #PCWait(ms) #Hour #SPACE"
    ),
    "clusterList -m": (
        "#Cluster Name     #Broker Name                       #InTotalYest  #OutTotalYest  "
        "#InTotalToday #OutTotalToday"
    ),
    "topicStatus -t orders": (
        "#Broker Name                      #QID  #Min Offset           #Max Offset             "
        "#Last Updated"
    ),
    "consumerProgress": (
        "#Group                                                            #Count  #Version      "
        "           #Type  #Model          #TPS     #Diff Total"
    ),
    "queryMsgByKey -t orders -k k1": (
        "#Message ID                                        #QID"
        "                                  #Offset"
    ),
    "sendMessage -t orders -p hello": (
        "#Broker Name                      #QID  #Send Result            #MsgId"
    ),
}


@pytest.mark.parametrize("line", list(HEADS))
def test_the_columns_are_mqadmins(cluster: ClusterThread, line: str) -> None:
    _run(cluster, "updateTopic -c DefaultCluster -t orders -r 2 -w 2")
    assert _run(cluster, line)[0] == HEADS[line]


def test_a_topic_by_mqadmins_words(cluster: ClusterThread) -> None:
    address = cluster.addresses[0]
    assert _run(cluster, f"updateTopic -b {address} -t refA -r 4 -w 4") == [
        f"create topic to {address} success.",
        "TopicConfig [topicName=refA, readQueueNums=4, writeQueueNums=4, perm=RW-, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false]",
    ]
    assert _run(cluster, "updateTopicPerm -c DefaultCluster -t refA -p 4") == [
        f"update topic perm from 6 to 4 in {address} success."
    ]
    route = _run(cluster, "topicRoute -t refA -l")
    assert route[1].split() == ["DefaultCluster", "broker-a", f"{{0={address}}}", "4", "4", "4"]
    assert route[2] == "-" * 158
    assert "refA" in _run(cluster, "topicList")
    assert _run(cluster, "topicClusterList -t refA") == ["DefaultCluster"]
    assert _run(cluster, "deleteTopic -c DefaultCluster -t refA") == [
        "delete topic [refA] from cluster [DefaultCluster] success.",
        "delete topic [refA] from NameServer success.",
    ]


def test_messages_offsets_and_a_member(cluster: ClusterThread) -> None:
    _run(cluster, "updateTopic -c DefaultCluster -t orders -r 1 -w 1")
    sent = _run(cluster, "sendMessage -t orders -p hello -k k1 -c paid")[1].split()
    by_key = _run(cluster, "queryMsgByKey -t orders -k k1")[1].split()
    assert by_key == [sent[3], "0", "0"]
    shown = _run(cluster, "queryMsgByOffset -t orders -b broker-a -i 0 -o 0")
    assert "Keys:                [k1]" in shown
    assert (
        f"MSGID: {sent[3]} MessageExt [brokerName=broker-a"
        in _run(cluster, "printMsg -t orders")[1]
    )
    assert _run(cluster, "queryMsgByUniqueKey -t orders -i " + sent[3])[0].endswith("orders")
    entries = _run(cluster, f"queryCq -t orders -q 0 -i 0 -b {cluster.addresses[0]}")
    assert entries[1] == "max: 1, min: 0"

    async def scenario() -> None:
        async with PushConsumer(
            "g", topics="orders", name_servers=cluster.name_servers, start_from="first"
        ) as consumer:
            await anext(aiter(consumer))
            lines = await asyncio.to_thread(_run, cluster, "consumerConnection -g g")
            assert lines[0] == (
                "#ClientId                            #ClientAddr            #Language  #Version"
            )
            assert any(consumer.client_id in line for line in lines)
            status = await asyncio.to_thread(_run, cluster, "consumerStatus -g g")
            assert f"0001  {consumer.client_id}" in status

    asyncio.run(scenario())
    progress = _run(cluster, "consumerProgress -g g")
    assert progress[-1] == "Diff Total: 0"
    _run(cluster, "resetOffsetByTime -g g -t orders -s 0")
    assert _run(cluster, "consumerProgress -g g")[-1] == "Diff Total: 1"
    _run(cluster, "skipAccumulatedMessage -g g -t orders")
    assert _run(cluster, "consumerProgress -g g")[-1] == "Diff Total: 0"
    with pytest.raises(ConsumerNotOnline):
        _run(cluster, "consumerConnection -g g")


def test_groups_settings_and_maintenance(cluster: ClusterThread) -> None:
    address = cluster.addresses[0]
    made = _run(cluster, f"updateSubGroup -b {address} -g refG -r 5")
    assert made[0] == f"create subscription group to {address} success."
    assert "retryMaxTimes=5" in made[1]
    assert f"{'retryMaxTimes':<40}=  5" in _run(cluster, "getConsumerConfig -g refG")
    assert _run(cluster, f"deleteSubGroup -b {address} -g refG") == [
        f"delete subscription group [refG] from broker [{address}] success."
    ]
    _run(cluster, f"updateBrokerConfig -b {address} -k fileReservedTime -v 33")
    assert f"{'fileReservedTime':<50}=  33" in _run(cluster, f"getBrokerConfig -b {address}")
    for line in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert _run(cluster, f"{line} -b {address}") == ["success"]
    assert "in name server" in _run(cluster, "wipeWritePerm -b broker-a")[0]
    assert "in name server" in _run(cluster, "addWritePerm -b broker-a")[0]
    _run(cluster, "updateKvConfig -s NS -k K -v V")
    _run(cluster, "deleteKvConfig -s NS -k K")
    assert any(
        line.startswith("bootTimestamp ") for line in _run(cluster, f"brokerStatus -b {address}")
    )
    _run(cluster, "updateTopic -c DefaultCluster -t orders -r 4 -w 4")
    divided = json.loads(_run(cluster, "allocateMQ -t orders -i a,b")[0])["result"]
    assert [len(divided[member]) for member in ("a", "b")] == [2, 2]
    _run(cluster, "updateOrderConf -t orders -m put -v broker-a:4")
    assert "broker-a:4" in _run(cluster, "updateOrderConf -t orders -m get")[0]


def test_every_command_has_help_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = admin.listing()
    for name in admin.COMMANDS:
        assert name in listed
        with pytest.raises(SystemExit) as stop:
            admin.main([name, "--help"])
        assert stop.value.code == 0
        assert name in capsys.readouterr().out


def test_moments_as_mqadmin_writes_them() -> None:
    assert moment_of("now") == -1
    assert moment_of("1500000000000") == 1_500_000_000_000
    shown = moment_text(1_500_000_000_123)
    assert moment_of(shown.replace(" ", "#").replace(",", ":")) == 1_500_000_000_123
    with pytest.raises(ClientError, match="expected now"):
        moment_of("tomorrow")


def test_the_producers_of_a_broker(cluster: ClusterThread) -> None:
    with Producer("shop", name_servers=cluster.name_servers) as producer:
        producer.send(Message("orders", b"hello"))
        [line] = [
            line
            for line in _run(cluster, f"producer -b {cluster.addresses[0]}")
            if line.startswith("producer group (shop) ")
        ]
    assert re.fullmatch(
        r"producer group \(shop\) instance : clientId=\S+,remoteIP=/127\.0\.0\.1:\d+, "
        r"language=\w+, version=\d+, lastUpdateTimestamp=\d{13}",
        line,
    ), line


def test_what_is_exported(cluster: ClusterThread, tmp_path: Path) -> None:
    _run(cluster, "updateTopic -c DefaultCluster -t orders -r 2 -w 3")
    _run(cluster, "updateSubGroup -c DefaultCluster -g billing -r 5")

    def export(line: str) -> Any:
        [told] = _run(cluster, f"{line} -f {tmp_path}/made")
        found = re.fullmatch(rf"export ({tmp_path}/made/\w+\.json) success", told)
        assert found is not None, told
        return json.loads(Path(found[1]).read_bytes())

    both = export("exportMetadata -c DefaultCluster")
    assert set(both) == {"exportTime", "subscriptionGroupTable", "topicConfigTable"}
    assert list(both["topicConfigTable"]) == ["orders"]
    assert both["topicConfigTable"]["orders"]["writeQueueNums"] == 3
    assert both["subscriptionGroupTable"]["billing"]["retryMaxTimes"] == 5
    assert set(export("exportMetadata -c DefaultCluster -t")) == {"exportTime", "topicConfigTable"}
    retries = export(f"exportMetadata -b {cluster.addresses[0]} -t -s")["topicConfigTable"]
    assert set(retries) >= {"orders", *both["topicConfigTable"]}
    groups = export(f"exportMetadata -b {cluster.addresses[0]} -g")
    assert list(groups["subscriptionGroupTable"]) == ["billing"]
    configs = export("exportConfigs -c DefaultCluster")
    assert configs["clusterScale"] == {
        "masterBrokerSize": 1, "namesrvSize": 1, "slaveBrokerSize": 0,
    }  # fmt: skip
    assert configs["brokerConfigs"]["broker-a"]["brokerRole"] == "ASYNC_MASTER"
    metrics = export("exportMetrics -c DefaultCluster")
    quota = metrics["evaluateReport"]["broker-a"]["runtimeQuota"]
    assert (quota["topicSize"], quota["groupSize"]) == (1, 1)
    assert set(metrics["totalData"]["totalTps"]) == {
        "totalNormalInTps", "totalNormalOutTps", "totalScheduleInTps", "totalTransInTps",
    }  # fmt: skip
    with pytest.raises(UsageError, match="give -c"):
        _run(cluster, "exportMetadata")
    with pytest.raises(UsageError, match="with -b give -t"):
        _run(cluster, f"exportMetadata -b {cluster.addresses[0]}")
