"""The first minutes of a new user: the commands of the README, and the mistakes everybody makes.

Every mistake gets one line that says what to do, and exit code 1; a wrong command line, 2.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contrailmq import main as command
from contrailmq import up as up_module
from contrailmq.broker import main as broker_main
from contrailmq.usage import listen_fault

SRC = str(Path(__file__).resolve().parents[2] / "src")
CONTRAIL = [sys.executable, "-m", "contrailmq.main"]


def _contrail(*argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"}
    return subprocess.run(
        [*CONTRAIL, *argv],
        env={**kept, "PYTHONPATH": SRC, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """``contrail up`` as in the README, but for ports and folder; what its line says."""
    store = tmp_path_factory.mktemp("up") / "store"
    process = subprocess.Popen(
        [*CONTRAIL, "up", "--namesrv-port", "0", "--port", "0", "--store", str(store)],
        env={**os.environ, "PYTHONPATH": SRC},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"name server (\S+), broker (\S+), store (\S+); ready in", line)
        assert found is not None, line
        yield dict(zip(("namesrv", "broker", "store"), found.groups(), strict=True))
        process.terminate()
        assert process.wait(30) == 0


def test_the_commands_of_the_readme(up: dict[str, str]) -> None:
    where = {"NAMESRV_ADDR": up["namesrv"]}
    assert _contrail("send", "orders", "hello", "--tags", "paid", **where).returncode == 0
    shown = _contrail("tail", "orders", **where)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "hello" in shown.stdout
    examined = _contrail("doctor", **where)
    assert examined.returncode == 0, examined.stdout
    [row] = [
        json.loads(line) for line in _contrail("cluster", "--json", **where).stdout.splitlines()
    ]
    assert row["address"] == up["broker"]


def test_a_terminal_that_does_not_have_all_characters(up: dict[str, str]) -> None:
    where = {"NAMESRV_ADDR": up["namesrv"]}
    _contrail("send", "words", "grün", **where)
    shown = _contrail("tail", "words", PYTHONIOENCODING="ascii", **where)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.endswith("gr?n\n")


def test_the_filters_of_the_examples_work(up: dict[str, str]) -> None:
    """The broker's own default is Java's, without them."""
    where = {"NAMESRV_ADDR": up["namesrv"]}
    for amount in ("5", "500"):
        _contrail("send", "amounts", amount, "-p", f"amount={amount}", **where)
    shown = _contrail("tail", "amounts", "--sql", "amount > 100", "--body", **where)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "500\n", "")


def test_keys_of_the_settings_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("fileReservedTime=5\ndeleteWhen=05\n")
    words = ["--set", "fileReservedTime=6", "--set", "listenPort=1", "--port", "2"]
    shown = _contrail("broker", "-c", str(file), *words, "-p").stdout.splitlines()
    assert {"fileReservedTime=6", "deleteWhen=05", "listenPort=2"} <= set(shown)
    assert "enablePropertyFilter=false" in shown
    line = _told(_contrail("broker", "--set", "fileReservdTime=6", "-p"))
    assert "unknown key fileReservdTime" in line
    line = _told(_contrail("up", "--set", "fileReservedTime=x"))
    assert "fileReservedTime = 'x': expected a whole number" in line
    done = _contrail("up", "--set", "nonsense")
    assert (done.returncode, "'nonsense': expected KEY=VALUE" in done.stderr) == (2, True)


def test_several_brokers_share_the_settings(tmp_path: Path) -> None:
    options = up_module._parser().parse_args(
        ["--brokers", "2", "--set", "fileReservedTime=7", "--store", str(tmp_path)]
    )
    conf = up_module._conf(options)
    words = up_module._child_command(conf, options, number=1, namesrv="127.0.0.1:9876")
    assert words[1:4] == ["-m", "contrailmq.main", "broker"]
    child = broker_main.load_conf(broker_main._parser().parse_args(words[4:]))
    assert (child.store.retention_hours, child.broker.property_filter) == (7, True)
    assert child.broker.broker_name == "broker-1"
    assert child.store.root == f"{tmp_path}/broker-1"


def _told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a failure."""
    assert (done.returncode, done.stdout) == (1, ""), done
    [line] = done.stderr.splitlines()
    assert line.startswith("contrail: ")
    return line


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def test_a_port_that_is_taken(up: dict[str, str], tmp_path: Path) -> None:
    store = ["--store", str(tmp_path)]
    taken, broker = _port(up["namesrv"]), _port(up["broker"])
    line = _told(_contrail("up", "--namesrv-port", taken, "--port", "0", *store))
    assert f"port {taken} on 127.0.0.1 cannot be used" in line
    assert "--namesrv-port 0" in line
    line = _told(_contrail("up", "--namesrv-port", "0", "--port", broker, *store))
    assert f"port {broker} on 127.0.0.1 cannot be used" in line
    assert "--port 0" in line
    line = _told(_contrail("namesrv", "--host", "127.0.0.1", "--port", taken, *store))
    assert taken in line
    assert "--port 0" in line


def test_several_brokers_of_which_none_can_start(up: dict[str, str], tmp_path: Path) -> None:
    """The first says why, and nobody says it again; no stack trace of a child either."""
    ports = ["--namesrv-port", "0", "--port", _port(up["broker"])]
    done = _contrail("up", "--brokers", "3", *ports, "--store", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    reason, consequence = done.stderr.splitlines()
    assert f"port {_port(up['broker'])} on 127.0.0.1 cannot be used" in reason
    assert consequence.startswith("contrail: a broker did not start, for the reason above")


def test_the_vip_port_that_is_taken(tmp_path: Path) -> None:
    for number in range(5):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            below = taken.getsockname()[1]
            ports = ["--namesrv-port", "0", "--port", str(below + 2)]
            line = _told(_contrail("up", *ports, "--store", str(tmp_path / str(number))))
        if f"port {below + 2} on" not in line:  # else somebody has that one, too
            break
    assert f"port {below} on 127.0.0.1 cannot be used" in line
    assert f"the VIP port of a broker on {below + 2}" in line


@pytest.mark.parametrize("server", ["up", "namesrv", "broker"])
def test_an_address_of_another_machine(server: str, tmp_path: Path) -> None:
    ports = ["--namesrv-port", "0"] if server == "up" else []
    line = _told(
        _contrail(server, *ports, "--port", "0", "--host", "203.0.113.77", "--store", str(tmp_path))
    )
    assert "203.0.113.77 is not an address of this machine" in line
    assert "with --host" in line


@pytest.mark.parametrize("server", ["up", "broker"])
def test_a_host_that_is_no_name(server: str, tmp_path: Path) -> None:
    ports = ["--namesrv-port", "0"] if server == "up" else []
    line = _told(
        _contrail(server, *ports, "--port", "0", "--host", "a name", "--store", str(tmp_path))
    )
    assert "a name" in line
    assert ("expected an IP address or a host name" in line) is (server == "broker")


def test_why_a_server_cannot_listen() -> None:
    """Each reason has its own remedy."""

    def told(error: OSError) -> str:
        return listen_fault(error, host="127.0.0.1", port=80, option="--port")

    assert "take another with --port" in told(PermissionError(errno.EACCES, "no"))
    assert "a free port with --port 0" in told(OSError(errno.EADDRINUSE, "no"))
    assert "not an address of this machine" in told(OSError(errno.EADDRNOTAVAIL, "no"))
    assert "not an address of this machine" in told(socket.gaierror(-2, "no such name"))
    assert told(OSError(errno.EIO, "no")).endswith("cannot be used: Input/output error")


@pytest.mark.parametrize("server", ["up", "namesrv", "broker"])
def test_a_file_of_settings_that_cannot_be_read(server: str, tmp_path: Path) -> None:
    line = _told(_contrail(server, "-c", str(tmp_path / "nowhere.conf")))
    assert "nowhere.conf: No such file or directory; -c takes a file you may read" in line
    line = _told(_contrail(server, "-c", str(tmp_path)))
    assert "Is a directory; -c takes a file you may read" in line


def test_a_store_that_is_in_use(up: dict[str, str]) -> None:
    ports = ["--namesrv-port", "0", "--port", "0"]
    line = _told(_contrail("up", *ports, "--store", up["store"]))
    assert "another broker has this store open" in line
    assert "--store DIR" in line


@pytest.mark.skipif(sys.platform != "linux", reason="these folders are Linux's")
@pytest.mark.parametrize("place", ["/proc/version/store", "/sys/store"])
def test_a_folder_that_cannot_be_written(place: str) -> None:
    for words in (["up", "--namesrv-port", "0"], ["namesrv", "--host", "127.0.0.1"]):
        line = _told(_contrail(*words, "--port", "0", "--store", place))
        assert "choose a folder you may write to" in line
        assert "--store DIR" in line


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list"],
        ["send", "orders", "hello"],
        ["tail", "orders"],
        ["consume", "orders", "-g", "g", "-c", "1"],
        ["group", "lag", "g"],
        ["message", "query", "orders", "k"],
        ["cluster"],
        ["admin", "topicList"],
        ["bench", "producer", "-q", "1"],
    ],
    ids=" ".join,
)
def test_no_cluster_is_running(words: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"127.0.0.1:{free.getsockname()[1]}"
        line = _told(_contrail(*words, "-n", address))
    assert "no name server answers" in line
    assert "contrail up starts a cluster here" in line
    assert "Traceback" not in line


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "127.0.0.1:", ":9876"])
def test_an_address_that_is_none(address: str) -> None:
    line = _told(_contrail("topic", "list", "-n", address))
    assert "expected host:port, for example 127.0.0.1:9876" in line


@pytest.mark.parametrize(
    "words", [["topic", "show"], ["tail"], ["topic", "delete", "--yes"]], ids=" ".join
)
def test_a_topic_nobody_made(up: dict[str, str], words: list[str]) -> None:
    line = _told(_contrail(*words, "nowhere", NAMESRV_ADDR=up["namesrv"]))
    assert "nowhere" in line
    assert re.search("contrail topic list|create it", line)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["topic", "create"], "the following arguments are required: topic"),
        (["topic", "craete", "x"], "there is no craete (did you mean create?)"),
        (["store", "zzz", "."], "there is no zzz; there is check, ls, dump, stats"),
        (["admin", "topicLits"], "there is no topicLits (did you mean topicList?)"),
        (["admin", "zzz"], "there is no zzz"),
        (["tail", "orders", "--from", "noon"], "'noon': a span ago"),
        (["send", "orders", "--nonsense"], "unrecognized arguments: --nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line(words: list[str], told: str) -> None:
    done = _contrail(*words)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert told in line
    assert line.endswith("--help shows how")


def test_everything_that_lists_speaks_json() -> None:
    """All commands but servers, the tour and mqadmin's, whose output is mqadmin's."""

    def leaves(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, bool]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, child in action.choices.items():
                    yield from leaves(child, f"{path} {name}")
                return
        yield path, any("--json" in action.option_strings for action in parser._actions)

    without = set()
    for name, entry in command.available().items():
        make = command._find_parser(entry.target)
        parser = make() if make is not None else None
        if isinstance(parser, argparse.ArgumentParser) and name != "admin":
            without |= {path for path, has_json in leaves(parser, name) if not has_json}
    servers = {"up", "namesrv", "broker", "controller", "proxy", "console"}
    assert without == {*servers, "demo"}
