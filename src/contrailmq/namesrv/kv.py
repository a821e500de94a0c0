"""Configuration for everybody: values by key by namespace, pure.

``kvConfig.json`` has them as ``{"configTable": {namespace: {key: value}}}``.
"""

from __future__ import annotations

from typing import Final

from contrailmq.errors import SystemFailure
from contrailmq.protocol.bodies.route import KVConfigTable, KVTable

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"


class KvConfig:
    """The table; at a bound a new value is refused with the number."""

    def __init__(self, *, entries_max: int = 100_000, size_max: int = 64 * 1024) -> None:
        self._entries_max = entries_max
        self._size_max = size_max
        self._table: dict[str, dict[str, str]] = {}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value."""
        size = len(namespace) + len(key) + len(value)
        if size > self._size_max:
            raise SystemFailure(f"a value of {size} characters, at most {self._size_max}")
        values = self._table.get(namespace, {})
        if key not in values and len(self) >= self._entries_max:
            raise SystemFailure(f"{len(self)} values, at most {self._entries_max}")
        self._table.setdefault(namespace, {})[key] = value

    def find(self, namespace: str, key: str) -> str | None:
        """A value, if there is one."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> bool:
        """Remove a value; False if there was none. The namespace stays, as in the original."""
        return self._table.get(namespace, {}).pop(key, None) is not None

    def namespace(self, name: str) -> KVTable | None:
        """All values of a namespace; None if it was never used."""
        values = self._table.get(name)
        return None if values is None else KVTable(table=dict(values))

    def __len__(self) -> int:
        return sum(map(len, self._table.values()))

    def encode(self) -> bytes:
        """The content of ``kvConfig.json``."""
        return KVConfigTable(config_table=self._table).encode(pretty=True)

    def load(self, data: bytes) -> None:
        """Take over the content of ``kvConfig.json``; raises RemoteProtocolError."""
        found = KVConfigTable.decode(data).config_table
        self._table = {name: dict(values) for name, values in found.items()}
