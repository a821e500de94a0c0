"""The policies of 5.3: who may do what with which resource, and which entry decides.

An entry names a resource (``Topic:orders``, ``Topic:order*``, ``Topic:*``, ``*``), actions, the
addresses it holds for, and Allow or Deny.  Among the Custom entries that match, a literal name
outranks a prefix, a longer prefix a shorter one, that one ``Topic:*``, and that one ``*``; of two
equal ones Deny wins.  If no Custom entry matches, those of the Default policy decide in the same
way; if none of them does, the request is refused.

The entries of ACL 1.0 are Custom entries, its defaults are Default entries: one table, two faces.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contrailmq.errors import ConfigError

CUSTOM: Final = "Custom"
DEFAULT: Final = "Default"
ALLOW: Final = "Allow"
DENIED: Final = "Deny"
ACTIONS: Final = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
KINDS: Final = ("Cluster", "Namespace", "Topic", "Group")
ENTRIES_MAX: Final = 10_000  # of one account
_ANYTHING: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a policy; ``kind`` and ``name`` are those of its resource."""

    kind: str  # "" stands for every kind
    name: str  # a prefix ends in *
    actions: frozenset[str]
    sources: tuple[str, ...] = ()
    is_allowed: bool = True
    is_custom: bool = True

    @property
    def resource(self) -> str:
        """The resource as it is written."""
        return f"{self.kind}:{self.name}" if self.kind else _ANYTHING

    def rank(self, kind: str, name: str) -> int:
        """How closely it names a resource; -1 if it does not."""
        if self.kind not in ("", kind):
            return -1
        if not self.kind:
            return 0
        if self.name == name:
            return 1 << 20
        if self.name.endswith(_ANYTHING) and name.startswith(self.name[:-1]):
            return len(self.name)
        return -1

    def is_about(self, actions: Iterable[str], address: str) -> bool:
        """Whether it speaks of any of these actions, from this address."""
        if "All" not in self.actions and self.actions.isdisjoint(actions):
            return False
        return not self.sources or any(_matches(source, address) for source in self.sources)


def decide(
    entries: Iterable[Entry], resource: tuple[str, str], actions: Iterable[str], address: str
) -> bool | None:
    """Whether entries allow any of the actions on a resource; None if none of them matches."""
    asked, found = tuple(actions), list(entries)
    for is_custom in (True, False):
        best: tuple[int, bool] | None = None
        for entry in found:
            if entry.is_custom is not is_custom or not entry.is_about(asked, address):
                continue
            rank = entry.rank(*resource)
            if rank < 0:
                continue
            candidate = (rank, not entry.is_allowed)
            if best is None or candidate > best:
                best = candidate
        if best is not None:
            return not best[1]
    return None


def read_entries(value: Any, where: str) -> tuple[Entry, ...]:
    """The ``policies`` of an account in a file; raises ConfigError."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise ConfigError(f"{where}: policies: expected a list of at most {ENTRIES_MAX} entries")
    found = []
    for item in value:
        if not isinstance(item, Mapping):
            raise ConfigError(f"{where}: policies: expected resource, actions and decision")
        try:
            found.append(
                make_entry(
                    str(item.get("resource") or ""),
                    [str(action) for action in item.get("actions") or []],
                    decision=str(item.get("decision") or ""),
                    sources=[str(source) for source in item.get("sourceIps") or []],
                    policy_type=str(item.get("policyType") or CUSTOM),
                )
            )
        except ConfigError as error:
            raise ConfigError(f"{where}: policies: {error}") from None
    return tuple(found)


def make_entry(
    resource: str,
    actions: Iterable[str],
    *,
    decision: str | None,
    sources: Iterable[str] = (),
    policy_type: str | None = None,
) -> Entry:
    """An entry from its texts; raises ConfigError in the words of the original."""
    kind, name = parse_resource(resource)
    chosen = []
    for action in actions:
        known = _one_of(action, (*ACTIONS, "Any"))
        if known is None:
            raise ConfigError(f"The actions is illegal: {action}, one of {', '.join(ACTIONS)}")
        if known == "Any":
            raise ConfigError("The actions can not be Any.")
        chosen.append(known)
    if not chosen:
        raise ConfigError("The actions is empty.")
    verdict = _one_of(decision, (ALLOW, DENIED))
    if verdict is None:
        raise ConfigError("The decision is null or illegal.")
    kept = tuple(source.strip() for source in sources if source and source.strip())
    for source in kept:
        try:
            ipaddress.ip_network(source, strict=False)
        except ValueError:
            raise ConfigError(f"The source ip is illegal: {source}") from None
    return Entry(
        kind=kind,
        name=name,
        actions=frozenset(chosen),
        sources=kept,
        is_allowed=verdict == ALLOW,
        is_custom=_one_of(policy_type or CUSTOM, (CUSTOM, DEFAULT)) != DEFAULT,
    )


def parse_resource(text: str | None) -> tuple[str, str]:
    """Kind and name of ``Topic:name``; the kind of ``*`` is empty. Raises ConfigError."""
    if not text or not text.strip():
        raise ConfigError("The resource is null.")
    if text.strip() == _ANYTHING:
        return "", _ANYTHING
    kind, colon, name = text.strip().partition(":")
    known = _one_of(kind, KINDS)
    if known is None or not colon or not name:
        raise ConfigError("The resource is null.")  # of an unknown kind, says the original
    return known, name


def texts_of(entry: Entry) -> dict[str, Any]:
    """An entry as it stands in a file."""
    found: dict[str, Any] = {
        "resource": entry.resource,
        "actions": [action for action in ACTIONS if action in entry.actions],
        "decision": ALLOW if entry.is_allowed else DENIED,
    }
    if entry.sources:
        found["sourceIps"] = list(entry.sources)
    if not entry.is_custom:
        found["policyType"] = DEFAULT
    return found


def _one_of(text: str | None, known: Iterable[str]) -> str | None:
    wanted = (text or "").strip().lower()
    return next((word for word in known if word.lower() == wanted), None)


def _matches(source: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(source, strict=False)
    except ValueError:
        return False
