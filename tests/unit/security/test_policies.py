"""Policies: which entry decides, against the verdicts of 5.3.3 where those are the documented."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.protocol.acl import signed
from contrailmq.protocol.command import Command
from contrailmq.security.accounts import Accounts
from contrailmq.security.files import AccountFiles
from contrailmq.security.guard import AccessDenied, Guard
from contrailmq.security.policies import Entry, decide, make_entry

GOLDEN = Path(__file__).parents[2] / "golden" / "data" / "security" / "5.3.3" / "policies.jsonl"


def entry(resource: str, actions: str, decision: str, *sources: str, kind: str = "Custom") -> Entry:
    return make_entry(
        resource, actions.split(","), decision=decision, sources=sources, policy_type=kind
    )


def test_verdicts_of_5_3() -> None:
    """Every line of one entry, and every one whose order 5.3.3 has right."""
    count = 0
    for line in GOLDEN.read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        names = [item["resource"] for item in row["entries"]]
        is_order_wrong = len(names) > 1 and all(name.startswith("Topic:o") for name in names)
        if is_order_wrong or ("Topic:*" in names[:2] and len(names) > 1):
            continue
        entries = [
            make_entry(
                item["resource"], item["actions"], decision=item["decision"],
                sources=item["sourceIps"] or (), policy_type=row["policyType"],
            )
            for item in row["entries"]
        ]  # fmt: skip
        for asked, refused in row["refused"].items():
            resource, _, actions = asked.partition(" ")
            kind, _, name = resource.partition(":")
            verdict = decide(entries, (kind, name), actions.split(","), "192.0.2.7")
            assert bool(verdict) == (refused is None), (row["entries"], asked)
            if refused is not None:
                assert ("no matched" in refused) == (verdict is None)
            count += 1
    assert count > 100


LADDER = [
    entry("Topic:order1", "Pub", "Allow"), entry("Topic:order*", "Pub", "Deny"),
    entry("Topic:o*", "Pub", "Allow"), entry("Topic:*", "Pub", "Deny"), entry("*", "All", "Allow"),
]  # fmt: skip


@pytest.mark.parametrize("order", list(itertools.permutations(range(5)))[::7])
def test_the_documented_order_whatever_was_written_first(order: tuple[int, ...]) -> None:
    entries = [LADDER[place] for place in order]
    verdicts = {
        name: decide(entries, ("Topic", name), ["Pub"], "10.0.0.1")
        for name in ("order1", "order2", "other", "x")
    }
    assert verdicts == {"order1": True, "order2": False, "other": True, "x": False}
    assert decide(entries, ("Group", "g"), ["Sub"], "10.0.0.1") is True


def test_of_two_equal_ones_deny_wins_and_custom_outranks_default() -> None:
    allow, deny = entry("Topic:a", "Pub", "Allow"), entry("Topic:a", "Pub", "Deny")
    assert decide([allow, deny], ("Topic", "a"), ["Pub"], "") is False
    assert decide([deny, allow], ("Topic", "a"), ["Pub"], "") is False
    default = entry("Topic:a", "Pub", "Deny", kind="Default")
    assert decide([default, entry("*", "All", "Allow")], ("Topic", "a"), ["Pub"], "") is True


@pytest.mark.parametrize(
    ("resource", "actions", "decision", "text"),
    [
        ("Topic:a", ["Any"], "Allow", "The actions can not be Any."),
        ("Topic:a", ["Pub"], None, "The decision is null or illegal."),
        ("Nothing:a", ["Pub"], "Allow", "The resource is null."),
        ("", ["Pub"], "Allow", "The resource is null."),
        ("Topic:a", [], "Allow", "The actions is empty."),
        ("Topic:a", ["Eat"], "Allow", "The actions is illegal: Eat"),
    ],
)
def test_bad_entries(resource: str, actions: list[str], decision: str | None, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_entry(resource, actions, decision=decision)
    assert str(refused.value).startswith(text)


class At:
    """A connection from an address."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.principals: tuple[str, ...] = ()


def test_policies_and_grants_are_one_table(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        "accounts:\n"
        "- accessKey: bob\n  secretKey: pw\n  userStatus: enable\n  topicPerms: [old=PUB]\n"
        "  policies:\n"
        "  - {resource: 'Topic:order*', actions: [Pub], decision: Allow, sourceIps: [10.0.0.0/8]}\n"
        "  - {resource: 'Topic:*', actions: [Create], decision: Allow}\n"
        "- {accessKey: gone, secretKey: pw, userStatus: disable}\n"
    )
    accounts = Accounts(AccountFiles(path), clock=SystemClock())
    accounts.reload()
    guard = Guard(accounts)

    def ask(code: int, peer: str = "10.1.1.1:5", user: str = "bob", **fields: str) -> str | None:
        request = Command(code, fields=signed(fields, b"", access_key=user, secret_key="pw"))
        try:
            guard.check(request, At(peer))
        except AccessDenied as refused:
            return refused.text
        return None

    assert ask(310, b="order1") is None
    assert ask(310, "192.0.2.1:5", b="order1") == "No permission for topic:order1"
    assert ask(310, b="old") is None
    assert ask(310, b="else") == "No permission for topic:else"
    assert ask(17, topic="new") is None
    assert (ask(215, topic="new") or "").startswith("Need admin permission")
    assert (ask(25) or "").startswith("Need admin permission")
    assert ask(310, user="gone", b="order1") == "User:gone is disabled."
