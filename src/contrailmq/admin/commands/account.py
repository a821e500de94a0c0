"""``contrail account``: the accounts of plain_acl.yml, for people."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from contrailmq.admin.options import new_parser
from contrailmq.clock import SystemClock
from contrailmq.errors import ClientError, UsageError
from contrailmq.protocol.codes import RequestCode
from contrailmq.security.account import GROUP, TOPIC, Account, Need, masked
from contrailmq.security.changes import put_account, remove_account
from contrailmq.security.files import AccountFiles, read_document
from contrailmq.security.first_start import new_secret
from contrailmq.security.permission import PUB, SUB, bits_of, text_of
from contrailmq.usage import positive

FILE_VARIABLE: Final = "CONTRAIL_ACCOUNTS"
_EPILOG: Final = """\
examples:
  contrail account add ops-account --admin
  contrail account add shop-account --pub orders 'events.*' --sub orders --group billing
  contrail account grant shop-account --pub refunds
  contrail account revoke shop-account --pub refunds
  contrail account rotate shop-account --hours 24     old and new secret are valid for a day
  contrail account test shop-account SEND orders      which entry decides
  contrail account remove shop-account

The file is --file, else the variable CONTRAIL_ACCOUNTS, else plain_acl.yml here. A running broker
sees a change within a second. Secrets are printed once, when they are made.
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = _parser().parse_args(argv)
    path = options.file or os.environ.get(FILE_VARIABLE) or "plain_acl.yml"
    files = AccountFiles(Path(path).absolute())
    code: int = options.act(files, options, sys.stdout if out is None else out)
    return code


def _add(files: AccountFiles, o: argparse.Namespace, out: TextIO) -> int:
    if files.path_of(o.name) is not None:
        raise ClientError(f"there is an account {o.name} already; grant and revoke change it")
    secret = new_secret()
    given: dict[str, Any] = {"secretKey": secret, "admin": o.admin}
    given["topicPerms"] = _entries({}, o, TOPIC)
    given["groupPerms"] = _entries({}, o, GROUP)
    if o.role:
        given["roles"] = o.role
    if o.certificate:
        given["certificates"] = o.certificate
    put_account(files, o.name, given, now_ms=SystemClock().now_ms())
    text = f"account {o.name} in {files.main}\nsecret  {secret}   (shown once)"
    return _say(out, o, text, name=o.name, secret=secret)


def _list(files: AccountFiles, o: argparse.Namespace, out: TextIO) -> int:
    table = files.load(SystemClock().now_ms())
    for account in table.accounts.values():
        if o.json:
            row = {"name": account.name, "admin": account.is_admin, "file": account.origin}
            out.write(json.dumps({**row, "topics": _shown(account.topics.literal)}) + "\n")
            continue
        kind = "administrator" if account.is_admin else "account"
        rotating = ", two secrets" if len(account.secrets) > 1 else ""
        out.write(f"{account.name:<24} {kind}, secret {masked(account.secrets[0])}{rotating}\n")
        for word, grants in (("topic", account.topics), ("group", account.groups)):
            names = {**grants.literal, **{f"{p}*": bits for p, bits in grants.prefixes}}
            for name, bits in names.items():
                out.write(f"    {word} {name} {text_of(bits)}\n")
    if table.white.texts:
        out.write(f"not checked at all: {', '.join(table.white.texts)}\n")
    return 0


def _change(files: AccountFiles, o: argparse.Namespace, out: TextIO) -> int:
    entry = _entry(files, o.name)
    given: dict[str, Any] = {}
    for key, kind in (("topicPerms", TOPIC), ("groupPerms", GROUP)):
        before = dict(text.split("=", 1) for text in entry.get(key) or [])
        given[key] = _entries(before, o, kind, revoke=o.revoke)
    put_account(files, o.name, given, now_ms=SystemClock().now_ms())
    return _say(out, o, f"account {o.name} changed", name=o.name)


def _rotate(files: AccountFiles, o: argparse.Namespace, out: TextIO) -> int:
    entry = _entry(files, o.name)
    now_ms, secret = SystemClock().now_ms(), new_secret()
    given = {
        "secretKey": secret,
        "oldSecretKey": entry["secretKey"],
        "oldSecretUntil": now_ms + int(o.hours * 3_600_000),
    }
    put_account(files, o.name, given, now_ms=now_ms)
    text = (
        f"account {o.name}: both secrets are valid for {o.hours:g} h\n"
        f"secret  {secret}   (shown once)"
    )
    return _say(out, o, text, name=o.name, secret=secret)


def _remove(files: AccountFiles, o: argparse.Namespace, out: TextIO) -> int:
    if not remove_account(files, o.name, now_ms=SystemClock().now_ms()):
        raise ClientError(f"no account {o.name} in {files.main}")
    return _say(out, o, f"account {o.name} removed", name=o.name)


def _test(files: AccountFiles, o: argparse.Namespace, out: TextIO) -> int:
    account = files.load(SystemClock().now_ms()).accounts.get(o.name)
    if account is None:
        raise ClientError(f"no account {o.name} in {files.main}")
    verb = o.verb.upper()
    needs = {
        "SEND": Need(TOPIC, o.resource, PUB),
        "READ": Need(TOPIC, o.resource, SUB),
        "GROUP": Need(GROUP, o.resource, SUB),
    }
    if verb not in needs and verb not in RequestCode.__members__:
        raise UsageError(f"{o.verb}: expected SEND, READ, GROUP or the name of a request code")
    if account.is_admin:
        return _say(out, o, "allowed: it is an administrator", allowed=True)
    if verb not in needs:
        text = f"refused: {verb} needs an administrator, or the topic or group it names"
        _say(out, o, text, allowed=False)
        return 1
    need = needs[verb]
    refusal = account.refusal(need)
    line = _line(account, need)
    text = f"{'allowed' if refusal is None else 'refused'}: {line}"
    _say(out, o, text, allowed=refusal is None, decided_by=line)
    return 0 if refusal is None else 1


def _say(out: TextIO, o: argparse.Namespace, text: str, **row: Any) -> int:
    out.write((json.dumps(row) if o.json else text) + "\n")
    return 0


def _line(account: Account, need: Need) -> str:
    grants = account.topics if need.kind == TOPIC else account.groups
    if need.name in grants.literal:
        return f"{need.kind}Perms {need.name}={text_of(grants.literal[need.name])}"
    for prefix, bits in grants.prefixes:
        if need.name.startswith(prefix):
            return f"{need.kind}Perms {prefix}*={text_of(bits)}"
    return f"default{need.kind.capitalize()}Perm {text_of(grants.default)}"


def _entries(
    before: dict[str, str], o: argparse.Namespace, kind: str, *, revoke: bool = False
) -> list[str]:
    bits = {name: bits_of(text) for name, text in before.items()}
    wanted = [(PUB, o.pub), (SUB, o.sub)] if kind == TOPIC else [(SUB, o.group)]
    for bit, names in wanted:
        for name in names:
            if revoke:
                left = bits.get(name, 0) & ~bit
                bits.pop(name, None)
                bits.update({name: left} if left else {})
            else:
                bits[name] = (bits.get(name, 0) & ~1) | bit
    return [f"{name}={text_of(value)}" for name, value in bits.items()]


def _entry(files: AccountFiles, name: str) -> dict[str, Any]:
    path = files.path_of(name)
    if path is None:
        raise ClientError(f"no account {name} in {files.main}")
    found: dict[str, Any] = next(
        e for e in read_document(path)["accounts"] if e.get("accessKey") == name
    )
    return found


def _shown(literal: Any) -> list[str]:
    return [f"{name}={text_of(bits)}" for name, bits in literal.items()]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("account", "Manage the accounts of an access control list.", _EPILOG)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, act, text in (
        ("add", _add, "make an account and its secret"),
        ("list", _list, "show accounts and what they may do"),
        ("grant", _change, "allow more"),
        ("revoke", _change, "allow less"),
        ("rotate", _rotate, "a new secret; the old one stays valid for a while"),
        ("remove", _remove, "remove an account"),
        ("test", _test, "say whether an account may, and which entry decides"),
    ):
        one = commands.add_parser(name, help=text, description=text)
        one.set_defaults(act=act, revoke=name == "revoke")
        one.add_argument("--file", metavar="FILE", help="plain_acl.yml of the broker")
        one.add_argument("--json", action="store_true", help="one JSON object a line")
        if name == "list":
            continue
        one.add_argument("name", metavar="NAME")
        if name in ("add", "grant", "revoke"):
            one.add_argument("--pub", nargs="+", default=[], metavar="TOPIC", help="may send to")
            one.add_argument("--sub", nargs="+", default=[], metavar="TOPIC", help="may read")
            one.add_argument("--group", nargs="+", default=[], metavar="GROUP", help="may join")
        if name == "add":
            one.add_argument("--admin", action="store_true", help="may do everything")
            one.add_argument("--role", nargs="+", default=[], help="roles of the file")
            one.add_argument(
                "--certificate", nargs="+", default=[], metavar="CN", help="names of certificates"
            )
        elif name == "rotate":
            one.add_argument("--hours", type=positive, default=24.0, help="how long (24)")
        elif name == "test":
            one.add_argument("verb", metavar="SEND|READ|GROUP")
            one.add_argument("resource", metavar="NAME-OF-TOPIC-OR-GROUP")
    return parser
