"""One account: its secrets, from where it may come, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from contrailmq.security.addresses import AddressPatterns
from contrailmq.security.permission import ANY, DENY, PUB, SUB, is_enough
from contrailmq.security.policies import Entry, decide

NOWHERE: Final = AddressPatterns()
_ASKED: Final = {PUB: ("Pub",), SUB: ("Sub",), ANY: ("Pub", "Sub", "Get")}
TOPIC: Final = "topic"
GROUP: Final = "group"


class Need(NamedTuple):
    """What a request needs: a bit of permission on one topic or group."""

    kind: str
    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Grants:
    """Permissions by name: the name's own entry, else the longest prefix, else the default."""

    literal: Mapping[str, int] = field(default_factory=dict)
    prefixes: tuple[tuple[str, int], ...] = ()  # the longest first
    default: int = DENY

    def of(self, name: str) -> tuple[int, bool]:
        """The bits for a name, and whether an entry (not the default) gave them."""
        found = self.literal.get(name)
        if found is not None:
            return found, True
        for prefix, bits in self.prefixes:
            if name.startswith(prefix):
                return bits, True
        return self.default, False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """What an account may use of one server; 0 is no limit."""

    connections: int = 0
    bytes_per_second: int = 0
    messages_per_second: int = 0
    new_topics_per_minute: int = 0

    @property
    def are_set(self) -> bool:
        """Whether any of them limits."""
        return any(
            (
                self.connections,
                self.bytes_per_second,
                self.messages_per_second,
                self.new_topics_per_minute,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A name with secrets and permissions; ``secrets`` has two while one replaces the other."""

    name: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    is_admin: bool = False
    home: AddressPatterns = NOWHERE  # from there neither signature nor permission is asked
    topics: Grants = Grants()
    groups: Grants = Grants()
    policies: tuple[Entry, ...] = ()  # of 5.3; with any, they decide together with the grants
    is_enabled: bool = True
    certificates: tuple[str, ...] = ()
    limits: AccountLimits = AccountLimits()
    origin: str = ""

    @property
    def has_sources(self) -> bool:
        """Whether what it may depends on where it comes from."""
        return any(entry.sources for entry in self.policies)

    def entries(self) -> list[Entry]:
        """All it may, as policies: its grants by name are Custom, its defaults Default."""
        found = list(self.policies)
        for kind, grants in (("Topic", self.topics), ("Group", self.groups)):
            named = [*grants.literal.items(), *((f"{p}*", bits) for p, bits in grants.prefixes)]
            found += [_of_grant(kind, name, bits) for name, bits in named]
            if not grants.default & DENY:
                found.append(_of_grant(kind, "*", grants.default, is_custom=False))
        return found

    def refusal(self, need: Need, address: str = "", more: tuple[str, ...] = ()) -> str | None:
        """Why this account may not, in the original's words; None when it may.

        ``more`` are actions that do as well where policies decide.
        """
        if self.policies:
            resource = (need.kind.capitalize(), need.name)
            verdict = decide(self.entries(), resource, _ASKED[need.bits] + more, address)
            return None if verdict else f"No permission for {need.kind}:{need.name}"
        own, is_entry = (self.topics if need.kind == TOPIC else self.groups).of(need.name)
        if is_enough(need.bits, own):
            return None
        word = "No permission" if is_entry else "No default permission"
        return f"{word} for {need.kind}:{need.name}"


def _of_grant(kind: str, name: str, bits: int, *, is_custom: bool = True) -> Entry:
    words = [word for bit, word in ((PUB, "Pub"), (SUB, "Sub")) if bits & bit]
    is_denied = bool(bits & DENY)
    return Entry(
        kind=kind,
        name=name,
        actions=frozenset(["All"] if is_denied else words),
        is_allowed=not is_denied,
        is_custom=is_custom,
    )


def masked(secret: str) -> str:
    """A secret as it may be shown: enough to tell two apart, too little to use."""
    return f"{secret[:3]}…{secret[-2:]}" if len(secret) > 8 else "…"
