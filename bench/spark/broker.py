"""A broker of ours for the Spark benchmarks, in a process of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).resolve().parents[2] / "src"
CONF = """listenPort=0
mappedFileSizeCommitLog=1073741824
enablePropertyFilter=true
"""
TRANSFER = """maxTransferCountOnMessageInMemory={count}
maxTransferBytesOnMessageInMemory={size}
maxTransferCountOnMessageInDisk={count}
maxTransferBytesOnMessageInDisk={size}
"""


class Broker(NamedTuple):
    """A running broker."""

    name_servers: str
    address: str
    store: Path
    pid: int


def create_topic(broker: Broker, topic: str, queues: int) -> None:
    """Create a topic and wait until its route is known."""
    from contrailmq.bulk.cluster import Brokers
    from contrailmq.bulk.options import Access
    from contrailmq.protocol.codes import RequestCode
    from contrailmq.protocol.command import Command
    from contrailmq.protocol.headers.topic import CreateTopicRequest

    header = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    brokers = Brokers(Access(name_servers=(broker.name_servers,)))
    wire = brokers.wire(broker.address)
    answer = wire.call(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
    assert answer.code == 0, answer
    while brokers.find_route(topic) is None:
        time.sleep(0.05)
    brokers.close()


@contextmanager
def own_broker(folder: Path, transfer_count: int) -> Iterator[Broker]:
    """A name server and a broker in a process of their own."""
    conf = folder / "broker.conf"
    raised = TRANSFER.format(count=transfer_count, size=1_048_576) if transfer_count > 32 else ""
    conf.write_text(CONF + raised)
    store = folder / "broker-a"
    command = [sys.executable, "-m", "contrailmq.main", "up", "-c", str(conf)]
    command += ["--store", str(store), "--namesrv-port", "0", "--host", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        name_server = re.search(r"name server ([^ ,]+)", line)
        address = re.search(r"broker ([^ ,]+)", line)
        assert name_server and address, line
        yield Broker(name_server[1], address[1], store, process.pid)
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(store, ignore_errors=True)
