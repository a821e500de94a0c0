"""Topics with known messages, and the rows a DataFrame should have of them."""

from __future__ import annotations

import json

from contrailmq import blocking

# Long enough for a machine that does much else: a send that is given up and tried again may be
# stored twice, and tests count what they have sent.
SETTINGS = blocking.ProducerSettings(send_timeout_s=60.0)
CLIENT = blocking.ClientSettings(call_timeout_s=30.0)


def send(name_servers: str, topic: str, numbers: range, *, size: int = 20) -> None:
    """Send numbered messages: JSON bodies, two tags, a key and two properties each."""
    with blocking.Producer(
        "spark_tests", name_servers=name_servers, settings=SETTINGS, client=CLIENT
    ) as producer:
        batch: list[blocking.Message] = []
        for number in numbers:
            body = json.dumps({"n": number, "pad": "x" * size}).encode()
            batch.append(
                blocking.Message(
                    topic,
                    body,
                    tags=f"t{number % 2}",
                    keys=[f"k{number}"],
                    properties={"n": str(number), "colour": "blue" if number % 3 else "red"},
                )
            )
            if len(batch) == 200:
                producer.send_batch(batch)
                batch = []
        if batch:
            producer.send_batch(batch)
