"""The unmodified Java clients and mqadmin against our broker with access control."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.test_broker_interop import Up

from testkit.peer import SERIALIZATIONS, VERSIONS, JavaCall, MqAdmin, Row

pytestmark = pytest.mark.timeout(240)

Run = Callable[..., list[Row]]
Start = Callable[..., JavaCall]
ACCOUNTS = Path(__file__).parents[1] / "golden" / "data" / "security" / "plain_acl.yml"
ADMIN = ("adminAccount", "adminSecret")
APP = ("appAccount", "appSecret")
WIDE = ("wideAccount", "wideSecret")
BARE = ("bareAccount", "bareSecret")
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    home = tmp_path_factory.mktemp("acl")
    shutil.copy(ACCOUNTS, home / "plain_acl.yml")
    started = Up(home, aclEnable="true", transactionCheckInterval="1000", transactionTimeOut="1000")
    yield started
    started.stop()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """``tool(version, account, *words)``: mqadmin with the account of its tools.yml."""
    tools: dict[Any, MqAdmin] = {}

    def run(version: str, account: tuple[str, str], *words: str) -> str:
        key = (version, account)
        if key not in tools:
            tools[key] = MqAdmin(version, tmp_path_factory.mktemp("tool"), account=account)
        return tools[key].run(*words)

    yield run
    for started in tools.values():
        started.close()


def key(account: tuple[str, str]) -> dict[str, str]:
    return {"accessKey": account[0], "secretKey": account[1]}


def send(run: Run, version: str, up: Up, topic: str, who: Any, **more: Any) -> Row:
    """The first row after ready: sent or failed."""
    given = {} if who is None else key(who)
    more.setdefault("messages", [{"body": "x"}])
    rows = run(
        version, "produce", namesrv=up.namesrv, topic=topic, group="pg", retries=0, **given, **more
    )
    return next(row for row in rows if row["event"] in ("sent", "failed"))


def topics(tool: Callable[..., str], version: str, up: Up) -> None:
    for topic in ("sec_both", "sec_pub", "sec_sub", "sec_none", "sec_any"):
        said = tool(version, ADMIN, "updateTopic", "-b", up.broker, "-t", topic, "-n", up.namesrv)
        assert "success" in said, said


@pytest.mark.parametrize("serialization", SERIALIZATIONS)
@pytest.mark.parametrize("mode", ["sync", "async", "oneway", "batch"])
def test_sends_with_the_right_key(
    up: Up, java_run: Run, tool: Any, version: str, serialization: str, mode: str
) -> None:
    topics(tool, version, up)
    messages = [{"body": "grün", "tags": "a", "keys": "k1 k2", "properties": {"x": "ü"}}] * 3
    found = send(
        java_run, version, up, "sec_both", APP, mode=mode, messages=messages,
        serialization=serialization,
    )  # fmt: skip
    assert found["event"] == "sent", found


def test_refusals(up: Up, java_run: Run, tool: Any, version: str) -> None:
    topics(tool, version, up)
    for topic, who, text in (
        ("sec_both", None, "No accessKey is configured"),
        ("sec_both", ("appAccount", "notTheSecret"), "Check signature failed for accessKey=app"),
        ("sec_both", ("ghostAccount", "appSecret"), "No acl config for ghostAccount"),
        ("sec_sub", APP, "No permission for topic:sec_sub"),
        ("sec_none", WIDE, "No permission for topic:sec_none"),
        ("sec_any", APP, "No default permission for topic:sec_any"),
        ("sec_both", BARE, "No default permission for topic:sec_both"),
    ):
        for mode in ("sync", "batch"):
            found = send(java_run, version, up, topic, who, mode=mode)
            assert found["event"] == "failed", (topic, who, found)
            assert text in found["cause"], found
            assert found["code"] == 1


@pytest.mark.parametrize("command", ["consume", "litepull", "pull"])
def test_consumers(
    up: Up, java_run: Run, java_start: Start, tool: Any, version: str, command: str
) -> None:
    topics(tool, version, up)
    body = f"for {command} {next(NUMBERS)}"
    sent = send(java_run, version, up, "sec_both", APP, messages=[{"body": body}])
    assert sent["event"] == "sent"
    call = java_start(
        version, command, namesrv=up.namesrv, topic="sec_both", group="sec_group",
        timeoutMs=20000, **({} if command == "pull" else {"count": 1000}), **key(APP),
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while body not in [row["body"] for row in call.of("message")]:
        assert time.monotonic() < deadline
        call.expect("message", count=len(call.of("message")) + 1)
    call.stop()
    refused = java_start(
        version, command, namesrv=up.namesrv, topic="sec_pub", group="sec_group",
        timeoutMs=1500, count=1, **key(APP),
    )  # fmt: skip
    assert not [row for row in refused.finish() if row["event"] == "message"]


def test_retries_and_transactions(
    up: Up, java_run: Run, java_start: Start, tool: Any, version: str
) -> None:
    topics(tool, version, up)
    body = f"again {next(NUMBERS)}"
    call = java_start(
        version, "consume", namesrv=up.namesrv, topic="sec_both", group="sec_group2",
        fail=1, delayLevelWhenNext=1, **key(APP), **{"from": "LAST"},
    )  # fmt: skip
    call.expect("ready")
    states = ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]
    rows = java_run(
        version, "produce", namesrv=up.namesrv, topic="sec_both", mode="transaction", group="tx",
        messages=[{"body": f"{body} {state}"} for state in states], states=states,
        checkStates=states[:1] * 3, lingerMs=6000, **key(APP),
    )  # fmt: skip
    assert [row["event"] for row in rows if row["event"] in ("sent", "failed")] == ["sent"] * 3
    deadline = time.monotonic() + 40

    def times(state: str) -> int:
        return sum(row["body"] == f"{body} {state}" for row in call.of("message"))

    while times("COMMIT_MESSAGE") < 2 or times("UNKNOW") < 2:
        assert time.monotonic() < deadline, call.rows[-5:]
        call.expect("message", count=len(call.of("message")) + 1)
    assert times("ROLLBACK_MESSAGE") == 0
    call.stop()


def test_mqadmin_manages_accounts(up: Up, java_run: Run, tool: Any, version: str) -> None:
    topics(tool, version, up)
    name = f"fresh{version.replace('.', '')}x"
    where = ("-b", up.broker, "-n", up.namesrv)
    words = ("updateAclConfig", *where, "-a", name, "-s", "freshSecret", "-t", "sec_any=PUB")
    assert "success" in tool(version, ADMIN, *words)
    found = send(java_run, version, up, "sec_any", (name, "freshSecret"))
    assert found["event"] == "sent", found
    assert send(java_run, version, up, "sec_both", (name, "freshSecret"))["event"] == "failed"
    refused = tool(version, APP, "updateAclConfig", *where, "-a", "evilAccount", "-s", "evilSecret",
                   "-m", "true")  # fmt: skip
    assert "Need admin permission" in refused
    assert "success" in tool(version, ADMIN, "clusterAclConfigVersion", *where)
    if version.startswith("4"):
        shown = tool(version, ADMIN, "getAclConfig", *where)
        assert name in shown
        assert "freshSecret" not in shown
        assert "adminSecret" not in shown
    assert "success" in tool(version, ADMIN, "deleteAclConfig", *where, "-a", name)
    found = send(java_run, version, up, "sec_any", (name, "freshSecret"))
    assert f"No acl config for {name}" in found["cause"]
    words = ("updateGlobalWhiteAddr", *where, "-g", "10.99.99.1,10.99.99.2")
    assert "success" in tool(version, ADMIN, *words)


def test_files_are_read_again(up: Up, java_run: Run, tool: Any, version: str) -> None:
    topics(tool, version, up)
    name = f"later{version.replace('.', '')}x"
    folder = up.home / "acl"
    folder.mkdir(exist_ok=True)
    text = f"accounts:\n- {{accessKey: {name}, secretKey: laterSecret, defaultTopicPerm: PUB}}\n"
    (folder / f"{name}.yml").write_text(text)
    who = (name, "laterSecret")
    deadline = time.monotonic() + 30
    while send(java_run, version, up, "sec_any", who)["event"] != "sent":
        assert time.monotonic() < deadline
    (folder / f"{name}.yml").unlink()
    deadline = time.monotonic() + 30
    while send(java_run, version, up, "sec_any", who)["event"] == "sent":
        assert time.monotonic() < deadline


def test_queries_and_admin_codes(up: Up, java_run: Run, tool: Any, version: str) -> None:
    topics(tool, version, up)
    mark = f"key{next(NUMBERS)}"
    message = [{"body": "found", "keys": mark}]
    sent = send(java_run, version, up, "sec_both", APP, messages=message)
    where = ("-n", up.namesrv)
    said = tool(version, APP, "queryMsgById", "-i", sent["offsetMsgId"], *where)
    assert sent["offsetMsgId"] in said, said
    said = tool(version, ADMIN, "queryMsgByKey", "-t", "sec_both", "-k", mark, *where)
    assert sent["msgId"] in said, said
    said = tool(version, APP, "queryMsgByUniqueKey", "-t", "sec_both", "-i", sent["msgId"], *where)
    assert sent["msgId"] in said, said
    assert "Need admin" in tool(
        version, APP, "updateTopic", "-b", up.broker, "-t", "sec_new", *where
    )
    assert "Need admin" in tool(version, APP, "getBrokerConfig", "-b", up.broker, *where)
    words = ("updateKvConfig", "-s", "ns", "-k", "k", "-v", "v", *where)
    assert "Need admin" in tool(version, APP, *words)
    assert "success" in tool(version, ADMIN, *words)
    said = tool(version, ADMIN, "deleteTopic", "-t", "sec_none", "-c", "DefaultCluster", *where)
    assert "success" in said, said
