"""Headers of the name server's key-value configuration."""

from __future__ import annotations

from contrailmq.protocol.header import Header


class PutKVConfigRequest(Header, frozen=True, kw_only=True):
    """RequestCode 100: set one value."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequest(Header, frozen=True, kw_only=True):
    """RequestCode 101: read one value."""

    namespace: str
    key: str


class GetKVConfigResponse(Header, frozen=True, kw_only=True):
    """The value."""

    value: str | None = None


class DeleteKVConfigRequest(Header, frozen=True, kw_only=True):
    """RequestCode 102: remove one value."""

    namespace: str
    key: str


class GetKVListByNamespaceRequest(Header, frozen=True, kw_only=True):
    """RequestCode 219: all values of a namespace."""

    namespace: str
