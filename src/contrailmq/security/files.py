"""``plain_acl.yml`` and ``acl/*.yml``: read whole into a table of accounts, written by renaming.

Everything the original reads is read.  Ours are: names that end in ``*`` in ``topicPerms`` and
``groupPerms`` (prefixes), ``roles``, ``oldSecretKey``, ``certificates``, ``limits``, ``policies``
and ``userStatus`` (of users made by codes 3001 to 3010), CIDR blocks, and a ``secretKey`` of the
form ``${VARIABLE}`` or ``file:PATH``.

One bad file changes nothing: the table is made of all files, or not at all.  No text here ever
holds a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from contrailmq.errors import ConfigError
from contrailmq.protocol.bodies.version import DataVersion
from contrailmq.security.account import Account, AccountLimits, Grants
from contrailmq.security.addresses import AddressPatterns
from contrailmq.security.permission import DENY, bits_of
from contrailmq.security.policies import read_entries

KEY_SIZE_MIN: Final = 7
FILES_MAX: Final = 1000
FILE_SIZE_MAX: Final = 16 * 1024 * 1024
_LIMITS: Final = {
    "connections": "connections",
    "bytesPerSecond": "bytes_per_second",
    "messagesPerSecond": "messages_per_second",
    "newTopicsPerMinute": "new_topics_per_minute",
}
_ACCOUNT_KEYS: Final = frozenset(
    {
        "accessKey",
        "secretKey",
        "oldSecretKey",
        "oldSecretUntil",
        "whiteRemoteAddress",
        "admin",
        "defaultTopicPerm",
        "defaultGroupPerm",
        "topicPerms",
        "groupPerms",
        "roles",
        "certificates",
        "limits",
        "namespacePerms",
        "policies",
        "userStatus",
    }
)
_FILE_KEYS: Final = frozenset({"globalWhiteRemoteAddresses", "accounts", "dataVersion", "roles"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTable:
    """All accounts at one moment; ``stamp`` tells two states of the files apart."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    by_certificate: Mapping[str, Account] = field(default_factory=dict)
    white: AddressPatterns = field(default_factory=AddressPatterns)
    versions: Mapping[str, DataVersion] = field(default_factory=dict)
    stamp: object = None
    ends_ms: int = 0  # when the next old secret ends; 0: none does


class AccountFiles:
    """The files of one server: the main one, and those of the folder ``acl`` beside it."""

    def __init__(self, main: Path) -> None:
        self.main = main
        self.folder = main.parent / "acl"

    def paths(self) -> list[Path]:
        """The files there are, the main one first."""
        found = [self.main] if self.main.exists() else []
        if self.folder.is_dir():
            inner = sorted(p for p in self.folder.rglob("*.y*ml") if p.suffix in (".yml", ".yaml"))
            found += [p for p in inner if p.name != "tools.yml" and p.is_file()]
        return found[:FILES_MAX]

    def stamp(self) -> object:
        """What changes whenever a file is added, removed or replaced."""
        found = []
        for path in self.paths():
            try:
                stat = path.stat()
            except OSError:
                continue
            found.append((str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)

    def load(self, now_ms: int = 0) -> AccountTable:
        """Read all files; raises ConfigError with the file, the account and what is wrong."""
        stamp = self.stamp()
        accounts: dict[str, Account] = {}
        white: list[str] = []
        versions: dict[str, DataVersion] = {}
        documents = {path: read_document(path) for path in self.paths()}
        roles: dict[str, Any] = {}
        ends: list[int] = []
        for path, document in documents.items():
            roles.update(_mapping(document.get("roles"), f"{path}: roles"))
        for path, document in documents.items():
            addresses = _texts(document.get("globalWhiteRemoteAddresses"), f"{path}: white list")
            _patterns(addresses, str(path))
            white += addresses
            versions[str(path)] = version_of(document)
            for entry in _entries(document, path):
                account = read_account(entry, roles, origin=str(path), now_ms=now_ms)
                accounts.setdefault(account.name, account)
                until = entry.get("oldSecretUntil")
                if isinstance(until, int) and until > now_ms:
                    ends.append(until)
        return AccountTable(
            accounts=accounts,
            by_certificate={name: a for a in accounts.values() for name in a.certificates},
            white=AddressPatterns(white),
            versions=versions,
            stamp=stamp,
            ends_ms=min(ends, default=0),
        )

    def path_of(self, name: str) -> Path | None:
        """The file that has an account; None when there is no such account."""
        for path in self.paths():
            if any(entry.get("accessKey") == name for entry in _entries(read_document(path), path)):
                return path
        return None

    def write(self, path: Path, document: dict[str, Any], now_ms: int) -> None:
        """Replace a file by renaming, readable by its owner alone; raises ConfigError."""
        version = version_of(document)
        document["dataVersion"] = [{"counter": version.counter + 1, "timestamp": now_ms}]
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        target = Path(os.path.realpath(path))
        fresh = target.with_name(f".{target.name}.new")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(target)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def read_document(path: Path) -> dict[str, Any]:
    """The top of a file; an empty or missing file has nothing in it."""
    try:
        if path.stat().st_size > FILE_SIZE_MAX:
            raise ConfigError(f"{path}: larger than {FILE_SIZE_MAX} bytes")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {type(error).__name__}") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path}: no YAML{line}") from None  # its text could show a secret
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected accounts and globalWhiteRemoteAddresses")
    unknown = sorted(str(name) for name in document if name not in _FILE_KEYS)
    if unknown:
        raise ConfigError(f"{path}: unknown key {', '.join(unknown)}; is it spelled right?")
    return document


def version_of(document: Mapping[str, Any]) -> DataVersion:
    """The version written in a file."""
    found = document.get("dataVersion")
    first = found[0] if isinstance(found, list) and found else {}
    counter, timestamp = (
        (first.get(name) if isinstance(first, dict) else 0) for name in ("counter", "timestamp")
    )
    if not isinstance(counter, int) or not isinstance(timestamp, int):
        return DataVersion()
    return DataVersion(counter=counter, timestamp=timestamp)


def read_account(
    entry: Mapping[str, Any], roles: Mapping[str, Any], *, origin: str, now_ms: int = 0
) -> Account:
    """One account of a file; raises ConfigError."""
    name = _text(entry.get("accessKey"))
    where = f"{origin}: account {name!r}"
    unknown = sorted(str(key) for key in entry if key not in _ACCOUNT_KEYS)
    if unknown:
        raise ConfigError(f"{where}: unknown key {', '.join(unknown)}; is it spelled right?")
    keys = [_secret(_text(entry.get("secretKey")), where)]
    is_user = entry.get("userStatus") is not None  # of 5.3: of any length
    if not (name and keys[0]) or (not is_user and min(len(name), len(keys[0])) < KEY_SIZE_MIN):
        raise ConfigError(
            f"{where}: accessKey and secretKey must be longer than {KEY_SIZE_MIN - 1} characters"
        )
    old, until = _text(entry.get("oldSecretKey")), entry.get("oldSecretUntil", 0)
    if old and (not isinstance(until, int) or until == 0 or now_ms < until):
        keys.append(_secret(old, where))
    worn = [_role(role, roles, where) for role in _texts(entry.get("roles"), f"{where}: roles")]
    home = _text(entry.get("whiteRemoteAddress"))
    return Account(
        name=name,
        secrets=tuple(keys),
        is_admin=_truth(entry.get("admin"), where),
        home=_patterns([home], where),
        topics=_grants(entry, worn, "Topic", where),
        groups=_grants(entry, worn, "Group", where),
        certificates=tuple(_texts(entry.get("certificates"), f"{where}: certificates")),
        policies=read_entries(entry.get("policies"), where),
        is_enabled=_text(entry.get("userStatus")).lower() != "disable",
        limits=_limits(entry.get("limits"), where),
        origin=origin,
    )


def _role(name: str, roles: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    found = roles.get(name)
    if not isinstance(found, dict):
        known = ", ".join(sorted(map(str, roles))) or "none"
        raise ConfigError(f"{where}: no role {name!r}; there is {known}")
    return found


def _grants(
    entry: Mapping[str, Any], roles: Iterable[Mapping[str, Any]], kind: str, where: str
) -> Grants:
    """Own entries outrank those of roles; among roles DENY wins, else their bits add up."""
    default: int | None = None
    if entry.get(f"default{kind}Perm") is not None:
        default = bits_of(_text(entry[f"default{kind}Perm"]))
    key = f"{kind.lower()}Perms"
    of_roles: dict[str, int] = {}
    for role in roles:
        for name, bits in _perms(role.get(key), where):
            of_roles[name] = _joined(of_roles.get(name, 0), bits)
        if default is None and role.get(f"default{kind}Perm") is not None:
            default = bits_of(_text(role[f"default{kind}Perm"]))
    merged = of_roles | dict(_perms(entry.get(key), where))
    prefixes = [(name[:-1], bits) for name, bits in merged.items() if name.endswith("*")]
    return Grants(
        {name: bits for name, bits in merged.items() if not name.endswith("*")},
        tuple(sorted(prefixes, key=lambda found: -len(found[0]))),
        DENY if default is None else default,
    )


def _joined(first: int, second: int) -> int:
    return DENY if (first | second) & DENY else first | second


def _perms(value: Any, where: str) -> list[tuple[str, int]]:
    found = []
    for text in _texts(value, where):
        name, equals, perm = text.partition("=")
        if not name.strip() or not equals or not perm.strip() or "=" in perm:
            raise ConfigError(f"{where}: {text!r}: expected NAME=PERMISSION, as topicA=PUB|SUB")
        found.append((name.strip(), bits_of(perm)))
    return found


def _limits(value: Any, where: str) -> AccountLimits:
    given = _mapping(value, f"{where}: limits")
    unknown = sorted(str(name) for name in given if name not in _LIMITS)
    if unknown or not all(isinstance(v, int) and v >= 0 for v in given.values()):
        raise ConfigError(f"{where}: limits are whole numbers of {', '.join(_LIMITS)}")
    return AccountLimits(**{_LIMITS[name]: number for name, number in given.items()})


def _secret(text: str, where: str) -> str:
    """The secret itself: as written, of the environment, or the first line of a file."""
    if text.startswith("${") and text.endswith("}"):
        found = os.environ.get(text[2:-1])
        if found is None:
            raise ConfigError(f"{where}: the variable {text[2:-1]} of its secretKey is not set")
        return found
    if text.startswith("file:"):
        try:
            return Path(text[5:]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigError(
                f"{where}: the file {text[5:]} of its secretKey is not readable"
            ) from None
    return text


def _patterns(texts: list[str], where: str) -> AddressPatterns:
    try:
        return AddressPatterns(texts)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _entries(document: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    found = document.get("accounts") or []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ConfigError(f"{path}: accounts: expected a list of accounts")
    return found


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected names with values")
    return value


def _texts(value: Any, where: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or any(isinstance(item, dict | list) for item in value):
        raise ConfigError(f"{where}: expected a list of texts")
    return [_text(item) for item in value]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _truth(value: Any, where: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{where}: admin = {value!r}: expected true or false")
    return text == "true"
