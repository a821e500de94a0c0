"""The broker itself.

Request codes 25, 26, 28, 50 to 54, 60, 61, 306, 316, 329, 2003 and 2004.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from contrailmq.broker.config.configuration import Configuration, rewritten
from contrailmq.broker.config.saved_file import SmallFiles
from contrailmq.broker.services.runtime import Runtime
from contrailmq.broker.tables.topics import TopicTable
from contrailmq.errors import (
    BrokerError,
    ConfigError,
    InvalidParameter,
    StoreError,
    SystemFailure,
)
from contrailmq.lifecycle import uninterrupted
from contrailmq.net.connection import Connection
from contrailmq.protocol.bodies.queues import ColdDataFlow
from contrailmq.protocol.bodies.route import KVTable
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.admin import (
    GetBrokerConfigResponse,
    SetCommitLogReadModeRequest,
)
from contrailmq.protocol.names import SCHEDULE_TOPIC, is_lmq, is_system_topic
from contrailmq.protocol.versions import V5_0_0
from contrailmq.settings import parse_properties
from contrailmq.store.store import Store

log = logging.getLogger(__name__)

CONFIG_SIZE_MAX: Final = 1024 * 1024
COLD_GROUP_SIZE: Final = 3_145_728  # the defaults of a control that is off
COLD_GLOBAL_SIZE: Final = 104_857_600


class DescribeRuntime:
    """Request code 28."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __call__(self, request: Command, connection: Connection) -> Command:
        """What the broker is doing."""
        table = self._runtime.table(legacy=request.version < V5_0_0)
        return request.reply(body=KVTable(table=table).encode())


class BrokerConfig:
    """Request codes 25 and 26: the configuration."""

    def __init__(self, configuration: Configuration, files: SmallFiles) -> None:
        self._configuration = configuration
        self._files = files
        self._writing = asyncio.Lock()

    def get(self, request: Command, connection: Connection) -> Command:
        """Code 26."""
        version = self._configuration.version.value.encode().decode()
        return request.reply(
            GetBrokerConfigResponse(version=version), body=self._configuration.text()
        )

    async def update(self, request: Command, connection: Connection) -> Command:
        """Code 25: all of the new values or none; the remark names keys without a meaning."""
        if len(request.body) > CONFIG_SIZE_MAX:
            raise InvalidParameter(f"{len(request.body)} bytes, at most {CONFIG_SIZE_MAX}")
        try:
            properties = parse_properties(bytes(request.body).decode())
        except UnicodeDecodeError as error:
            raise SystemFailure(f"string2Properties error: {error}") from error
        try:
            ignored = self._configuration.update(properties)
        except ConfigError as error:
            raise SystemFailure(str(error)) from error
        log.info("configuration updated: peer=%s keys=%s", connection.peer, sorted(properties))
        if properties and self._configuration.path is not None:
            await self._write(self._configuration.path, properties)
        remark = f"without a meaning here: {', '.join(ignored)}" if ignored else None
        return request.reply(remark=remark)

    async def _write(self, path: str, properties: dict[str, str]) -> None:
        def write() -> None:
            before = self._files.read(path)
            text = rewritten((before or b"").decode("utf-8", "replace"), properties)
            self._files.replace(path, text.encode(), backup=before is not None)

        async with self._writing:
            try:
                work = asyncio.get_running_loop().run_in_executor(None, write)
                await uninterrupted(work)
            except (OSError, StoreError) as error:
                raise SystemFailure(
                    f"in use, but {path} could not be written: {error}; it is lost at a restart"
                ) from error


class CleanUp:
    """Request codes 306, 316 and 329: get rid of what nobody needs any more."""

    def __init__(self, store: Store, topics: TopicTable) -> None:
        self._store = store
        self._topics = topics

    def queues(self, request: Command, connection: Connection) -> Command:
        """Code 306: queues whose messages are gone; delay levels are kept, they have cursors."""
        count = self._store.clean_expired_queues(lambda topic: topic == SCHEDULE_TOPIC)
        log.info("expired queues cleaned: count=%s peer=%s", count, connection.peer)
        return request.reply()

    def topics(self, request: Command, connection: Connection) -> Command:
        """Code 316: queues of topics that no longer exist; the system's own are kept."""
        known = set(self._topics.names())
        known.update(
            topic
            for topic in self._store.queues.topics()
            if is_system_topic(topic) or is_lmq(topic)
        )
        count = self._store.clean_unused_topics(known)
        log.info("queues of unused topics cleaned: count=%s peer=%s", count, connection.peer)
        return request.reply()

    def log(self, request: Command, connection: Connection) -> Command:
        """Code 329: old segments go in the next rounds, not at the hour of deletion."""
        self._store.delete_expired()
        return request.reply()


class AclOff:
    """Request codes 50 to 54: there are no accounts to manage, and the answer says so."""

    CODES: Final = {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
        RequestCode.DELETE_ACL_CONFIG: ResponseCode.DELETE_ACL_CONFIG_FAILED,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: (
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        ),
    }

    def __call__(self, request: Command, connection: Connection) -> Command:
        """Refuse; the original does not even answer 52 and 54."""
        code = self.CODES.get(RequestCode(request.code), ResponseCode.SYSTEM_ERROR)
        raise BrokerError("access control is off (aclEnable=false): no accounts here", code=code)


def read_ahead_mode(request: Command, connection: Connection) -> Command:
    """Request code 2004: the log is read as the system pleases (0), never at random (1)."""
    mode = SetCommitLogReadModeRequest.from_fields(request.fields).read_ahead_mode
    if mode != "0":
        raise SystemFailure(f"READ_AHEAD_MODE {mode!r}: only 0 (normal) is served here")
    return request.reply(remark=f"set commitlog readahead mode success, mode: {mode}")


def taken_note_of(request: Command, connection: Connection) -> Command:
    """Request codes 905, 2001 and 2002: what asks for nothing that is done here is answered."""
    return request.reply()


def cold_data_flow(request: Command, connection: Connection) -> Command:
    """Request code 2003: cold reads are not controlled (coldDataFlowControlEnable is false)."""
    body = ColdDataFlow(
        cg_cold_read_threshold=COLD_GROUP_SIZE, global_cold_read_threshold=COLD_GLOBAL_SIZE
    )
    return request.reply(body=body.encode())
