"""Two of our controllers over a real etcd, asked by the original's mqadmin."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contrailmq.admin.main import main as admin_main
from testkit.replica_cluster import GROUP, ReplicaCluster, call, wait_for

pytestmark = pytest.mark.interop


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicaCluster]:
    found = ReplicaCluster(tmp_path, etcd=1)
    try:
        wait_for(lambda: found.in_sync() == 2, "both are in sync")
        yield found
    finally:
        found.close()


def test_mqadmin_of_5_2_0(cluster: ReplicaCluster, mqadmin: Callable[..., str]) -> None:
    def run(*words: str) -> str:
        return mqadmin("5.2.0", *words)

    def same(*words: str) -> str:
        """What mqadmin prints, and ``contrail admin`` too."""
        told, ours = run(*words), io.StringIO()
        assert admin_main([*words], ours) == 0
        assert set(ours.getvalue().split()) <= set(told.split())  # it logs, too
        return told

    leader = cluster.leader()
    assert leader is not None
    (other,) = (one for one in cluster.controllers if one is not leader)
    # Whichever is asked, the leader answers.
    told = same("getControllerMetaData", "-a", other.address)
    assert f"#ControllerLeaderAddress\t{leader.address}" in told, told
    assert all(one.address in told for one in cluster.controllers), told
    told = same("getSyncStateSet", "-a", other.address, "-b", GROUP)
    assert "#SyncStateSetNums\t2" in told, told
    told = same("getControllerConfig", "-a", other.address)
    assert "enableElectUncleanMaster" in told, told
    key = ("-k", "enableElectUncleanMaster", "-v", "true")
    told = run("updateControllerConfig", "-a", leader.address, *key)
    assert "success" in told, told
    assert b"enableElectUncleanMaster=true" in call(leader.address, 1010)[1]
    told = run("updateControllerConfig", "-a", leader.address, "-k", "listenPort", "-v", "1")
    assert "cannot be changed while running" in told, told
    told = same("getBrokerEpoch", "-n", cluster.namesrv.address, "-b", GROUP)
    assert told.count("EpochEntry{epoch=1, startOffset=0") == 2, told
    told = run("haStatus", "-n", cluster.namesrv.address, "-b", cluster.primary().address)
    assert "#InSyncSlaveNum\t1" in told, told
    replicas = cluster.group()["inSyncReplicas"]
    new = next(row for row in replicas if row["brokerAddress"] != cluster.primary().address)
    words = ("-n", cluster.namesrv.address, "-c", "DefaultCluster", "-bn", GROUP)
    told = run("electMaster", "-a", other.address, "-b", str(new["brokerId"]), *words)
    assert f"#BrokerMasterAddr\t{new['brokerAddress']}" in told, told
    wait_for(lambda: cluster.group().get("masterAddress") == new["brokerAddress"], "elected")
    wait_for(lambda: cluster.in_sync() == 2, "both are in sync")
    old = next(broker for broker in cluster.brokers if broker.address != new["brokerAddress"])
    old_id = next(r["brokerId"] for r in replicas if r["brokerAddress"] == old.address)
    clean = ("cleanBrokerMetadata", "-a", leader.address, "-b", str(old_id), "-bn", GROUP)
    told = run(*clean, "-c", "DefaultCluster")
    assert "are alive" in told, told
    old.kill()
    wait_for(lambda: cluster.in_sync() == 1, "it has left the set")
    told = run(*clean, "-c", "DefaultCluster")
    assert "success" in told, told
    assert all(row["brokerId"] != old_id for row in cluster.group()["notInSyncReplicas"])
