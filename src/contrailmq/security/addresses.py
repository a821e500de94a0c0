"""Patterns of addresses, as ``plain_acl.yml`` writes them, and CIDR blocks.

Known are: a literal address; ``*`` for all; ``10.1.*.*`` and ``10.1.2.5-20`` (what follows the
first ``*`` or range is not looked at, as in RemoteAddressStrategyFactory); ``10.1.2.{3,4}``; a
list with commas; for IPv6 ``a:b::*``, ``a:b::1-f`` and ``a:b::1-f:*``; and
``10.1.0.0/16``, which is ours.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final

from contrailmq.errors import ConfigError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Match = Callable[[Address], bool]
_EVERYBODY: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_WORD_MAX: Final = 0xFFFF


class AddressPatterns:
    """A set of patterns; an address matches when one of them does."""

    __slots__ = ("_all", "_matches", "texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = tuple(texts)
        given = [text.strip() for text in self.texts if text.strip()]
        self._all = any(text in _EVERYBODY for text in given)
        self._matches = [_parse(text) for text in given if text not in _EVERYBODY]

    @property
    def is_empty(self) -> bool:
        """Whether no address can match."""
        return not self._all and not self._matches

    @property
    def is_everybody(self) -> bool:
        """Whether all addresses match."""
        return self._all

    def matches(self, host: str) -> bool:
        """Whether an address is in the set; a text that is no address is only in ``*``."""
        if self._all:
            return True
        if not self._matches:
            return False
        address = _address(host)
        return address is not None and any(match(address) for match in self._matches)

    def __repr__(self) -> str:
        return f"<AddressPatterns {','.join(self.texts)}>"


def patterns_of(text: str) -> AddressPatterns | None:
    """The patterns of a setting, separated by commas or semicolons; None for an empty one."""
    found = AddressPatterns([part for part in text.replace(";", ",").split(",") if part.strip()])
    return None if found.is_empty else found


def _parse(text: str) -> _Match:
    """The predicate of one pattern; raises ConfigError."""
    if text.endswith("}") and "{" in text:
        head, _, items = text[:-1].partition("{")
        return _literals([head + item for item in items.split(",") if item], text)
    if "," in text:
        return _literals(text.split(","), text)
    if "/" in text:
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise _senseless(text, str(error)) from None
        return lambda address: address in network
    if "*" in text or "-" in text:
        return _words_of_6(text) if ":" in text else _words_of_4(text)
    return _literals([text], text)


def _literals(texts: list[str], whole: str) -> _Match:
    found = {_address(text) for text in texts}
    if None in found:
        raise _senseless(whole, "expected addresses")
    return lambda address: address in found


def _words_of_4(text: str) -> _Match:
    parts = text.split(".")
    place = next((i for i, part in enumerate(parts) if "*" in part or "-" in part), -1)
    if len(parts) != 4 or place < 1:
        raise _senseless(text, "expected four parts, the first of them a number")
    low, high = _bounds(parts[place], 10, 255, text)
    try:
        head = ipaddress.IPv4Address(".".join([*parts[:place], *("0",) * (4 - place)])).packed
    except ValueError:
        raise _senseless(text, "expected numbers up to 255") from None

    def match(address: Address) -> bool:
        packed = address.packed
        is_near = address.version == 4 and packed[:place] == head[:place]
        return is_near and low <= packed[place] <= high

    return match


def _words_of_6(text: str) -> _Match:
    parts = text.split(":")
    place, low, high = 7, 0, _WORD_MAX
    if parts[-1] == "*" and "-" in parts[-2]:
        place = 6
        low, high = _bounds(parts[-2], 16, _WORD_MAX, text)
        parts[-2:] = ["0", "0"]
    else:
        low, high = _bounds(parts[-1], 16, _WORD_MAX, text)
        parts[-1] = "0"
    try:
        head = ipaddress.IPv6Address(":".join(parts)).packed
    except ValueError:
        raise _senseless(text, "a * or a range stands at the end") from None

    def match(address: Address) -> bool:
        packed = address.packed
        if address.version != 6 or packed[: 2 * place] != head[: 2 * place]:
            return False
        return low <= int.from_bytes(packed[2 * place : 2 * place + 2], "big") <= high

    return match


def _bounds(part: str, base: int, limit: int, whole: str) -> tuple[int, int]:
    if part == "*":
        return 0, limit
    first, _, last = part.partition("-")
    try:
        low, high = int(first, base), int(last, base)
    except ValueError:
        raise _senseless(whole, f"{part!r} is no range") from None
    if not 0 <= low <= high <= limit:
        raise _senseless(whole, f"the range {part!r} must rise, up to {limit}")
    return low, high


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


def _senseless(text: str, why: str) -> ConfigError:
    return ConfigError(
        f"address pattern {text!r}: {why}; for example 10.1.2.*, 10.1.2.5-20 or 10.1.0.0/16"
    )
