"""KV configuration and our own: codes 100, 101, 102, 219, 318, 319."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from contrailmq.errors import ConfigError, NoPermission, QueryNotFound, SystemFailure
from contrailmq.lifecycle import uninterrupted
from contrailmq.namesrv.files import write_replacing
from contrailmq.namesrv.kv import KvConfig
from contrailmq.namesrv.settings import Configuration, NameServerSettings
from contrailmq.net.connection import Connection
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.kv import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    PutKVConfigRequest,
)
from contrailmq.settings import parse_properties

log = logging.getLogger(__name__)


class Keeper:
    """Writes a file in a thread, one write at a time; a change is answered when it is on disk."""

    def __init__(self, path: str, content: Callable[[], bytes]) -> None:
        self._path = Path(path) if path else None
        self._content = content
        self._lock = asyncio.Lock()
        self._wanted = 0
        self._kept = 0

    async def keep(self) -> None:
        """Return when what the table holds now is on disk; callers meanwhile share a write."""
        if self._path is None:
            return
        self._wanted += 1
        wanted = self._wanted
        async with self._lock:
            if self._kept >= wanted:
                return
            writing, data = self._wanted, self._content()
            loop = asyncio.get_running_loop()
            try:
                await uninterrupted(loop.run_in_executor(None, write_replacing, self._path, data))
            except OSError as error:
                log.error("file cannot be written: path=%s reason=%s", self._path, error)
                raise SystemFailure(f"{self._path} cannot be written: {error}") from error
            self._kept = writing


class KvHandlers:
    """The handlers of the KV configuration."""

    def __init__(self, kv: KvConfig, keeper: Keeper) -> None:
        self._kv = kv
        self._keeper = keeper

    async def put(self, request: Command, connection: Connection) -> Command:
        """Code 100."""
        header = PutKVConfigRequest.from_fields(request.fields)
        self._kv.put(header.namespace, header.key, header.value)
        await self._keeper.keep()
        return request.reply()

    def get(self, request: Command, connection: Connection) -> Command:
        """Code 101."""
        header = GetKVConfigRequest.from_fields(request.fields)
        value = self._kv.find(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace} Key: {header.key}")
        return request.reply(GetKVConfigResponse(value=value))

    async def delete(self, request: Command, connection: Connection) -> Command:
        """Code 102: success whether or not the key was there."""
        header = DeleteKVConfigRequest.from_fields(request.fields)
        if self._kv.delete(header.namespace, header.key):
            await self._keeper.keep()
        return request.reply()

    def namespace(self, request: Command, connection: Connection) -> Command:
        """Code 219."""
        header = GetKVListByNamespaceRequest.from_fields(request.fields)
        table = self._kv.namespace(header.namespace)
        if table is None:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace}")
        return request.reply(body=table.encode())


class OwnConfig:
    """Our own configuration, and its handlers; others read ``settings`` anew each time."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        path = configuration.settings.config_store_path
        self._keeper = Keeper(path, lambda: self._configuration.as_text().encode())

    def settings(self) -> NameServerSettings:
        """The settings as they are now."""
        return self._configuration.settings

    def get(self, request: Command, connection: Connection) -> Command:
        """Code 319."""
        return request.reply(body=self._configuration.as_text().encode())

    async def update(self, request: Command, connection: Connection) -> Command:
        """Code 318: all of the new values or none."""
        try:
            properties = parse_properties(bytes(request.body).decode())
        except UnicodeDecodeError as error:
            raise SystemFailure(f"properties text: {error}") from error
        if not self._configuration.black_list().isdisjoint(properties):
            raise NoPermission("Can not update config in black list.")
        try:
            self._configuration = self._configuration.updated(properties)
        except ConfigError as error:
            raise SystemFailure(str(error)) from error
        log.info("configuration updated: peer=%s keys=%s", connection.peer, sorted(properties))
        await self._keeper.keep()
        return request.reply()
