"""Account files: what is read, what is refused, how changes are written, what is never shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.security.account import GROUP, TOPIC, Need, masked
from contrailmq.security.accounts import Accounts, account_path
from contrailmq.security.changes import put_account, put_white, remove_account
from contrailmq.security.files import AccountFiles
from contrailmq.security.permission import PUB, SUB

PLAIN = """\
globalWhiteRemoteAddresses: [10.10.103.*]
roles:
  shop: {topicPerms: ["orders*=PUB", "secret=DENY"], groupPerms: [billing=SUB]}
accounts:
- {accessKey: shopAccount, secretKey: theirSecret, roles: [shop], topicPerms: [ordersOld=SUB]}
- {accessKey: otherAccount, secretKey: otherSecret, defaultTopicPerm: PUB|SUB}
"""


@pytest.fixture
def files(tmp_path: Path) -> AccountFiles:
    (tmp_path / "plain_acl.yml").write_text(PLAIN)
    return AccountFiles(tmp_path / "plain_acl.yml")


def accounts_of(files: AccountFiles) -> Accounts:
    accounts = Accounts(files, clock=SystemClock())
    accounts.start()
    return accounts


def test_roles_and_prefixes(files: AccountFiles) -> None:
    shop = files.load().accounts["shopAccount"]
    assert shop.refusal(Need(TOPIC, "orders-eu", PUB)) is None
    assert shop.refusal(Need(TOPIC, "ordersOld", SUB)) is None
    assert shop.refusal(Need(TOPIC, "ordersOld", PUB)) == "No permission for topic:ordersOld"
    assert shop.refusal(Need(TOPIC, "secret", PUB)) == "No permission for topic:secret"
    assert shop.refusal(Need(TOPIC, "else", PUB)) == "No default permission for topic:else"
    assert shop.refusal(Need(GROUP, "billing", SUB)) is None


def test_the_longest_prefix_counts(tmp_path: Path) -> None:
    text = (
        "accounts:\n- {accessKey: longest, secretKey: longest, topicPerms: ['a*=PUB', 'ab*=DENY']}"
    )
    (tmp_path / "p.yml").write_text(text)
    found = AccountFiles(tmp_path / "p.yml").load().accounts["longest"]
    assert found.refusal(Need(TOPIC, "ax", PUB)) is None
    assert found.refusal(Need(TOPIC, "abx", PUB)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "accounts: [{accessKey: short, secretKey: longEnough}]",
        "accounts: [{accessKey: longEnough, secretKey: short1}]",
        "accounts: [{accessKey: longEnough, secretKey: longEnough, topicPerms: [a]}]",
        "accounts: [{accessKey: longEnough, secretKey: longEnough, topicPerm: [a=PUB]}]",
        "accounts: [{accessKey: longEnough, secretKey: longEnough, roles: [none]}]",
        "accounts: [{accessKey: longEnough, secretKey: longEnough, admin: maybe}]",
        "accounts: [{accessKey: longEnough, secretKey: longEnough, whiteRemoteAddress: 1.2.3}]",
        "accounts: [{accessKey: longEnough, secretKey: longEnough, limits: {connections: -1}}]",
        "accounts: {accessKey: longEnough}",
        "accounts: [1]",
        "- a list",
        "acounts: []",
        "globalWhiteRemoteAddresses: [localhost]",
        "accounts: [{accessKey: hiddenSecret, secretKey: 'hiddenSecret",
        "accounts: [{accessKey: longEnough, secretKey: '${CONTRAIL_NO_SUCH}'}]",
        "accounts: [{accessKey: longEnough, secretKey: 'file:/no/such/file'}]",
    ],
)
def test_a_bad_file_changes_nothing_and_shows_no_secret(files: AccountFiles, text: str) -> None:
    accounts = accounts_of(files)
    before = accounts.table
    files.main.write_text(text)
    with pytest.raises(ConfigError) as refused:
        files.load()
    assert "hiddenSecret" not in str(refused.value).replace("'hiddenSecret'", "")
    accounts.look()
    assert accounts.table is before


def test_changes_are_seen_and_what_is_taken_out_is_gone(files: AccountFiles) -> None:
    accounts = accounts_of(files)
    told: list[int] = []
    accounts.on_change.append(lambda: told.append(1))
    accounts.look()
    assert not told
    files.main.write_text("accounts: [{accessKey: freshAccount, secretKey: freshSecret}]")
    accounts.look()
    assert set(accounts.table.accounts) == {"freshAccount"}
    assert accounts.table.white.is_empty
    inner = files.folder / "deep"
    inner.mkdir(parents=True)
    (inner / "more.yaml").write_text("accounts: [{accessKey: innerAccount, secretKey: aSecret}]")
    (files.folder / "tools.yml").write_text("accessKey: x")
    accounts.look()
    assert set(accounts.table.accounts) == {"freshAccount", "innerAccount"}
    assert len(told) == 2


def test_written_files_are_whole_and_private(files: AccountFiles) -> None:
    put_account(files, "newAccount", {"secretKey": "newSecret", "admin": True}, now_ms=7)
    put_account(files, "shopAccount", {"secretKey": "changedOne"}, now_ms=8)
    table = files.load()
    assert table.accounts["newAccount"].is_admin
    assert table.accounts["shopAccount"].secrets == ("changedOne",)
    assert table.accounts["shopAccount"].refusal(Need(TOPIC, "orders1", PUB)) is None
    version = table.versions[str(files.main)]
    assert (version.counter, version.timestamp) == (2, 8)
    assert stat.S_IMODE(files.main.stat().st_mode) == 0o600
    put_white(files, ["10.0.0.1", "10.0.0.2"], path="", now_ms=9)
    assert files.load().white.matches("10.0.0.2")
    assert remove_account(files, "newAccount", now_ms=10)
    assert not remove_account(files, "newAccount", now_ms=10)
    assert "newAccount" not in files.load().accounts


@pytest.mark.parametrize(
    "given",
    [
        {"secretKey": "short"},
        {"secretKey": "longEnough", "topicPerms": ["a=pub"]},
        {"secretKey": "longEnough", "topicPerms": ["a"]},
        {"secretKey": "longEnough", "whiteRemoteAddress": "nonsense"},
    ],
)
def test_a_bad_change_leaves_the_file(files: AccountFiles, given: dict[str, object]) -> None:
    before = files.main.read_bytes()
    with pytest.raises(ConfigError):
        put_account(files, "newAccount", given, now_ms=1)
    with pytest.raises(ConfigError):
        put_white(files, ["localhost"], path="", now_ms=1)
    with pytest.raises(ConfigError, match="none of this broker"):
        put_white(files, [], path="/etc/passwd", now_ms=1)
    assert files.main.read_bytes() == before


def test_two_secrets_until_the_old_one_ends(tmp_path: Path) -> None:
    text = (
        "accounts:\n- {accessKey: rotating, secretKey: newSecret, oldSecretKey: oldSecret,"
        " oldSecretUntil: 1000}"
    )
    (tmp_path / "p.yml").write_text(text)
    files = AccountFiles(tmp_path / "p.yml")
    assert files.load(999).accounts["rotating"].secrets == ("newSecret", "oldSecret")
    assert files.load(1000).accounts["rotating"].secrets == ("newSecret",)


def test_secrets_of_the_environment_and_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_SECRET", "fromTheEnvironment")
    (tmp_path / "key").write_text("fromTheFile\n")
    text = (
        "accounts:\n- {accessKey: account1, secretKey: '${SHOP_SECRET}'}\n"
        f"- {{accessKey: account2, secretKey: 'file:{tmp_path}/key'}}"
    )
    (tmp_path / "p.yml").write_text(text)
    found = AccountFiles(tmp_path / "p.yml").load().accounts
    assert found["account1"].secrets == ("fromTheEnvironment",)
    assert found["account2"].secrets == ("fromTheFile",)
    assert "fromThe" not in repr(found)
    assert masked("fromTheFile") == "fro…le"
    assert masked("short") == "…"


def test_where_the_file_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "conf").mkdir(parents=True)
    beside = tmp_path / "broker.conf"
    assert account_path(str(beside), None, "/s") == tmp_path / "plain_acl.yml"
    assert account_path(None, None, "/s") == Path("/s/config/plain_acl.yml")
    assert account_path(None, str(home), "/s") == home / "conf" / "plain_acl.yml"
    (home / "conf" / "plain_acl.yml").write_text("")
    assert account_path(str(beside), str(home), "/s") == home / "conf" / "plain_acl.yml"
