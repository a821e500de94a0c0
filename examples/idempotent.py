"""Effects that happen once although messages may come twice: the id is written with the effect.

A message comes again when its consumer dies before its offset is committed, and when a sender
repeats a send whose answer it did not get. The key of the business (here the payment's id) tells
both; the broker's own message id tells only the first.

python examples/idempotent.py 127.0.0.1:9876
"""

# ruff: noqa: T201 (examples talk)
from __future__ import annotations

import asyncio
import sqlite3
import sys

from contrailmq import Message, Producer, PushConsumer


def apply(database: sqlite3.Connection, payment: str, amount: int) -> bool:
    """Book a payment and remember it, in one commit; False if it was booked before."""
    with database:
        done = database.execute("INSERT OR IGNORE INTO seen VALUES (?)", (payment,))
        if done.rowcount == 0:
            return False
        database.execute("UPDATE account SET balance = balance + ?", (amount,))
        return True


async def main(name_servers: str) -> None:
    """The second payment is sent twice, and booked once."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE seen (payment TEXT PRIMARY KEY)")
    database.execute("CREATE TABLE account (balance INTEGER NOT NULL)")
    database.execute("INSERT INTO account VALUES (0)")
    async with Producer("bank", name_servers=name_servers) as producer:
        for payment in ("p1", "p2", "p2", "p3"):
            await producer.send(Message("payments", b"10", keys=[payment]))

    left = 4
    async with PushConsumer(
        "booking", topics="payments", name_servers=name_servers, start_from="first"
    ) as consumer:
        async for message in consumer:
            is_new = apply(database, message.keys[0], int(message.body))
            print(message.keys[0], "booked" if is_new else "was booked before")
            left -= 1
            if not left:
                break
    (balance,) = database.execute("SELECT balance FROM account").fetchone()
    assert balance == 30
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"))
