"""The blocking client and the pytest fixtures, as a user's own tests would use them."""

from __future__ import annotations

import os
import threading
import time

import pytest

from contrailmq import blocking
from contrailmq.errors import ClientError, ContrailError, NetworkError
from contrailmq.testing.cluster import ClusterThread
from contrailmq.testing.pytest_plugin import contrail_broker, contrail_cluster

__all__ = ["contrail_broker", "contrail_cluster"]

# The first uvloop of a process opens a pipe that libuv keeps for its signals.
blocking.LoopThread().close()


def test_everything_in_one_thread_of_execution(contrail_broker: ClusterThread) -> None:
    servers = contrail_broker.name_servers
    with blocking.Producer("orders", name_servers=servers) as producer:
        receipt = producer.send(blocking.Message("orders", b"one", tags="paid"))
        future = producer.submit(blocking.Message("orders", b"two", tags="paid"))
        producer.flush()
        assert future.result().message_id != receipt.message_id
        batch = producer.send_batch([blocking.Message("orders", b"three") for _ in range(3)])
        assert len(batch.message_ids) == 3
        with blocking.PushConsumer(
            "billing", topics={"orders": "paid"}, name_servers=servers, start_from="first"
        ) as consumer:
            found = set()
            for message in consumer:
                found.add(message.body)
                if len(found) == 2:
                    break
        assert found == {b"one", b"two"}
        with blocking.LitePullConsumer(
            "report", topics="orders", name_servers=servers, start_from="first"
        ) as lite:
            bodies: list[bytes] = []
            while len(bodies) < 5:
                bodies += [message.body for message in lite.poll(10.0)]
        assert sorted(bodies) == [b"one", b"three", b"three", b"three", b"two"]
        with blocking.PullConsumer("audit", name_servers=servers) as pull:
            queue = receipt.queue
            assert pull.pull(queue, receipt.offset).messages[0].body == b"one"
            assert pull.bounds(queue)[0] == 0


def test_handlers_run_in_threads(contrail_broker: ClusterThread) -> None:
    seen: list[str] = []
    done = threading.Event()

    def handle(message: blocking.ReceivedMessage) -> None:
        seen.append(threading.current_thread().name)
        done.set()

    servers = contrail_broker.name_servers
    with (
        blocking.Producer("p", name_servers=servers) as producer,
        blocking.PushConsumer(
            "g", topics="T", name_servers=servers, start_from="first", handler=handle, workers=2
        ),
    ):
        producer.send(blocking.Message("T", b"x"))
        assert done.wait(60)
    assert seen[0].startswith("g-handler")


def test_one_loop_for_several_clients(contrail_broker: ClusterThread) -> None:
    loop = blocking.LoopThread("shared loop")
    servers = contrail_broker.name_servers
    with (
        blocking.Producer("a", name_servers=servers, loop=loop) as one,
        blocking.Producer("b", name_servers=servers, loop=loop) as two,
    ):
        one.send(blocking.Message("T", b"x"))
        two.send(blocking.Message("T", b"x"))
        threads = [thread.name for thread in threading.enumerate()]
        assert threads.count("shared loop") == 1
        assert "contrailmq" not in threads
    loop.close()
    with pytest.raises(ClientError, match="closed"):
        one.send(blocking.Message("T", b"x"))


def test_a_forked_child_is_told(contrail_broker: ClusterThread) -> None:
    with blocking.Producer("p", name_servers=contrail_broker.name_servers) as producer:
        producer.send(blocking.Message("T", b"x"))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                producer.send(blocking.Message("T", b"x"))
                text = "no error"
            except ClientError as error:
                text = str(error)
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as pipe:
            assert b"make a client in each process" in pipe.read()


def test_wrong_arguments_leave_no_thread() -> None:
    before = threading.active_count()
    with pytest.raises(ClientError, match="group"):
        blocking.Producer("a group", name_servers="127.0.0.1:1")
    assert threading.active_count() == before


def test_faults_of_the_fixture(contrail_broker: ClusterThread) -> None:
    from contrailmq import ProducerSettings

    settings = ProducerSettings(send_timeout_s=2.0)
    with blocking.Producer(
        "p", name_servers=contrail_broker.name_servers, settings=settings
    ) as producer:
        producer.send(blocking.Message("T", b"x"))
        contrail_broker.refuse()
        with pytest.raises(NetworkError):
            producer.send(blocking.Message("T", b"x"))
        contrail_broker.heal()
        _until_sent(producer)
        contrail_broker.delay(0.1)
        assert producer.send(blocking.Message("T", b"slow")).offset >= 0
        contrail_broker.heal()
        contrail_broker.drop()
        with pytest.raises(NetworkError):
            producer.send(blocking.Message("T", b"lost"))
        contrail_broker.heal()
        contrail_broker.stop_broker()
        with pytest.raises(ContrailError):
            producer.send(blocking.Message("T", b"down"))
        contrail_broker.start_broker()
        _until_sent(producer)


def _until_sent(producer: blocking.Producer) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            producer.send(blocking.Message("T", b"again"))
            return
        except ContrailError:
            continue
    raise AssertionError("the broker does not come back")


def test_a_cluster_has_as_many_brokers_as_asked(contrail_cluster: ClusterThread) -> None:
    assert len(contrail_cluster.addresses) == 2
    contrail_cluster.create_topic("Wide", queues=2)
    with blocking.Producer("p", name_servers=contrail_cluster.name_servers) as producer:
        assert len(producer.queues("Wide")) == 4


def test_errors_say_what_to_do(contrail_broker: ClusterThread) -> None:
    with (
        blocking.PullConsumer("g", name_servers=contrail_broker.name_servers) as consumer,
        pytest.raises(ClientError, match="does not exist at"),
    ):
        consumer.queues("Absent")
    with (
        blocking.Producer("p", name_servers="127.0.0.1:1") as producer,
        pytest.raises(NetworkError, match="no name server answers"),
    ):
        producer.send(blocking.Message("T", b"x"))


def test_a_broker_is_up_in_under_300_ms() -> None:
    """Of processor time, and the best of three: the machine may be busy, the broker is not slow."""
    spent, passed = [], []
    for _ in range(3):
        begun, begun_cpu = time.monotonic(), time.process_time()
        cluster = ClusterThread()
        spent.append(time.process_time() - begun_cpu)
        passed.append(time.monotonic() - begun)
        cluster.close()
    assert min(spent) < 0.3
    assert min(passed) < 3.0, "it waits for something"
