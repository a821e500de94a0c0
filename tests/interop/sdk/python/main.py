"""The Python SDK at work: see ../README.md."""

import json
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

ENDPOINT, NAME = sys.argv[1:3]
CONFIGURATION = ClientConfiguration(ENDPOINT, Credentials())


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def message(kind, body, **fields):
    made = Message()
    made.topic, made.body = f"{NAME}-{kind}", body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def receive(kind, group, count=1):
    consumer = SimpleConsumer(CONFIGURATION, f"{NAME}-{group}")
    consumer.startup()
    consumer.subscribe(f"{NAME}-{kind}")
    deadline, got = time.monotonic() + 30, 0
    while got < count and time.monotonic() < deadline:
        for found in consumer.receive(16, 20):
            say(
                "received", topic=kind, body=found.body.decode(), tag=found.tag,
                keys=sorted(found.keys), properties=dict(found.properties),
                attempt=found.delivery_attempt,
            )  # fmt: skip
            consumer.ack(found)
            got += 1
    consumer.shutdown()


class Listener(MessageListener):
    def __init__(self):
        self.heard = threading.Event()

    def consume(self, found):
        say("pushed", body=found.body.decode())
        self.heard.set()
        return ConsumeResult.SUCCESS


class Checker(TransactionChecker):
    def check(self, found):
        say("checked", body=found.body.decode())
        return TransactionResolution.COMMIT


def main():
    producer = Producer(CONFIGURATION, tuple(f"{NAME}-{k}" for k in ("normal", "fifo", "delay")))
    producer.startup()
    first = message("normal", "plain", tag="blue", keys="key-1")
    first.add_property("a", "1")
    say("sent", topic="normal", id=producer.send(first).message_id)
    producer.send(message("fifo", "ordered", message_group="group"))
    producer.send(message("delay", "late", delivery_timestamp=int(time.time()) + 3))
    receive("normal", "simple")
    receive("fifo", "ordered")
    receive("delay", "late")
    listener = Listener()
    subscriptions = {f"{NAME}-normal": FilterExpression()}
    push = PushConsumer(CONFIGURATION, f"{NAME}-push", listener, subscriptions)
    push.startup()
    listener.heard.wait(20)
    push.shutdown()
    producer.shutdown()
    producer = Producer(CONFIGURATION, (f"{NAME}-tran",), Checker())
    producer.startup()
    transaction = producer.begin_transaction()
    producer.send(message("tran", "committed"), transaction)
    transaction.commit()
    producer.send(message("tran", "orphaned"), producer.begin_transaction())
    receive("tran", "tran", 2)
    producer.shutdown()
    say("end")


main()
