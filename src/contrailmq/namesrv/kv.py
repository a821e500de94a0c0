"""Configuration for everybody: values by key by namespace, pure.

``kvConfig.json`` has them as ``{"configTable": {namespace: {key: value}}}``.
"""

from __future__ import annotations

from typing import Final

from contrailmq.errors import SystemFailure
from contrailmq.protocol.bodies.route import KVConfigTable, KVTable

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
WHOLE_SIZE_MAX: Final = 16 * 1024 * 1024  # characters of all namespaces, keys and values


class KvConfig:
    """The table; at a bound a new value is refused with the number."""

    def __init__(
        self,
        *,
        entries_max: int = 100_000,
        size_max: int = 64 * 1024,
        whole_size_max: int = WHOLE_SIZE_MAX,
    ) -> None:
        self._entries_max = entries_max
        self._size_max = size_max
        self._whole_size_max = whole_size_max
        self._whole_size = 0
        self._count = 0
        self._table: dict[str, dict[str, str]] = {}

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value."""
        size = len(namespace) + len(key) + len(value)
        if size > self._size_max:
            raise SystemFailure(f"a value of {size} characters, at most {self._size_max}")
        before = self._table.get(namespace, {}).get(key)
        if before is None and self._count >= self._entries_max:
            raise SystemFailure(f"{self._count} values, at most {self._entries_max}")
        grown = size if before is None else len(value) - len(before)
        if self._whole_size + grown > self._whole_size_max:
            raise SystemFailure(
                f"all values have {self._whole_size} characters, at most {self._whole_size_max}"
            )
        self._whole_size += grown
        self._count += before is None
        self._table.setdefault(namespace, {})[key] = value

    def find(self, namespace: str, key: str) -> str | None:
        """A value, if there is one."""
        return self._table.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> bool:
        """Remove a value; False if there was none. An empty namespace goes too.

        The original keeps it for ever, so that a stranger can fill its memory.
        """
        values = self._table.get(namespace, {})
        value = values.pop(key, None)
        if value is None:
            return False
        self._count -= 1
        self._whole_size -= len(namespace) + len(key) + len(value)
        if not values:
            del self._table[namespace]
        return True

    def namespace(self, name: str) -> KVTable | None:
        """All values of a namespace; None without any."""
        values = self._table.get(name)
        return None if values is None else KVTable(table=dict(values))

    def __len__(self) -> int:
        return self._count

    def encode(self) -> bytes:
        """The content of ``kvConfig.json``."""
        return KVConfigTable(config_table=self._table).encode(pretty=True)

    def load(self, data: bytes) -> None:
        """Take over the content of ``kvConfig.json``; raises RemoteProtocolError."""
        found = KVConfigTable.decode(data).config_table
        self._table = {name: dict(values) for name, values in found.items() if values}
        self._count = sum(map(len, self._table.values()))
        self._whole_size = sum(
            len(namespace) + len(key) + len(value)
            for namespace, values in self._table.items()
            for key, value in values.items()
        )
