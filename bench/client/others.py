"""Another Python client of RocketMQ doing what client/compare.py does, as far as it can.

    PYTHON_WITH_IT other_clients.py NAMESRV COUNT SIZE IN_FLIGHT TOPIC BACKLOG GROUP

Known are ``rocketmq`` (0.4.4, with its C++ library in the wheel) and ``rocketmq-client-python``
(2.0.0, the same interface; it needs a librocketmq.so of the machine).  Runs with nothing but the
client installed; one JSON line per measurement.
"""

import importlib.metadata
import json
import os
import sys
import threading
import time

WAIT_S = 60.0  # for a measurement


def main():
    """Measure and print; the process ends hard, the library's threads do not end by themselves."""
    name = next(n for n in ("rocketmq-client-python", "rocketmq") if installed(n))
    from rocketmq import client

    namesrv, count, size, in_flight, topic, backlog, group = sys.argv[1:]
    label = f"{name} {importlib.metadata.version(name)}"
    body = b"x" * int(size)
    own_topic = f"Other{topic}"
    producer = client.Producer("other-bench")
    set_name_servers(producer, namesrv)
    producer.start()
    producer.send_sync(message(client, own_topic, body))
    few = int(count) // 10  # these are slow
    spent = single(client, producer, own_topic, body, count=few, threads=min(int(in_flight), 64))
    report(label, "send, single", few, spent)
    try:
        spent = batches(client, producer, own_topic, body, count=few)
        report(label, "send, batches of 100", few // 100 * 100, spent)
    except Exception as error:  # a batch above 4 KB is compressed by 0.4.4, which no broker reads
        print(f"batches of 100 cannot be sent: {error!r}")
    seen, spent = consume(client, namesrv, topic, backlog=int(backlog), group=group)
    if seen:
        report(label, "consume, push handler, one by one", seen, spent)
    os._exit(0)


def installed(name):
    """Whether a distribution is in this environment."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def set_name_servers(owner, namesrv):
    """The two versions spell it differently."""
    for spelling in ("set_namesrv_addr", "set_name_server_address"):
        if hasattr(owner, spelling):
            getattr(owner, spelling)(namesrv)
            return


def message(client, topic, body):
    """A message."""
    made = client.Message(topic)
    made.set_body(body)
    return made


def single(client, producer, topic, body, *, count, threads):
    """Synchronous sends by threads, the way this client is used."""

    def work(share):
        for _ in range(share):
            producer.send_sync(message(client, topic, body))

    shares = [count // threads + (number < count % threads) for number in range(threads)]
    workers = [threading.Thread(target=work, args=(share,)) for share in shares]
    begun = now()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return since(begun)


def batches(client, producer, topic, body, *, count):
    """Batches of 100, one after another."""
    begun = now()
    for _ in range(count // 100):
        producer.send_batch([message(client, topic, body) for _ in range(100)])
    return since(begun)


def consume(client, namesrv, topic, *, backlog, group):
    """A push consumer's callback; how many came within a minute."""
    seen = 0
    done = threading.Event()
    consumer = client.PushConsumer(group)
    set_name_servers(consumer, namesrv)
    lock = threading.Lock()

    def handle(received):
        nonlocal seen
        with lock:
            seen += 1
            if seen >= backlog:
                done.set()
        return client.ConsumeStatus.CONSUME_SUCCESS if hasattr(client, "ConsumeStatus") else None

    consumer.subscribe(topic, handle)
    begun = now()
    consumer.start()
    done.wait(WAIT_S)
    return seen, since(begun)


def now():
    """Wall and processor time."""
    return time.perf_counter(), time.process_time()


def since(begun):
    """Seconds of both."""
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def report(label, what, count, spent):
    """One line."""
    row = {
        "client": label,
        "what": what,
        "count": count,
        "seconds": round(spent[0], 3),
        "per_second": round(count / spent[0]),
        "cpu_us_per_message": round(spent[1] / count * 1e6, 2),
    }
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
