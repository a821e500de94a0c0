"""Access control against the verdicts of the Java classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.protocol.acl import ACCESS_KEY, SIGNATURE, signature
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.security.accounts import Accounts
from contrailmq.security.addresses import AddressPatterns
from contrailmq.security.changes import check_perms
from contrailmq.security.files import AccountFiles
from contrailmq.security.guard import AccessDenied, Guard
from contrailmq.security.needs import ADMIN_CODES, RULES
from contrailmq.security.permission import bits_of, is_enough

DATA = Path(__file__).parent / "data" / "security"
VERSIONS = ("4.9.7", "5.2.0")
# What the original leaves open and this closes: any signature was enough for these.
CLOSED = frozenset(
    {14, 26, 29, 30, 41, 46, 50, 51, 52, 53, 54, 105, 200050, 201, 206, 208, 216, 217, 221, 222}
    | {300, 301, 307, 308, 309, 314, 315, 320, 328, 361, 401}
)


class At:
    """A connection from an address."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.principals: tuple[str, ...] = ()


def rows(version: str, name: str) -> list[dict[str, Any]]:
    text = (DATA / version / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def guard() -> Guard:
    accounts = Accounts(AccountFiles(DATA / "plain_acl.yml"), clock=SystemClock())
    accounts.reload()
    return Guard(accounts)


@pytest.mark.parametrize("version", VERSIONS)
def test_verdicts(guard: Guard, version: str) -> None:
    """What Java refuses is refused in its words; what it lets through is, but for its holes."""
    for row in rows(version, "verdicts"):
        fields = dict(row["ext"] or {})
        if row.get("account"):
            fields[ACCESS_KEY] = row["account"]
        if row.get("signature"):
            fields[SIGNATURE] = row["signature"]
        body = (row.get("body") or "").encode()
        request = Command(row["code"], fields=fields, body=body, version=row["version"])
        try:
            guard.check(request, At(row["remote"]))
            ours = None
        except AccessDenied as refusal:
            ours = refusal.text
        theirs = None if row["refused"] is None else row["refused"].partition(": ")[2]
        if ours != theirs:
            assert _is_explained(row, ours, theirs), (row, ours, theirs)


def _is_explained(row: dict[str, Any], ours: str | None, theirs: str | None) -> bool:
    code, ext = row["code"], row["ext"] or {}
    if code == 34 and theirs and ("parse" in theirs or "bytes" in theirs):
        return ours is None or "permission" not in ours  # the parser's own words; or the handler's
    if theirs is None:  # a hole that is closed, or a retry topic judged by its own group
        if ours in ("No default permission for group:", "No default permission for topic:"):
            return True  # none is named at all
        topic = ext.get("topic") or ext.get("b") or ""
        return code in CLOSED or (code in (10, 310) and topic.startswith("%RETRY%"))
    if ours is None:  # a dead-letter topic of one's own group; a field both lines count otherwise
        topics = str(ext.get("topic") or ext.get("b") or row["body"])
        return (
            "%DLQ%" in topics or "%RETRY%" in topics or "_UNIQUE_KEY_QUERY" in ext
            or theirs == "No default permission for group:"
        )  # fmt: skip
    if "_UNIQUE_KEY_QUERY" in ext and "signature" in theirs:
        return True  # counted either way here
    if theirs.replace("No default", "No") == ours.replace("No default", "No"):
        return True  # 4.9 has one text for both
    if code in (11, 15, 34) and "permission for" in ours and "permission for" in theirs:
        return True  # several are missing; which is said first is the order of a hash table there
    return code in CLOSED or "%RETRY%" in str(ext)


@pytest.mark.parametrize("version", VERSIONS)
def test_white_addresses(version: str) -> None:
    for row in rows(version, "white-addresses"):
        pattern = row["pattern"]
        if "error" in row:
            if "/" not in pattern and pattern.strip():
                with pytest.raises(ConfigError):
                    AddressPatterns([pattern])
            continue
        patterns = AddressPatterns([pattern])
        for address, expected in row["match"].items():
            if isinstance(expected, bool):
                assert patterns.matches(address) is expected, (pattern, address)


def test_cidr() -> None:
    patterns = AddressPatterns(["10.1.0.0/16", "fd00::/8"])
    assert patterns.matches("10.1.2.3")
    assert patterns.matches("::ffff:10.1.2.3")
    assert patterns.matches("fd12::1")
    assert not patterns.matches("10.2.0.1")
    assert not patterns.matches("?")


@pytest.mark.parametrize("version", VERSIONS)
def test_permissions(version: str) -> None:
    for row in rows(version, "permissions"):
        if "bits" in row:
            assert bits_of(row["text"]) == row["bits"]
        elif "ok" in row:
            assert is_enough(row["need"], row["own"]) is row["ok"]
        elif "entry" in row:
            try:
                check_perms([row["entry"]])
                error = None
            except ConfigError as found:
                error = str(found)
            assert error == row["checkError"]
        else:
            assert row["adminCode"] in ADMIN_CODES


def test_every_code_is_decided_on() -> None:
    assert {int(code) for code in RequestCode} == set(RULES) | ADMIN_CODES
    assert not set(RULES) & ADMIN_CODES


def test_an_unknown_account_costs_as_much_as_a_wrong_key(guard: Guard) -> None:
    fields = {ACCESS_KEY: "nobodyhere", "b": "sec_both"}
    fields[SIGNATURE] = signature(fields, b"x", "whatever")
    with pytest.raises(AccessDenied, match="No acl config for nobodyhere"):
        guard.check(Command(310, fields=fields, body=b"x"), At("192.0.2.1:1"))
