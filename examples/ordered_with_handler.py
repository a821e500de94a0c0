"""Keep the steps of each order in order, and try a failed step again before the next one.

python examples/ordered_with_handler.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sys

from contrailmq import Message, Producer, PushConsumer, ReceivedMessage


async def main(name_servers: str) -> None:
    """Three orders with four steps each; one step fails once."""
    steps = ["created", "paid", "packed", "shipped"]
    async with Producer("order-steps", name_servers=name_servers) as producer:
        for step in steps:
            for order in ("A", "B", "C"):
                # Equal keys go to the same queue.
                await producer.send(Message("order-steps", f"{order} {step}".encode()), key=order)

    done = asyncio.Event()
    seen: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        text = message.body.decode()
        if text == "B paid" and message.attempt == 1:
            message.retry(after=0.1)  # the queue waits, its later messages too
            return
        seen.append(text)
        print(text)
        if len(seen) == 12:
            done.set()

    async with PushConsumer(
        "warehouse",
        topics={"order-steps": "*"},
        name_servers=name_servers,
        start_from="first",
        ordered=True,
        handler=handle,
    ):
        async with asyncio.timeout(30):
            await done.wait()
    for order in ("A", "B", "C"):
        assert [text for text in seen if text.startswith(order)] == [f"{order} {s}" for s in steps]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
