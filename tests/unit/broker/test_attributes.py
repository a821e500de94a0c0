"""Attributes of topics: the original's rules and its words."""

from __future__ import annotations

import pytest

from contrailmq.broker.tables.attributes import altered
from contrailmq.errors import SystemFailure


def test_attributes_are_added_changed_and_removed() -> None:
    made = altered(None, "+message.type=FIFO,+queue.type=SimpleCQ")
    assert made == {"message.type": "FIFO", "queue.type": "SimpleCQ"}
    assert altered(made, None) == made
    assert altered(made, "") == made
    changed = altered(made, "+message.type=DELAY")
    assert changed == {"message.type": "DELAY", "queue.type": "SimpleCQ"}
    assert altered(changed, "-message.type") == {"queue.type": "SimpleCQ"}
    assert altered(None, "+message.type=MIXED") == {"message.type": "MIXED"}


@pytest.mark.parametrize(
    ("before", "text", "told"),
    [
        (None, "+no.such=1", "unsupported key: no.such"),
        ({}, "+no.such=1", "unsupported key: no.such"),
        (None, "message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        (None, "message.type", "delete attribute format is wrong: message.type"),
        (None, "-message.type", "only add attribute is supported while creating topic."),
        ({}, "-message.type", "attempt to delete a nonexistent key: message.type"),
        ({}, "+queue.type=BatchCQ", "attempt to update an unchangeable attribute. key: queue.type"),
        (
            {"message.type": "FIFO"},
            "+message.type=NORMAL,+cleanup.policy=DELETE",
            "attempt to update an unchangeable attribute. key: cleanup.policy",
        ),
        (None, "+message.type=BLUE", "value is not in set: [UNSPECIFIED, TRANSACTION, FIFO,"),
        (None, " ", "delete attribute format is wrong: "),
        (None, "+message.type=FIFO,+message.type=DELAY", "alter duplication key."),
        (None, "+message.type=", "kv string format wrong."),
        (None, "+=x", "kv string format wrong."),
        (None, "+cleanup.policy=COMPACTION", "does not compact"),
    ],
)
def test_what_is_wrong_is_told_in_the_originals_words(
    before: dict[str, str] | None, text: str, told: str
) -> None:
    with pytest.raises(SystemFailure) as caught:
        altered(before, text)
    assert told in str(caught.value)
