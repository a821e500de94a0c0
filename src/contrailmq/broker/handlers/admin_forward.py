"""What the broker asks a client on an administrator's behalf: request codes 307 and 309."""

from __future__ import annotations

from typing import Final, Protocol

from contrailmq.broker.identity import Identity
from contrailmq.broker.tables.consumers import ConsumerTable, Member
from contrailmq.broker.tables.groups import GroupTable
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.errors import (
    ConsumeTimeout,
    LocalProtocolError,
    NetworkError,
    RemoteProtocolError,
    RequestTimeout,
    SystemFailure,
)
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.client import (
    ConsumeMessageDirectlyRequest,
    GetConsumerRunningInfoRequest,
)
from contrailmq.protocol.ids import parse_offset_message_id
from contrailmq.protocol.message import decode_record
from contrailmq.protocol.versions import V3_1_8_SNAPSHOT, version_name

CLIENT_TIMEOUT_S: Final = 10.0


class Log(Protocol):
    """What this module needs of the store."""

    def record_at(self, commit_log_offset: int, size: int | None = None) -> bytes | None:
        """A copy of a record."""
        ...


class AskClient:
    """Request codes 307 and 309: the client's answer is handed back as it is."""

    def __init__(
        self,
        consumers: ConsumerTable,
        log: Log,
        *,
        topics: TopicTable,
        groups: GroupTable,
        identity: Identity,
    ) -> None:
        self._consumers = consumers
        self._log = log
        self._topics = topics
        self._groups = groups
        self._identity = identity

    async def running_info(self, request: Command, connection: Connection) -> Command:
        """Code 307: the inside of a consumer."""
        header = GetConsumerRunningInfoRequest.from_fields(request.fields)
        member = self._member(header.consumer_group, header.client_id)
        command = Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO)
        command.fields = dict(request.fields)
        return await self._ask(request, command, header.consumer_group, member=member)

    async def consume(self, request: Command, connection: Connection) -> Command:
        """Code 309: let a client consume one message now."""
        header = ConsumeMessageDirectlyRequest.from_fields(request.fields)
        group = header.consumer_group
        member = self._member(group, header.client_id or "")
        record = self._record(header.msg_id or "")
        topic = header.topic or decode_record(record).topic
        topic_config, group_config = self._topics.find(topic), self._groups.find(group)
        command = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, body=record)
        command.fields = {
            **request.fields,
            "brokerName": self._identity.broker_name,
            "topicSysFlag": str(topic_config.topic_sys_flag if topic_config is not None else 0),
            "groupSysFlag": str(group_config.group_sys_flag if group_config is not None else 0),
        }
        return await self._ask(request, command, group, member=member)

    def _record(self, message_id: str) -> bytes:
        try:
            _, offset = parse_offset_message_id(message_id)
        except (LocalProtocolError, RemoteProtocolError, ValueError) as error:
            raise SystemFailure(f"msgId {message_id!r}: expected an offset id") from error
        record = self._log.record_at(offset)
        if record is None:
            raise SystemFailure(f"can not find message by the offset, {offset}")
        return record

    def _member(self, group: str, client_id: str) -> Member:
        member = self._consumers.find_member(group, client_id)
        if member is None:
            raise SystemFailure(f"The Consumer <{group}> <{client_id}> not online")
        if member.version < V3_1_8_SNAPSHOT:
            raise SystemFailure(
                f"The Consumer <{client_id}> Version <{version_name(member.version)}> too low to "
                "finish, please upgrade it to V3_1_8_SNAPSHOT"
            )
        return member

    async def _ask(
        self, request: Command, command: Command, group: str, *, member: Member
    ) -> Command:
        try:
            answer = await member.connection.call(command, timeout_s=CLIENT_TIMEOUT_S)
        except RequestTimeout as error:
            raise ConsumeTimeout(
                f"consumer <{group}> <{member.client_id}> Timeout: {error}"
            ) from error
        except NetworkError as error:
            raise SystemFailure(
                f"invoke consumer <{group}> <{member.client_id}> Exception: {error}"
            ) from error
        return request.reply(
            body=answer.body, code=answer.code, remark=answer.remark, fields=answer.fields
        )
