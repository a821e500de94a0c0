"""Headers of the name server's key-value configuration."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.protocol.header import Header


@dataclass(frozen=True, slots=True, kw_only=True)
class PutKVConfigRequest(Header):
    """RequestCode 100: set one value."""

    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKVConfigRequest(Header):
    """RequestCode 101: read one value."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKVConfigResponse(Header):
    """The value."""

    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKVConfigRequest(Header):
    """RequestCode 102: remove one value."""

    namespace: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetKVListByNamespaceRequest(Header):
    """RequestCode 219: all values of a namespace."""

    namespace: str
