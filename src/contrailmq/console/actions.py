"""Everything that changes something: one function checks, does and notes it.

``Actions.act`` is the only way in.  It refuses all of them when the console is read-only, demands
the name of what is lost where something is lost (``confirm``), and writes one line per action: who,
from where, what, with which outcome.  The cluster checks the account's rights itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from contrailmq.console.desk import Desk
from contrailmq.console.groups_api import preview_rows, read_target
from contrailmq.console.sending import Sending, SendOrder
from contrailmq.console.settings import ConsoleSettings
from contrailmq.console.web import Refused, answer, desk_of, session_of
from contrailmq.errors import ContrailError
from contrailmq.protocol.bodies.group import SubscriptionGroupConfig
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.headers.acl import CreateAccessConfigRequest
from contrailmq.protocol.names import group_fault, stored_topic_fault
from contrailmq.protocol.queue import MessageQueue
from contrailmq.settings import is_guarded, value_fault

audit = logging.getLogger("contrailmq.console.audit")

QUEUES_MAX: Final = 1024
NOTE_LENGTH_MAX: Final = 300


class TopicOrder(msgspec.Struct, kw_only=True):
    """A topic to create or to change."""

    topic: str
    queues: int = 8
    perm: int = 6
    kind: str = ""
    confirm: str = ""


class GroupOrder(msgspec.Struct, kw_only=True):
    """A group to create, change or delete."""

    group: str
    retries: int = 16
    enabled: bool = True
    confirm: str = ""


class ResetOrder(msgspec.Struct, kw_only=True):
    """Where a group is to go on in a topic; ``queue`` and ``offset`` are of one queue alone."""

    group: str
    topic: str
    to: str = ""
    queue: str = ""
    offset: int = -1
    confirm: str = ""


class CloneOrder(msgspec.Struct, kw_only=True):
    """A group that gets the offsets of another."""

    source: str
    target: str
    topic: str
    confirm: str = ""


class ResendOrder(msgspec.Struct, kw_only=True):
    """Messages to send again: places ``broker/queue:offset`` of a topic; "" is where it was."""

    topic: str
    places: list[str]
    to: str = ""


class SettingOrder(msgspec.Struct, kw_only=True):
    """A setting of a broker."""

    address: str
    key: str
    value: str


class AccountOrder(msgspec.Struct, kw_only=True):
    """An account to make, change or remove on all masters."""

    name: str
    secret: str = ""
    admin: bool = False
    topics: str = ""
    groups: str = ""
    confirm: str = ""


class DirectOrder(msgspec.Struct, kw_only=True):
    """A message that one connected client is to consume now."""

    group: str
    client: str
    topic: str
    id: str


Done = dict[str, Any]
Act = Callable[[Desk, Any], Awaitable[Done]]


class Actions:
    """The actions by name."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        sending = Sending()
        self._acts: dict[str, tuple[type[Any], Act]] = {
            "topic-put": (TopicOrder, _put_topic),
            "topic-delete": (TopicOrder, _delete_topic),
            "group-put": (GroupOrder, _put_group),
            "group-delete": (GroupOrder, _delete_group),
            "reset": (ResetOrder, _reset),
            "clone": (CloneOrder, _clone),
            "send": (SendOrder, sending.send),
            "resend": (ResendOrder, sending.resend),
            "setting": (SettingOrder, _change_setting),
            "account-put": (AccountOrder, _put_account),
            "account-delete": (AccountOrder, _delete_account),
            "consume-directly": (DirectOrder, _consume_directly),
        }

    @property
    def names(self) -> list[str]:
        """All actions there are."""
        return sorted(self._acts)

    async def act(self, request: Request) -> Response:
        """Do one action, or refuse it; noted either way."""
        name = request.path_params["action"]
        if name not in self._acts:
            raise Refused(f"there is no action {name[:40]!r}", 404)
        if self._settings.read_only:
            raise Refused("this console is read-only: it was started with --read-only", 403)
        kind, do = self._acts[name]
        try:
            order = msgspec.json.decode(await request.body(), type=kind)
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise Refused(f"{name}: {error}") from error
        who = session_of(request).account or "anonymous"
        peer = request.client.host if request.client else ""
        try:
            desk = desk_of(request)
            await desk.view.fresh()
            done = await do(desk, order)
        except ContrailError as error:
            _note(name, order, who=who, peer=peer, outcome=f"refused: {error}")
            raise
        _note(name, order, who=who, peer=peer, outcome="done")
        return answer(done)


def _note(name: str, order: Any, *, who: str, peer: str, outcome: str) -> None:
    what = {
        key: value
        for key, value in msgspec.to_builtins(order).items()
        if key not in ("secret", "body", "confirm") and value not in ("", [], {})
    }
    audit.info(
        "action=%s who=%s peer=%s what=%s outcome=%s",
        name, who, peer, str(what)[:NOTE_LENGTH_MAX], outcome[:NOTE_LENGTH_MAX],
    )  # fmt: skip


def _confirmed(given: str, name: str) -> None:
    if given != name:
        raise Refused(f"type the name {name!r} to confirm; {given[:80]!r} was given")


async def _put_topic(desk: Desk, order: TopicOrder) -> Done:
    fault = stored_topic_fault(order.topic)
    if fault is not None:
        raise Refused(fault)
    if not 1 <= order.queues <= QUEUES_MAX or order.perm not in (2, 4, 6):
        raise Refused(f"queues={order.queues} perm={order.perm}: expected 1 to {QUEUES_MAX} "
                      "queues and a permission of 2, 4 or 6")  # fmt: skip
    known = desk.view.topics.get(order.topic)
    results = {}
    for name, address in desk.view.masters.items():
        before = known.configs.get(name) if known is not None else None
        config = TopicConfig(
            topic_name=order.topic, read_queue_nums=order.queues, write_queue_nums=order.queues,
            perm=order.perm, order=before.order if before is not None else False,
        )  # fmt: skip
        attributes = f"+message.type={order.kind.upper()}" if order.kind and not before else None
        results[name] = await _outcome(
            desk.admin.topics.create_at(address, config, attributes=attributes)
        )
    await desk.view.tables()
    return {"results": results}


async def _delete_topic(desk: Desk, order: TopicOrder) -> Done:
    _confirmed(order.confirm, order.topic)
    if order.topic not in desk.view.topics:
        raise Refused(f"there is no topic {order.topic!r}", 404)
    masters = await desk.admin.topics.delete(order.topic)
    await desk.view.tables()
    return {"results": dict.fromkeys(masters, "deleted")}


async def _put_group(desk: Desk, order: GroupOrder) -> Done:
    fault = group_fault(order.group)
    if fault is not None:
        raise Refused(fault)
    known = desk.view.groups.get(order.group)
    results = {}
    for name, address in desk.view.masters.items():
        config = known.configs.get(name) if known is not None else None
        config = config or SubscriptionGroupConfig(group_name=order.group)
        config.retry_max_times = order.retries
        config.consume_enable = order.enabled
        results[name] = await _outcome(desk.admin.groups.create_at(address, config))
    await desk.view.tables()
    return {"results": results}


async def _delete_group(desk: Desk, order: GroupOrder) -> Done:
    _confirmed(order.confirm, order.group)
    results = {}
    for name, address in desk.view.masters.items():
        results[name] = await _outcome(
            desk.admin.groups.delete_at(address, order.group, offsets=True)
        )
    await desk.view.tables()
    return {"results": results}


async def _reset(desk: Desk, order: ResetOrder) -> Done:
    _confirmed(order.confirm, order.group)
    if order.queue:
        broker, _, number = order.queue.rpartition("/")
        if broker not in desk.view.addresses or not number.isdecimal() or order.offset < 0:
            raise Refused(f"queue={order.queue!r} offset={order.offset}: expected broker/number")
        queue = MessageQueue(order.topic, broker, int(number))
        await desk.admin.offsets.reset_queue(queue, order.group, order.offset)
    else:
        target = read_target(order.to)
        moment_ms = {"first": 0, "last": -1}.get(str(target), target)
        assert isinstance(moment_ms, int)
        await desk.admin.offsets.reset_anyhow(order.topic, order.group, moment_ms)
    await desk.view.tables()
    group = desk.view.groups.get(order.group)
    rows = await preview_rows(desk, group, order.topic, "last") if group is not None else []
    after = {f"{row['broker']}/{row['queue']}": row["before"] for row in rows}
    desk.history.add(f"reset:{order.group}", desk.view.now_ms(), 1)
    return {"results": after}


async def _clone(desk: Desk, order: CloneOrder) -> Done:
    _confirmed(order.confirm, order.target)
    await desk.admin.offsets.clone(order.source, order.target, order.topic, offline=True)
    await desk.view.tables()
    return {"results": {order.topic: f"{order.target} has the offsets of {order.source}"}}


async def _change_setting(desk: Desk, order: SettingOrder) -> Done:
    if order.address not in {member.address for member in desk.view.members}:
        raise Refused(f"no broker is registered at {order.address[:80]!r}", 404)
    fault = value_fault(order.key, order.value)
    if is_guarded(order.key):
        fault = f"{order.key} names a path, an address or a matter of security; edit broker.conf"
    if fault is not None:
        raise Refused(fault)
    before = (await desk.admin.brokers.config(order.address)).get(order.key, "")
    await desk.admin.brokers.update_config(order.address, {order.key: order.value})
    after = (await desk.admin.brokers.config(order.address)).get(order.key, "")
    return {"results": {order.key: f"{before} → {after}"}}


async def _put_account(desk: Desk, order: AccountOrder) -> Done:
    header = CreateAccessConfigRequest(
        access_key=order.name,
        secret_key=order.secret or None,
        admin=order.admin,
        topic_perms=order.topics or None,
        group_perms=order.groups or None,
    )
    results = {}
    for name, address in desk.view.masters.items():
        results[name] = await _outcome(desk.admin.accounts.put(address, header))
    return {"results": results}


async def _delete_account(desk: Desk, order: AccountOrder) -> Done:
    _confirmed(order.confirm, order.name)
    results = {}
    for name, address in desk.view.masters.items():
        results[name] = await _outcome(desk.admin.accounts.remove(address, order.name))
    return {"results": results}


async def _consume_directly(desk: Desk, order: DirectOrder) -> Done:
    record = await desk.admin.messages.view(order.id, topic=order.topic)
    found = await desk.admin.groups.consume_directly(
        record.store_host, order.group, client_id=order.client, topic=order.topic,
        message_id=order.id,
    )  # fmt: skip
    told = f"{found.consume_result or 'no result'} in {found.spent_time_mills} ms"
    return {"results": {order.client: f"{told} {found.remark or ''}".strip()}}


async def _outcome(work: Awaitable[Any]) -> str:
    try:
        await work
    except ContrailError as error:
        return f"failed: {error}"
    return "done"
