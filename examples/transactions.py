"""A message that is visible only if the local work succeeds.

python examples/transactions.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sys

from contrailmq import Message, Producer, PushConsumer, ReceivedMessage

ACCOUNTS = {"alice": 100, "bob": 0}
BOOKED: set[str] = set()


def was_booked(message: ReceivedMessage) -> bool | None:
    """Asked by the broker when it does not know how a transaction ended."""
    return message.keys[0] in BOOKED


async def main(name_servers: str) -> None:
    """Two transfers: one succeeds, one fails and its message is withdrawn."""
    async with Producer("transfers", name_servers=name_servers, check=was_booked) as producer:
        for key, amount in (("t1", 30), ("t2", 500)):
            message = Message("transfers", f"{key}: {amount}".encode(), keys=[key])
            try:
                async with producer.transaction(message):
                    if ACCOUNTS["alice"] < amount:
                        raise ValueError(f"alice has only {ACCOUNTS['alice']}")
                    ACCOUNTS["alice"] -= amount
                    ACCOUNTS["bob"] += amount
                    BOOKED.add(key)
            except ValueError as error:
                print(f"{key} withdrawn: {error}")

    async with PushConsumer(
        "statements", topics="transfers", name_servers=name_servers, start_from="first"
    ) as consumer:
        async for message in consumer:
            print("transferred", message.body.decode())
            assert message.keys == ["t1"]
            break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
