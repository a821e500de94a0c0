"""Ask a question over a topic and wait for the answer.

python examples/request_reply.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sys

from contrailmq import Message, Producer, PushConsumer, ReceivedMessage


async def main(name_servers: str) -> None:
    """A service that squares numbers, and a caller."""
    async with (
        Producer("callers", name_servers=name_servers) as caller,
        Producer("squarers", name_servers=name_servers) as squarer,
    ):
        await caller.send(Message("squares", b"0"))  # makes the topic

        async def answer(message: ReceivedMessage) -> None:
            if "CORRELATION_ID" in message.properties:
                number = int(message.body)
                await squarer.reply(message, str(number * number).encode())

        async with PushConsumer(
            "squarers", topics="squares", name_servers=name_servers, handler=answer
        ):
            for number in (7, 12):
                reply = await caller.request(
                    Message("squares", str(number).encode()), timeout_s=10.0
                )
                print(number, "squared is", int(reply.body))
                assert int(reply.body) == number * number


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
