"""Changes of accounts, as codes 50 to 53 and ``contrail account`` make them: file by file.

A change reads the file anew, alters one entry, judges the result as a whole and only then writes
it: a refused change leaves every file as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from contrailmq.errors import ConfigError
from contrailmq.security.addresses import AddressPatterns
from contrailmq.security.files import AccountFiles, read_account, read_document
from contrailmq.security.permission import is_known

FORMAT: Final = "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
PERMS: Final = "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."


def put_account(
    files: AccountFiles,
    name: str,
    given: Mapping[str, Any],
    *,
    now_ms: int,
    path: Path | None = None,
) -> None:
    """Make an account, or replace the given fields of it; a value of None removes a field."""
    for kind in ("topicPerms", "groupPerms"):
        check_perms(given.get(kind) or [])
    found = files.path_of(name)
    path = found or path or files.main
    document = read_document(path)
    accounts = document.get("accounts") or []
    entry: dict[str, Any] = next((e for e in accounts if e.get("accessKey") == name), {})
    if not entry:
        entry["accessKey"] = name
        accounts.append(entry)
    for key, value in given.items():
        if value is None:
            entry.pop(key, None)
        else:
            entry[key] = value
    read_account(entry, roles_of(files), origin=path.name, now_ms=now_ms)
    document["accounts"] = accounts
    files.write(path, document, now_ms)


def remove_account(files: AccountFiles, name: str, *, now_ms: int) -> bool:
    """Remove an account; False when there is none of that name."""
    path = files.path_of(name)
    if path is None:
        return False
    document = read_document(path)
    document["accounts"] = [e for e in document["accounts"] if e.get("accessKey") != name]
    files.write(path, document, now_ms)
    return True


def put_white(files: AccountFiles, addresses: list[str], *, path: str, now_ms: int) -> None:
    """Replace the addresses that need no account, in the main file or in the one named."""
    target = files.main
    if path:
        named = Path(path)
        known = {str(found): found for found in files.paths()}
        if str(named) not in known:
            raise ConfigError(f"the file {path} is none of this broker's account files")
        target = known[str(named)]
    AddressPatterns(addresses)
    document = read_document(target)
    document["globalWhiteRemoteAddresses"] = addresses
    files.write(target, document, now_ms)


def check_perms(entries: list[str]) -> None:
    """Whether a list of ``name=permission`` is as code 50 wants it; raises ConfigError."""
    for entry in entries:
        parts = entry.split("=")
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise ConfigError(f"Parse Resource format error for {entry}.\n{FORMAT}")
        if not is_known(parts[1]):
            raise ConfigError(f"Parse resource permission error for {entry}.\n{PERMS}")


def roles_of(files: AccountFiles) -> dict[str, Any]:
    """The named sets of permissions of all files."""
    found: dict[str, Any] = {}
    for path in files.paths():
        found.update(read_document(path).get("roles") or {})
    return found
