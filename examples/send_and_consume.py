"""Send orders and bill those that are paid.

python examples/send_and_consume.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sys

from contrailmq import Message, Producer, PushConsumer


async def main(name_servers: str) -> None:
    """Send five messages, consume the three that are tagged as paid or refunded."""
    async with Producer("orders", name_servers=name_servers) as producer:
        for number, tags in enumerate(["paid", "open", "paid", "refunded", "open"]):
            message = Message(
                "orders", body=f"order {number}".encode(), tags=tags, keys=[f"{number}"]
            )
            receipt = await producer.send(message)
            print("sent", receipt.message_id, "to", receipt.queue.queue_id, "at", receipt.offset)

    async with PushConsumer(
        "billing",
        topics={"orders": "paid || refunded"},
        name_servers=name_servers,
        start_from="first",
    ) as consumer:
        billed = 0
        async for message in consumer:  # acknowledged when the loop comes back for the next
            print("billing", message.body.decode(), message.tags, message.keys)
            billed += 1
            if billed == 3:
                break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
