"""What a command of mqadmin is here: options by letter and name, and a coroutine that prints.

Columns and texts are those of 4.9.7's tool, for scripts that read them; where its order is that of
a hash table, ours is sorted.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TextIO

from contrailmq.admin.client import AdminClient
from contrailmq.errors import RemoteProtocolError, UsageError
from contrailmq.protocol.bodies.group import GroupRetryPolicy
from contrailmq.protocol.message import Record
from contrailmq.usage import whole

Act = Callable[[AdminClient, argparse.Namespace, TextIO], Awaitable[int | None]]


class Option(NamedTuple):
    """``-t, --topic``; ``switch`` takes no value."""

    letter: str
    name: str
    help: str = ""
    required: bool = False
    default: Any = None
    switch: bool = False
    kind: Callable[[str], Any] | None = None


class AdminCommand(NamedTuple):
    """One command: what it is for, what it takes, what it does."""

    summary: str
    options: tuple[Option, ...]
    act: Act


def need(letter: str, name: str, text: str = "") -> Option:
    """An option that must be given."""
    return Option(letter, name, text, required=True)


def may(letter: str, name: str, text: str = "", default: Any = None) -> Option:
    """An option that may be given."""
    return Option(letter, name, text, default=default)


def switch(letter: str, name: str, text: str = "") -> Option:
    """An option without a value."""
    return Option(letter, name, text, switch=True)


def integer(option: Option) -> Option:
    """An option that is a whole number."""
    return option._replace(kind=whole(None))


def moment(option: Option) -> Option:
    """An option that ``moment_of`` understands."""
    return option._replace(kind=_moment_text)


def _moment_text(text: str) -> str:
    try:
        moment_of(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


async def targets(admin: AdminClient, options: argparse.Namespace) -> list[str]:
    """The masters ``-b`` (an address) or ``-c`` (a cluster) name; raises without either."""
    broker = getattr(options, "brokerAddr", None)
    if broker is not None:
        return [broker]
    cluster = getattr(options, "clusterName", None)
    if cluster is not None:
        return list((await admin.masters(cluster)).values())
    raise UsageError("give -b, the address of a broker, or -c, the name of a cluster")


async def all_or(admin: AdminClient, options: argparse.Namespace) -> list[str]:
    """As ``targets``; without either option all masters."""
    if getattr(options, "brokerAddr", None) is None and options.clusterName is None:
        return list((await admin.masters()).values())
    return await targets(admin, options)


def moment_text(timestamp_ms: int) -> str:
    """As UtilAll.timeMillisToHumanString2 writes a moment; nothing for 0."""
    if timestamp_ms <= 0:
        return ""
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)  # beyond the calendar
    return moment.strftime("%Y-%m-%d %H:%M:%S,") + f"{timestamp_ms % 1000:03d}"


def moment_of(text: str) -> int:
    """``now`` (-1), milliseconds, or ``yyyy-MM-dd#HH:mm:ss:SSS``, as mqadmin reads a moment."""
    if text in ("now", "currentTimeMillis"):
        return -1
    if text.lstrip("-").isdigit():
        return int(text)
    for pattern in ("%Y-%m-%d#%H:%M:%S:%f", "%Y-%m-%d#%H:%M:%S"):
        try:
            found = datetime.datetime.strptime(text, pattern).astimezone()
        except ValueError:
            continue
        return int(found.timestamp() * 1000)
    raise UsageError(f"{text!r}: expected now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS")


def truth(text: str | None, *, default: bool) -> bool:
    """``true`` or ``false`` as Java reads it."""
    return default if text is None else text.strip().lower() == "true"


def java_map(table: Mapping[Any, Any]) -> str:
    """A map as Java's toString writes it."""
    return "{" + ", ".join(f"{name}={value}" for name, value in table.items()) + "}"


def plain(body: Any) -> Any:
    """A body of the protocol as plain JSON values."""
    return json.loads(body.encode(standard=True))


def message_line(record: Record, broker: str, *, body: bool = True) -> str:
    """A message as printMsg shows it: its id, MessageExt.toString, and the body as text."""
    payload = record.payload()
    signed = [byte - 256 if byte > 127 else byte for byte in payload]
    return (
        f"MSGID: {record.unique_key or record.offset_message_id} "
        f"MessageExt [brokerName={broker}, queueId={record.queue_id}, "
        f"storeSize={record.store_size}, queueOffset={record.queue_offset}, "
        f"sysFlag={record.sys_flag}, "
        f"bornTimestamp={record.born_ms}, bornHost=/{record.born_host}, "
        f"storeTimestamp={record.store_ms}, storeHost=/{record.store_host}, "
        f"msgId={record.offset_message_id}, "
        f"commitLogOffset={record.commit_log_offset}, bodyCRC={record.body_crc}, "
        f"reconsumeTimes={record.reconsume_times}, "
        f"preparedTransactionOffset={record.prepared_transaction_offset}, "
        f"toString()=Message{{topic='{record.topic}', flag={record.flag}, "
        f"properties={java_map(record.properties)}, body={signed}, "
        f"transactionId='{record.properties.get('__transactionId__', 'null')}'}}] "
        f"BODY: {payload.decode('utf-8', 'replace') if body else 'NOT PRINT BODY'}\n"
    )


def retry_policy(text: str | None) -> GroupRetryPolicy:
    """A group's retry policy from its JSON; raises UsageError."""
    if text is None:
        return GroupRetryPolicy()
    try:
        return GroupRetryPolicy.decode(text.encode())
    except RemoteProtocolError as error:
        raise UsageError(
            f"groupRetryPolicy {text!r}: {error}; expected JSON, for example "
            '{"type":"EXPONENTIAL"}'
        ) from None
