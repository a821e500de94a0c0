"""The flat method names of 0.1, kept until 0.3: ``admin.topic_stats`` is ``admin.topics.stats``."""

from __future__ import annotations

import operator
import warnings
from typing import Any, Final

# Calls that had the name of a family: admin.topics() is admin.topics.names().
CALLED: Final = {"topics": "names", "groups": "names", "brokers": "members"}
RENAMED: Final = {
    "topics_of_cluster": "topics.of_cluster",
    "system_topics": "topics.system",
    "system_topics_at": "topics.system_at",
    "topic_configs": "topics.configs",
    "topic_config": "topics.config",
    "create_topic": "topics.create_at",
    "create_topic_everywhere": "topics.create",
    "delete_topic_at": "topics.delete_at",
    "delete_topic": "topics.delete",
    "topic_stats_at": "topics.stats_at",
    "topic_stats": "topics.stats",
    "clusters_of": "topics.clusters",
    "groups_of_topic": "topics.groups",
    "order_conf": "topics.order_conf",
    "put_order_conf": "topics.put_order_conf",
    "delete_order_conf": "topics.delete_order_conf",
    "group_configs": "groups.configs",
    "group_config": "groups.config",
    "create_group": "groups.create_at",
    "create_group_everywhere": "groups.create",
    "delete_group": "groups.delete_at",
    "group_forbidden": "groups.forbidden",
    "set_consume_mode": "groups.set_consume_mode",
    "group_addresses": "groups.addresses",
    "consumer_connection_at": "groups.connection_at",
    "consumer_connection": "groups.connection",
    "producer_connection": "groups.producer_connection",
    "producers": "groups.producers",
    "running_info": "groups.running_info",
    "consume_directly": "groups.consume_directly",
    "topics_of_group": "groups.topics",
    "subscription_of": "groups.subscription",
    "consume_stats_at": "offsets.stats_at",
    "consume_stats": "offsets.stats",
    "broker_consume_stats": "offsets.broker_stats",
    "time_spans": "offsets.time_spans",
    "reset_offset": "offsets.reset",
    "reset_queue_offset": "offsets.reset_queue",
    "reset_offset_offline": "offsets.reset_offline",
    "reset_offset_anyhow": "offsets.reset_anyhow",
    "consumer_status": "offsets.consumer_status",
    "clone_offsets": "offsets.clone",
    "correction_offsets": "offsets.correction",
    "all_offsets": "offsets.table",
    "delay_offsets": "offsets.delay_levels",
    "committed": "offsets.committed",
    "commit": "offsets.commit",
    "max_offset": "offsets.end",
    "min_offset": "offsets.first",
    "offset_at": "offsets.at_time",
    "earliest_time": "offsets.earliest_time",
    "view_message": "messages.view",
    "message_at": "messages.at",
    "query_by_key": "messages.by_key",
    "query_by_unique_key": "messages.by_unique_key",
    "pull": "messages.pull",
    "message_in_queue": "messages.in_queue",
    "consume_queue": "messages.consume_queue",
    "broker_runtime": "brokers.runtime",
    "broker_config": "brokers.config",
    "update_broker_config": "brokers.update_config",
    "stats_item": "brokers.stats_item",
    "clean_expired_queues": "brokers.clean_expired_queues",
    "delete_expired_log": "brokers.delete_expired_log",
    "clean_unused_topics": "brokers.clean_unused_topics",
    "resume_half_message": "brokers.resume_half_message",
    "ha_status": "brokers.ha_status",
    "request_modes": "brokers.request_modes",
    "kv_get": "names.kv_get",
    "kv_list": "names.kv_list",
    "kv_put": "names.kv_put",
    "kv_delete": "names.kv_delete",
    "name_server_config": "names.config",
    "update_name_server_config": "names.update_config",
    "wipe_write_permission": "names.wipe_write_permission",
    "add_write_permission": "names.add_write_permission",
    "broker_members": "names.broker_members",
}


class OldName:
    """An attribute of the client that leads to the new place, with a DeprecationWarning."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new

    def __get__(self, admin: Any, owner: type) -> Any:
        if admin is None:
            return self
        warn(self._old, self._new)
        return operator.attrgetter(self._new)(admin)


def warn(old: str, new: str) -> None:
    """Tell the caller's caller to use the new name."""
    text = f"AdminClient.{old} is now AdminClient.{new}; the old name goes with 0.3"
    warnings.warn(text, DeprecationWarning, stacklevel=3)


def add_old_names(client: type) -> None:
    """Give a client class the old names; type checkers see only the new ones."""
    for old, new in RENAMED.items():
        setattr(client, old, OldName(old, new))


def callable_family(family: type, name: str) -> type:
    """Return a subclass whose instances can be called as the method of that name was in 0.1."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        warn(name, f"{name}.{CALLED[name]}")
        return getattr(self, CALLED[name])(*args, **kwargs)

    return type(family.__name__, (family,), {"__call__": call, "__doc__": family.__doc__})
