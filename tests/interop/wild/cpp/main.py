"""Drives the C++ client through ``rocketmq`` of PyPI, which ships it as librocketmq.so.

One job as a JSON line on standard input, events as JSON lines on standard output; a job that waits
(consume) ends with the standard input.  ``../README.md`` lists jobs and events.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer, SendStatus
from rocketmq.ffi import MessageModel

_printing = threading.Lock()


def tell(event: str, **row: Any) -> None:
    """One line, also from the client's own threads."""
    with _printing:
        sys.stdout.write(json.dumps({"event": event, **row}) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Do the job of the first line."""
    job = json.loads(sys.stdin.readline())
    {"produce": produce, "consume": consume}[job["command"]](job)
    tell("done")
    os._exit(0)  # the library's threads do not always end


def produce(job: dict[str, Any]) -> None:
    """Send the messages in the job's mode."""
    producer = Producer(job["group"], timeout=10_000)
    producer.set_namesrv_addr(job["namesrv"])
    producer.start()
    messages = []
    for one in job["messages"]:
        message = Message(job["topic"])
        message.set_body(one["body"])
        if one.get("tags"):
            message.set_tags(one["tags"])
        if one.get("keys"):
            message.set_keys(one["keys"])
        messages.append(message)
    if job.get("mode") == "batch":
        _tell_sent(producer.send_batch(messages))
    elif job.get("mode") == "ordered":
        for message in messages:
            _tell_sent(producer.send_orderly(message, 1))
    elif job.get("mode") == "oneway":
        for message in messages:
            producer.send_oneway(message)
        sys.stdin.read()
    else:
        for message in messages:
            _tell_sent(producer.send_sync(message))
    producer.shutdown()


def consume(job: dict[str, Any]) -> None:
    """Take messages until the standard input ends."""
    model = MessageModel.BROADCASTING if job.get("broadcast") else MessageModel.CLUSTERING
    ordered = bool(job.get("ordered"))
    consumer = PushConsumer(job["group"], orderly=ordered, message_model=model)
    consumer.set_namesrv_addr(job["namesrv"])
    consumer.set_instance_name(str(os.getpid()))

    def take(message: Any) -> None:
        tell(
            "message",
            body=message.body.decode(),
            tags=message.tags.decode(),
            keys=message.keys.decode(),
            topic=message.topic,
            queue=message.queue_id,
            times=message.reconsume_times,
            id=message.id,
        )
        if job.get("failOnce") and message.reconsume_times == 0:
            raise RuntimeError("once more, please")

    consumer.subscribe(job["topic"], take, expression=job.get("expression") or "*")
    consumer.start()
    tell("ready")
    sys.stdin.read()
    consumer.shutdown()


def _tell_sent(result: Any) -> None:
    tell("sent", ok=result.status == SendStatus.OK, id=result.msg_id)


main()
