"""The same client for programs without asyncio: notebooks, scripts, Spark workers.

python examples/without_asyncio.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import sys

from contrailmq.blocking import Message, Producer, PushConsumer


def main(name_servers: str) -> None:
    """Send and consume with plain calls."""
    with Producer("greeters", name_servers=name_servers) as producer:
        for name in ("Ada", "Grace"):
            receipt = producer.send(Message("greetings", f"Hello, {name}!".encode()))
            print("sent", receipt.message_id)
    with PushConsumer(
        "readers", topics="greetings", name_servers=name_servers, start_from="first"
    ) as consumer:
        for count, message in enumerate(consumer, 1):
            print(message.body.decode())
            if count == 2:
                break


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876")
