"""The permissions of ACL 1.0: bits, their texts, and whether what is owned is enough."""

from __future__ import annotations

from typing import Final

DENY: Final = 1
ANY: Final = 2
PUB: Final = 4
SUB: Final = 8

_BITS: Final = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB, "DENY": DENY}
_TEXTS: Final = {PUB: "PUB", SUB: "SUB", PUB | SUB: "PUB|SUB", DENY: "DENY"}


def bits_of(text: str | None) -> int:
    """The bits of a text in a file; what is unknown counts as DENY (Permission)."""
    return _BITS.get((text or "").strip(), DENY)


def text_of(bits: int) -> str:
    """The text of bits."""
    return _TEXTS.get(bits, "DENY")


def is_known(text: str) -> bool:
    """Whether a text names a permission."""
    return text.strip() in _BITS


def is_enough(need: int, own: int) -> bool:
    """Whether what an account owns covers what a request needs."""
    if own & DENY:
        return False
    if need & ANY:
        return bool(own & (PUB | SUB | ANY))
    return bool(need & own)
