"""Subscription groups: what each may do, and which appear by themselves.

The table of ``subscriptionGroup.json``.  A group nobody made is made when somebody asks for it,
while ``autoCreateSubscriptionGroup`` holds; system groups always are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from contrailmq.broker.tables.revision import Revision
from contrailmq.broker.tables.versions import VersionCounter
from contrailmq.clock import Clock
from contrailmq.errors import InvalidParameter, SubscriptionGroupNotExist, SystemBusy
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from contrailmq.protocol.names import (
    TRANSACTION_GROUP,
    group_fault,
    is_lmq,
    is_system_group,
    stored_topic_fault,
)

GROUPS_MAX: Final = 100_000
FORBIDDEN_MAX: Final = 100_000  # pairs of a group and a topic
BROADCAST_PROXY_GROUP: Final = "CID_ONS-HTTP-PROXY"
INSTALLED_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    BROADCAST_PROXY_GROUP,
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)


class GroupTable:
    """Every subscription group of a broker. At most ``groups_max``."""

    def __init__(self, clock: Clock, revision: Revision, *, groups_max: int = GROUPS_MAX) -> None:
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        self._revision = revision
        self._groups_max = groups_max
        self.version = VersionCounter(clock)
        self.has_lights = False  # groups %LMQ%… exist without being made
        self.on_change: Callable[[str], None] = lambda group: None

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """A group that exists already, or None."""
        config = self._table.get(group)
        if config is None and self.has_lights and is_lmq(group):
            config = SubscriptionGroupConfig(group_name=group)
        return config

    def find_or_create(self, group: str, *, auto_create: bool) -> SubscriptionGroupConfig | None:
        """A group, made now if the rules allow it, or None."""
        config = self.find(group)
        if config is None and (auto_create or is_system_group(group)) and not group_fault(group):
            config = SubscriptionGroupConfig(group_name=group)
            self.put(config)
        return config

    def get_or_create(self, group: str, *, auto_create: bool) -> SubscriptionGroupConfig:
        """A group, made now if the rules allow it; raises SubscriptionGroupNotExist."""
        config = self._table.get(group)
        if config is None:
            config = self.find_or_create(group, auto_create=auto_create)
        if config is None:
            raise SubscriptionGroupNotExist(f"subscription group [{group}] does not exist")
        return config

    def put(self, config: SubscriptionGroupConfig) -> bool:
        """Add or replace a group; False when nothing changed. A light one is as it is."""
        name = config.group_name
        if self.has_lights and is_lmq(name):
            return False
        if self._table.get(name) == config:
            return False
        if name not in self._table and len(self._table) >= self._groups_max:
            raise SystemBusy(f"{len(self._table)} groups exist, at most {self._groups_max}")
        self._table[name] = config
        self._changed(name)
        return True

    def delete(self, group: str) -> bool:
        """Remove a group; False when it was not there."""
        self._forbidden.pop(group, None)
        if self._table.pop(group, None) is None:
            return False
        self._changed(group)
        return True

    def enable(self, group: str, *, consume: bool) -> None:
        """Let a group consume, or stop it."""
        config = self._table.get(group)
        if config is not None:
            self.put(msgspec.structs.replace(config, consume_enable=consume))

    def install_system_groups(self) -> None:
        """Make the groups every broker has, where the file did not have them."""
        for name in INSTALLED_GROUPS:
            if name not in self._table:
                broadcast = name == BROADCAST_PROXY_GROUP
                config = SubscriptionGroupConfig(group_name=name)
                if broadcast:
                    config = msgspec.structs.replace(config, consume_broadcast_enable=True)
                self.put(config)

    def forbidden(self, group: str, topic: str) -> int:
        """The forbidden bits of a group in a topic (5.x); bit 0 is reading."""
        return self._forbidden.get(group, {}).get(topic, 0)

    def forbid(self, group: str, topic: str, bits: int) -> None:
        """Set the forbidden bits of a group in a topic; 0 removes them."""
        table = self._forbidden.get(group, {})
        if bits and topic not in table:
            fault = group_fault(group) or stored_topic_fault(topic)
            if fault:
                raise InvalidParameter(fault)
            count = sum(map(len, self._forbidden.values()))
            if count >= FORBIDDEN_MAX:
                raise SystemBusy(f"{count} topics are forbidden, at most {FORBIDDEN_MAX}")
        table = self._forbidden.setdefault(group, {})
        if bits:
            table[topic] = bits
        else:
            table.pop(topic, None)
        if not table:
            self._forbidden.pop(group, None)
        self._changed(group)

    def wrapper(self) -> SubscriptionGroupWrapper:
        """The whole table as ``subscriptionGroup.json`` and code 201 have it."""
        return SubscriptionGroupWrapper(
            data_version=self.version.value,
            forbidden_table={group: dict(table) for group, table in self._forbidden.items()},
            subscription_group_table=dict(self._table),
        )

    def load(self, wrapper: SubscriptionGroupWrapper) -> None:
        """Take over what a file, or a primary broker, holds."""
        self._table = dict(wrapper.subscription_group_table)
        self._forbidden = {
            group: dict(table) for group, table in (wrapper.forbidden_table or {}).items()
        }
        self.version.value = wrapper.data_version
        self._revision.bump()

    def names(self) -> Iterator[str]:
        """Every group's name, in the order they came."""
        yield from self._table

    def _changed(self, group: str) -> None:
        self.version.bump()
        self._revision.bump()
        self.on_change(group)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<GroupTable groups={len(self._table)} version={self.version.value}>"
