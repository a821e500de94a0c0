"""Read a topic at one's own pace: poll, look back, commit.

python examples/lite_pull.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sys

from contrailmq import LitePullConsumer, Message, Producer, ProducerSettings


async def main(name_servers: str) -> None:
    """Write a hundred readings in batches, read them, go back and read the last ten again."""
    settings = ProducerSettings(batch_size=16 * 1024, batch_wait_s=0.005)
    async with Producer("sensors", name_servers=name_servers, settings=settings) as producer:
        for number in range(100):
            await producer.submit(Message("readings", f"{number}".encode()))
        await producer.flush()

    async with LitePullConsumer(
        "archive", topics="readings", name_servers=name_servers, start_from="first"
    ) as consumer:
        total = 0
        while total < 100:
            total += len(await consumer.poll(10.0))
        print("read", total, "readings from", len(consumer.assignment), "queues")
        await consumer.poll(0)  # counts what the last poll returned as consumed
        await consumer.commit()

        queue = max(consumer.assignment, key=consumer.position)
        _, end = await consumer.bounds(queue)
        await consumer.seek(queue, max(0, end - 10))
        again = await consumer.poll(10.0)
        print("again from", again[0].offset, "of queue", queue.queue_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
