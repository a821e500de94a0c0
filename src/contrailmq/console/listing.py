"""Lists of topics and groups: filtered and sorted here, handed out in windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from contrailmq.console.cluster import Group, Topic
from contrailmq.console.desk import Desk
from contrailmq.console.web import Refused
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group

T = TypeVar("T")

TOPIC_SORTS: Final = ("name", "kind", "queues", "messages", "rate", "last", "groups", "lag")
GROUP_SORTS: Final = ("name", "state", "topics", "lag", "retry", "dead")
OWN_KINDS: Final = ("retry", "dlq", "system")


class Window(NamedTuple):
    """The part of a list that is asked for: ``sort`` is a column, with ``-`` the largest first."""

    offset: int
    limit: int
    sort: str
    words: str
    kind: str


def chosen_topics(desk: Desk, window: Window) -> list[Topic]:
    """Topics of a kind ("" is what users made, "all" is all) with the words in their name."""
    kind = window.kind
    found = desk.view.topics.values()
    if kind == "all":
        chosen = list(found)
    elif kind:
        chosen = [topic for topic in found if topic.kind == kind]
    else:
        chosen = [topic for topic in found if topic.kind not in OWN_KINDS]
    chosen = _matching(chosen, window.words)
    column, is_down = _column(window.sort, TOPIC_SORTS)
    return _sorted(chosen, _topic_key(desk, column), is_down=is_down)


def topic_row(desk: Desk, topic: Topic) -> dict[str, Any]:
    """One topic as the list shows it; figures that are not known yet are None."""
    ends = desk.view.ends.get(topic.name)
    config = next(iter(topic.configs.values()))
    return {
        "name": topic.name,
        "kind": topic.kind,
        "queues": topic.queues,
        "brokers": sorted(topic.configs),
        "perm": _perm(config),
        "messages": None if ends is None else ends.count,
        "rate": None if ends is None else ends.rate,
        "last": None if ends is None else ends.last_ms,
        "groups": len(topic.groups),
        "lag": worst_lag(desk, topic),
        "trend": [value for _, value in desk.history.points(f"rate:{topic.name}")[-30:]],
    }


def worst_lag(desk: Desk, topic: Topic) -> int | None:
    """The largest lag of a group in a topic; None if there is no group or it is not known."""
    groups = (desk.view.groups[name] for name in topic.groups if name in desk.view.groups)
    lags = [lag for group in groups if (lag := desk.view.lag(group, topic.name)) is not None]
    return max(lags, default=None)


def chosen_groups(desk: Desk, window: Window) -> list[Group]:
    """Groups of a state with the words in their name; without a state all but the system's."""
    chosen = [group for group in desk.view.groups.values() if not is_system_group(group.name)]
    if window.kind:
        chosen = [group for group in chosen if state_of(desk, group) == window.kind]
    chosen = _matching(chosen, window.words)
    column, is_down = _column(window.sort, GROUP_SORTS)
    return _sorted(chosen, _group_key(desk, column), is_down=is_down)


def group_row(desk: Desk, group: Group) -> dict[str, Any]:
    """One group as the list shows it."""
    return {
        "name": group.name,
        "state": state_of(desk, group),
        "topics": sum(not name.startswith(RETRY_PREFIX) for name in group.committed),
        "lag": desk.view.lag(group),
        "retry": retries(desk, group),
        "dead": dead_letters(desk, group.name),
        "trend": [value for _, value in desk.history.points(f"lag:{group.name}")[-30:]],
    }


def state_of(desk: Desk, group: Group) -> str:
    """never (no offset), stuck (behind and not moving), behind, or even."""
    if not group.committed:
        return "never"
    if desk.is_stuck(group.name):
        return "stuck"
    return "behind" if desk.view.lag(group) else "even"


def retries(desk: Desk, group: Group) -> int:
    """Messages that wait in a group's retry topics."""
    names = (name for name in group.committed if name.startswith(RETRY_PREFIX))
    return sum(desk.view.lag(group, name) or 0 for name in names)


def dead_letters(desk: Desk, group: str) -> int | None:
    """Messages in a group's dead-letter topic; None if that is not known yet."""
    topic = DLQ_PREFIX + group
    if topic not in desk.view.topics:
        return 0
    ends = desk.view.ends.get(topic)
    return None if ends is None else ends.count


def cut(rows: Sequence[T], window: Window) -> Sequence[T]:
    """The rows of a window."""
    return rows[window.offset : window.offset + window.limit]


def _column(sort: str, known: Iterable[str]) -> tuple[str, bool]:
    column = sort.removeprefix("-")
    if column not in known:
        raise Refused(f"sort={sort!r}: expected one of {', '.join(known)}, with - before it")
    return column, sort.startswith("-")


def _matching(rows: list[Any], words: str) -> list[Any]:
    for word in words.lower().split():
        rows = [row for row in rows if word in row.name.lower()]
    return rows


def _sorted(rows: list[T], key: Callable[[T], Any], *, is_down: bool) -> list[T]:
    return sorted(rows, key=key, reverse=is_down)


def _topic_key(desk: Desk, column: str) -> Callable[[Topic], Any]:
    ends = desk.view.ends

    def figure(topic: Topic, name: str) -> float:
        known = ends.get(topic.name)
        if known is None:
            return -1.0
        found = {"messages": known.count, "rate": known.rate, "last": known.last_ms}[name]
        return -1.0 if found is None else float(found)

    keys: dict[str, Callable[[Topic], Any]] = {
        "name": lambda topic: topic.name,
        "kind": lambda topic: (topic.kind, topic.name),
        "queues": lambda topic: topic.queues,
        "groups": lambda topic: len(topic.groups),
        "lag": lambda topic: worst_lag(desk, topic) or 0,
    }
    return keys.get(column, lambda topic: figure(topic, column))


def _group_key(desk: Desk, column: str) -> Callable[[Group], Any]:
    keys: dict[str, Callable[[Group], Any]] = {
        "name": lambda group: group.name,
        "state": lambda group: (state_of(desk, group), group.name),
        "topics": lambda group: len(group.committed),
        "lag": lambda group: desk.view.lag(group) or 0,
        "retry": lambda group: retries(desk, group),
        "dead": lambda group: dead_letters(desk, group.name) or 0,
    }
    return keys[column]


def _perm(config: TopicConfig) -> str:
    return {6: "read, write", 4: "read only", 2: "write only"}.get(config.perm & 6, "closed")
