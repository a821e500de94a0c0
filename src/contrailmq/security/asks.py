"""What the policies of 5.3 may grant of what else only an administrator does.

A code that is not here stays the administrators': a policy cannot give away what it cannot name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from contrailmq.protocol.codes import RequestCode as C
from contrailmq.protocol.command import Command


class Ask(NamedTuple):
    """Any one of some actions on one resource."""

    kind: str
    name: str
    actions: tuple[str, ...]


Asked = Callable[[Command, str], list[Ask]]


def asks_of(request: Command, cluster: str) -> list[Ask] | None:
    """What a policy must allow for an administrative request; None: no policy does."""
    asked = ASKS.get(request.code)
    return None if asked is None else asked(request, cluster)


def _on(kind: str, field: str, action: str) -> Asked:
    return lambda request, cluster: [Ask(kind, request.fields.get(field, ""), (action,))]


def _cluster(action: str) -> Asked:
    return lambda request, cluster: [Ask("Cluster", cluster, (action,))]


def _reset(request: Command, cluster: str) -> list[Ask]:
    fields = request.fields
    return [
        Ask("Topic", fields.get("topic", ""), ("Update",)),
        Ask("Group", fields.get("group", ""), ("Update",)),
    ]


ASKS: Final[dict[int, Asked]] = {
    C.UPDATE_AND_CREATE_TOPIC: _on("Topic", "topic", "Create"),
    C.DELETE_TOPIC_IN_BROKER: _on("Topic", "topic", "Delete"),
    C.DELETE_SUBSCRIPTIONGROUP: _on("Group", "groupName", "Delete"),
    C.INVOKE_BROKER_TO_RESET_OFFSET: _reset,
    C.GET_PRODUCER_CONNECTION_LIST: _cluster("Get"),
    C.VIEW_BROKER_STATS_DATA: _cluster("Get"),
    C.GET_ALL_PRODUCER_INFO: _cluster("Get"),
    C.AUTH_CREATE_USER: _cluster("Update"),
    C.AUTH_UPDATE_USER: _cluster("Update"),
    C.AUTH_DELETE_USER: _cluster("Update"),
    C.AUTH_CREATE_ACL: _cluster("Update"),
    C.AUTH_UPDATE_ACL: _cluster("Update"),
    C.AUTH_DELETE_ACL: _cluster("Update"),
    C.AUTH_GET_USER: _cluster("Get"),
    C.AUTH_LIST_USER: _cluster("Get"),
    C.AUTH_GET_ACL: _cluster("Get"),
    C.AUTH_LIST_ACL: _cluster("Get"),
}
# Actions that do as well as Pub or Sub for some requests.
AS_WELL: Final[dict[int, tuple[str, ...]]] = {
    C.QUERY_MESSAGE: ("Get",),
    C.QUERY_CONSUMER_OFFSET: ("Get",),
    C.UPDATE_CONSUMER_OFFSET: ("Update",),
    C.GET_CONSUMER_LIST_BY_GROUP: ("Get",),
    C.GET_CONSUME_STATS: ("Get",),
    C.GET_CONSUMER_CONNECTION_LIST: ("Get",),
    C.VIEW_MESSAGE_BY_ID: ("Get",),
}
