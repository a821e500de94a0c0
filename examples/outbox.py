"""A row and a message, both or neither: a transaction whose truth is a table of SQLite.

The row of the order and the message about it cannot be written by one commit, so the message is
sent as a half message first. If the process dies between the commit and the end of the transaction,
the broker asks ``was_committed``, which looks into the table.

python examples/outbox.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sqlite3
import sys

from contrailmq import Message, Producer, PushConsumer, ReceivedMessage


def new_database() -> sqlite3.Connection:
    """The orders, in memory for the example."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT NOT NULL)")
    return database


async def main(name_servers: str) -> None:
    """Two orders with one id: the second fails in the database, and its message is withdrawn."""
    database = new_database()

    def was_committed(message: ReceivedMessage) -> bool:
        query = "SELECT 1 FROM orders WHERE id = ?"
        return database.execute(query, (message.keys[0],)).fetchone() is not None

    async with Producer("shop", name_servers=name_servers, check=was_committed) as producer:
        for item in ("tea", "coffee"):
            message = Message.json("ordered", {"item": item}, keys=["order-1"])
            try:
                async with producer.transaction(message):
                    with database:
                        database.execute("INSERT INTO orders VALUES (?, ?)", ("order-1", item))
            except sqlite3.IntegrityError as error:
                print("withdrawn:", error)

    async with PushConsumer(
        "mailer", topics="ordered", name_servers=name_servers, start_from="first"
    ) as consumer:
        async for message in consumer:
            print("ordered:", message.json(dict)["item"])
            assert message.json(dict) == {"item": "tea"}
            break
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
