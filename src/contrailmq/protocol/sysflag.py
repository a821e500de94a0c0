"""The ``sysFlag`` bits of a message, and what can be read from them."""

from __future__ import annotations

from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_MASK: Final = 0xC
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_MASK: Final = 0x700
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
COMPRESSION_SHIFT: Final = 8


def transaction_type(sys_flag: int) -> int:
    """One of the ``TRANSACTION_`` values."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """The flag with its transaction type replaced."""
    return (sys_flag & ~TRANSACTION_MASK) | transaction


def is_compressed(sys_flag: int) -> bool:
    """Whether the body has to be decompressed before it is the user's."""
    return sys_flag & COMPRESSED != 0


def born_host_size(sys_flag: int) -> int:
    """Bytes the born host takes in a record: address and port."""
    return 20 if sys_flag & BORN_HOST_V6 else 8


def store_host_size(sys_flag: int) -> int:
    """Bytes the store host takes in a record: address and port."""
    return 20 if sys_flag & STORE_HOST_V6 else 8
