"""A worker that stops well: SIGTERM lets the handlers that run finish and commit, then it ends.

python examples/worker.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import os
import signal
import sys

from contrailmq import Message, Producer, PushConsumer, ReceivedMessage


async def work(message: ReceivedMessage) -> None:
    """Raise, and the message comes again later; ``message.dead_letter()`` gives it up at once."""
    print("worked on", message.json(dict)["order"])


async def serve(name_servers: str, stop: asyncio.Event) -> None:
    """Consume until told to stop; leaving the block finishes and commits what is under way."""
    async with PushConsumer(
        "workers", topics="jobs", name_servers=name_servers, handler=work, start_from="first"
    ):
        await stop.wait()
    print("stopped")


async def main(name_servers: str) -> None:
    """Three jobs, then a signal as an orchestrator sends it."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with Producer("shop", name_servers=name_servers) as producer:
        for order in range(3):
            await producer.send(Message.json("jobs", {"order": order}))
    asyncio.get_running_loop().call_later(0.5, os.kill, os.getpid(), signal.SIGTERM)
    await serve(name_servers, stop)
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
