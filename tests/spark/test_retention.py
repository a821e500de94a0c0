"""Files that roll and are deleted by the broker's retention while Spark reads: what is said."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from contrailmq.bulk.cluster import Brokers
from contrailmq.bulk.loss import Losses, MessagesLost
from contrailmq.bulk.options import source_options
from contrailmq.bulk.planning import QueueRange
from contrailmq.bulk.pull import Puller, Subscription
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.message import decode_record
from contrailmq.protocol.queue import MessageQueue
from contrailmq.testing.cluster import ClusterThread
from testkit.spark_kit import send

pytestmark = pytest.mark.spark
QUEUE = MessageQueue("orders", "broker-a", 0)
FIRST, LAST = 2000, 6000
LOST = r"topic orders broker broker-a queue 0: offsets (\d+) to (\d+) \((\d+) messages\)"


@pytest.fixture
def small() -> Iterator[ClusterThread]:
    """A broker with files of 256 KiB that keeps nothing longer than it is asked to."""
    found = ClusterThread(
        brokers=1,
        properties={
            "mappedFileSizeCommitLog": str(256 * 1024),
            "mappedFileSizeConsumeQueue": str(20 * 500),
            "fileReservedTime": "0",
            "deleteWhen": f"{(time.localtime().tm_hour + 12) % 24:02}",  # not by itself
            "cleanResourceInterval": "100",
            "deleteCommitLogFilesInterval": "1",
            "deleteConsumeQueueFilesInterval": "1",
        },
    )
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("tolerant", [False, True])
def test_what_is_gone_is_said_before_the_queue_knows_it(
    small: ClusterThread, tolerant: bool, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Files of the log go first; until the queue follows, the broker says to look further on."""
    monkeypatch.setattr("contrailmq.store.keep.Keeping.trim", lambda keeping: [])
    small.create_topic("orders", queues=1)
    send(small.name_servers, "orders", range(LAST), size=300)
    given = source_options({"nameServers": small.name_servers, "topics": "orders"})
    with closing(Brokers(given.access)) as brokers:
        request = Command.request(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert brokers.wire(small.addresses[0]).call(request).code == 0
        logs = small.stores[0] / "commitlog"
        deadline = time.monotonic() + 120
        while min(path.name for path in logs.iterdir()) < "00000000000001000000":
            assert time.monotonic() < deadline, "nothing is deleted"
            time.sleep(0.05)
        assert brokers.first_offsets([QUEUE]) == {QUEUE: 0}
        pulled = Puller(brokers, Subscription("g"), losses=Losses(fail=not tolerant)).read(
            [QueueRange(QUEUE, 7, LAST)]
        )
        if not tolerant:
            with pytest.raises(MessagesLost, match="queue 0: offsets 7 to"):
                list(pulled)
            return
        found = []
        for group in pulled:
            found += [decode_record(group.data, at).queue_offset for at in group.positions]
    assert found == sorted(found) and found[0] > 7
    losses = [re.search(LOST, record.getMessage()) for record in caplog.records]
    said = [(int(loss[1]), int(loss[2]) + 1) for loss in losses if loss]
    gone = [at for first, behind in said for at in range(first, behind)]
    assert sorted(found + gone) == list(range(7, LAST))  # deletion goes on while we read


def _delete_old_files(cluster: ClusterThread) -> int:
    """Ask for what ``deleteWhen`` would do in the night; the first offset that is left."""
    given = source_options({"nameServers": cluster.name_servers, "topics": "orders"})
    with closing(Brokers(given.access)) as brokers:
        request = Command.request(RequestCode.DELETE_EXPIRED_COMMITLOG)
        assert brokers.wire(cluster.addresses[0]).call(request).code == 0
        deadline = time.monotonic() + 120
        while (first := brokers.first_offsets([QUEUE])[QUEUE]) <= FIRST:
            assert time.monotonic() < deadline, "nothing is deleted"
            time.sleep(0.05)
        for _ in range(8):  # a request is twenty rounds, a tenth of a second apart
            time.sleep(0.5)
            first = brokers.first_offsets([QUEUE])[QUEUE]
    assert FIRST < first < LAST
    return first


def _drain(frame: Any, folder: Path) -> None:
    frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "check")).option(
        "path", str(folder / "out")
    ).trigger(availableNow=True).start().awaitTermination()


def _numbers(frame: Any) -> list[int]:
    return sorted(json.loads(bytes(row.body))["n"] for row in frame.select("body").collect())


def _range(error: pytest.ExceptionInfo[BaseException]) -> tuple[int, int]:
    """The lost range that an error names."""
    found = re.search(LOST, str(error.value))
    assert found is not None, str(error.value)[:2000]
    start, last, count = map(int, found.groups())
    assert last - start + 1 == count
    return start, last + 1


def test_deleted_files_are_named_and_passed(
    spark: Any, small: ClusterThread, tmp_path: Path
) -> None:
    small.create_topic("orders", queues=1)
    send(small.name_servers, "orders", range(FIRST), size=300)
    topic = {"nameServers": small.name_servers, "topics": "orders"}
    store = {"path": str(small.stores[0]), "topics": "orders", "broker": "broker-a"}
    places = {"rocketmq": topic, "rocketmq-store": store}

    def stream(kind: str, **more: str) -> Any:
        options = {**places[kind], "startingOffsets": "earliest", **more}
        return spark.readStream.format(kind).options(**options).load()

    def batch(kind: str, **more: str) -> Any:
        return spark.read.format(kind).options(**places[kind], **more).load()

    for kind in places:
        _drain(stream(kind), tmp_path / kind)
    planned = {kind: batch(kind) for kind in places}
    for frame in planned.values():
        assert frame.count() == FIRST  # planned now: a frame is looked at again as it was
    send(small.name_servers, "orders", range(FIRST, LAST), size=300)
    first = _delete_old_files(small)

    for kind in places:
        # A stream that has not read them yet; a query that was planned when they were there.
        with pytest.raises(Exception, match=LOST) as gap:
            _drain(stream(kind), tmp_path / kind)
        assert _range(gap) == (FIRST, first)
        with pytest.raises(Exception, match=LOST) as old:
            planned[kind].count()
        assert _range(old) == (0, FIRST)
        # Offsets that a user names; what is left by itself is no loss.
        begin = json.dumps({"orders": {"broker-a": {"0": 10}}})
        with pytest.raises(Exception, match=LOST) as named:
            batch(kind, startingOffsets=begin).count()
        assert _range(named) == (10, first)
        assert _numbers(batch(kind)) == list(range(first, LAST))
        tolerant = batch(kind, startingOffsets=begin, failOnDataLoss="false")
        assert _numbers(tolerant) == list(range(first, LAST))
        # The same stream goes on behind the gap, and nothing comes twice.
        _drain(stream(kind, failOnDataLoss="false"), tmp_path / kind)
        found = _numbers(spark.read.parquet(str(tmp_path / kind / "out")))
        assert found == [*range(FIRST), *range(first, LAST)]
