"""Attributes of topics: which there are, and what a change of them may ask for.

The rules and texts are the original's (AttributeParser, AttributeUtil, TopicAttributes): creating a
topic can only add, ``queue.type`` and ``cleanup.policy`` never change afterwards, and adding one of
them later is a change too.  What this broker has no queues for is refused when a topic is created.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from contrailmq.errors import SystemFailure

QUEUE_TYPE: Final = "queue.type"
CLEANUP_POLICY: Final = "cleanup.policy"
MESSAGE_TYPE: Final = "message.type"
BATCH_QUEUE: Final = "BatchCQ"
COMPACTION: Final = "COMPACTION"


class Attribute(NamedTuple):
    """The values of one attribute, and whether they may change."""

    values: tuple[str, ...]
    is_changeable: bool


KNOWN: Final = {
    QUEUE_TYPE: Attribute(("SimpleCQ", BATCH_QUEUE), is_changeable=False),
    CLEANUP_POLICY: Attribute(("DELETE", COMPACTION), is_changeable=False),
    MESSAGE_TYPE: Attribute(
        ("UNSPECIFIED", "TRANSACTION", "FIFO", "MIXED", "DELAY", "NORMAL"), is_changeable=True
    ),
}


def altered(before: dict[str, str] | None, text: str | None) -> dict[str, str]:
    """A topic's attributes after ``+key=value`` (set) and ``-key`` (remove); None: a new topic.

    Raises the refusal the original has.  Like 5.2.0 it takes MIXED whatever
    ``enableMixedMessageType`` says: the check there never finds it.
    """
    changes = _parsed(text or "")
    added = {key: value for key, value in changes.items() if value is not None}
    removed = [key for key, value in changes.items() if value is None]
    if before is None and removed:
        raise SystemFailure(
            f"only add attribute is supported while creating topic. key: {removed[0]}"
        )
    for key in removed:
        if before is not None and key not in before:
            raise SystemFailure(f"attempt to delete a nonexistent key: {key}")
    for key in changes:
        attribute = KNOWN.get(key)
        if attribute is None:
            raise SystemFailure(f"unsupported key: {key}")
        if before is not None and not attribute.is_changeable:
            raise SystemFailure(f"attempt to update an unchangeable attribute. key: {key}")
        if key in added and added[key] not in attribute.values:
            raise SystemFailure(f"value is not in set: [{', '.join(attribute.values)}]")
    if added.get(CLEANUP_POLICY) == COMPACTION:
        raise SystemFailure(
            f"{CLEANUP_POLICY}={COMPACTION}: this broker does not compact topics; leave it out "
            "(all versions of a key are kept), or compact an archive with contrail compact"
        )
    kept = {key: value for key, value in (before or {}).items() if key not in removed}
    return {**kept, **added}


def _parsed(text: str) -> dict[str, str | None]:
    """Key to new value, None for one that is to go."""
    changes: dict[str, str | None] = {}
    for part in map(str.strip, text.split(",") if text else ()):
        name, separator, value = part.partition("=")
        if separator and "+" not in name:
            raise SystemFailure(f"add/alter attribute format is wrong: {name}")
        if not separator and "-" not in name:
            raise SystemFailure(f"delete attribute format is wrong: {name}")
        key = name[1:]
        if not key or "+" in key or "-" in key or (separator and not value):
            raise SystemFailure("kv string format wrong.")
        if name[0] not in "+-":
            raise SystemFailure(f"wrong format key: {key}")
        if key in changes:
            raise SystemFailure(f"alter duplication key. key: {key}")
        changes[key] = value if name[0] == "+" else None
    return changes
