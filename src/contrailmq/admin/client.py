"""The typed administration client: every call an operator's tool makes.

``async with AdminClient("127.0.0.1:9876") as admin: print(await admin.topics.names())``. The calls
are in families, one module each: ``admin.topics``, ``admin.groups``, ``admin.offsets``,
``admin.messages``, ``admin.brokers``, ``admin.accounts``, ``admin.users`` and ``admin.names`` (name
servers).
"""

from __future__ import annotations

from collections.abc import Sequence

from contrailmq.admin.account_calls import AccountCalls
from contrailmq.admin.broker_calls import BrokerCalls
from contrailmq.admin.caller import CALL_TIMEOUT_S, AdminCaller
from contrailmq.admin.group_calls import GroupCalls
from contrailmq.admin.message_calls import MessageCalls
from contrailmq.admin.names_calls import NameServerCalls
from contrailmq.admin.offset_calls import OffsetCalls
from contrailmq.admin.old_names import CALLED, add_old_names, callable_family
from contrailmq.admin.topic_calls import TopicCalls
from contrailmq.admin.user_calls import UserCalls
from contrailmq.client.settings import ClientSettings, World


class AdminClient(AdminCaller):
    """A connection to a cluster and all calls of administration, by family."""

    def __init__(
        self,
        name_servers: str | Sequence[str] | None = None,
        *,
        settings: ClientSettings | None = None,
        world: World | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        super().__init__(name_servers, settings=settings, world=world, timeout_s=timeout_s)
        self.names = NameServerCalls(self)
        self.topics: TopicCalls = _CALLABLE["topics"](self, self.names)
        self.groups: GroupCalls = _CALLABLE["groups"](self)
        self.offsets = OffsetCalls(self, self.groups, self.topics)
        self.messages = MessageCalls(self)
        self.brokers: BrokerCalls = _CALLABLE["brokers"](self)
        self.accounts = AccountCalls(self)
        self.users = UserCalls(self)


_FAMILIES = {"topics": TopicCalls, "groups": GroupCalls, "brokers": BrokerCalls}
_CALLABLE = {name: callable_family(_FAMILIES[name], name) for name in CALLED}
add_old_names(AdminClient)
