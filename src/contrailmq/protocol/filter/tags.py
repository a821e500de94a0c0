"""Tag expressions: ``*`` for everything, or tags with ``||`` between them.

A broker compares hash codes, which are in its queues; a consumer then compares the tags
themselves, since different tags can have one code.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from contrailmq.errors import FilterError
from contrailmq.protocol.bodies.heartbeat import SubscriptionData
from contrailmq.protocol.ids import tags_code

ALL: Final = "*"
TYPE_TAG: Final = "TAG"
TYPE_SQL92: Final = "SQL92"


class TagFilter(NamedTuple):
    """A parsed tag expression; no tags and no codes under ``*``."""

    expression: str
    tags: tuple[str, ...]
    codes: tuple[int, ...]

    @property
    def is_all(self) -> bool:
        """Whether every message matches."""
        return self.expression == ALL

    @property
    def tag_codes(self) -> frozenset[int] | None:
        """The codes of a queue that may match; None means all."""
        return None if self.is_all else frozenset(self.codes)

    def matches(self, tags: str | None) -> bool:
        """Whether a message with this TAGS property matches, beyond its code."""
        return self.is_all or (tags is not None and tags in self.tags)


def parse_tags(expression: str | None) -> TagFilter:
    """Parse a tag expression; None and the empty string mean all."""
    if expression is None or expression in ("", ALL):
        return TagFilter(ALL, (), ())
    # FilterAPI.buildSubscriptionData: String.split drops the empty pieces at the end.
    if not expression.replace("||", ""):
        raise FilterError("subString split error", position=0)
    tags = dict.fromkeys(piece.strip() for piece in expression.split("||"))
    tags.pop("", None)
    return TagFilter(expression, tuple(tags), tuple(dict.fromkeys(map(tags_code, tags))))


def build_subscription(
    topic: str, expression: str | None, *, expression_type: str = TYPE_TAG, version_ms: int = 0
) -> SubscriptionData:
    """The subscription a consumer sends; an SQL text is not compiled here."""
    if expression_type != TYPE_TAG:
        return SubscriptionData(
            topic=topic,
            sub_string=expression or "",
            expression_type=expression_type,
            sub_version=version_ms,
        )
    tags = parse_tags(expression)
    return SubscriptionData(
        topic=topic,
        sub_string=tags.expression,
        tags_set=list(tags.tags),
        code_set=list(tags.codes),
        sub_version=version_ms,
    )
