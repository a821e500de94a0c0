"""What is in deploy/ fits the commands: options exist, settings are known, units are sound."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contrailmq import main as command
from contrailmq.broker.config.file import read_conf
from contrailmq.namesrv.settings import Configuration
from contrailmq.settings import parse_properties

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
BINARY = "/opt/contrailmq/bin/contrail"
CONTRAIL = [sys.executable, "-m", "contrailmq.main"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def _understood(words: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; fails when its command would not take it."""
    make = command._find_parser(command.COMMANDS[words[0]].target)
    if make is None:
        pytest.skip(f"{words[0]} is not installed")
    parser = make()
    assert isinstance(parser, argparse.ArgumentParser)
    try:
        return parser.parse_args(list(words[1:]))
    except SystemExit as stop:
        assert stop.code == 0, words
        return argparse.Namespace()


def _compose() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def _misfits(value: Any, shape: Any, path: str = "") -> list[str]:
    """Where a value does not fit: a shape is a type, a pattern, a table of keys, or a list of one.

    The key ``*`` of a table stands for any name.
    """
    if isinstance(shape, str):
        fits = isinstance(value, str) and re.fullmatch(shape, value) is not None
    elif isinstance(shape, dict) and isinstance(value, dict):
        wrong = [f"{path}.{key}" for key in value if key not in shape and "*" not in shape]
        for key in value:
            inner = shape.get(key, shape.get("*"))
            wrong += [] if inner is None else _misfits(value[key], inner, f"{path}.{key}")
        return wrong
    elif isinstance(shape, list) and isinstance(value, list):
        return [wrong for item in value for wrong in _misfits(item, shape[0], f"{path}[]")]
    else:
        fits = not isinstance(shape, dict | list) and type(value) is shape
    return [] if fits else [f"{path} = {value!r}"]


_SPAN = r"\d+(ms|s|m|h)"
_SERVICE = {
    "image": r"[a-z-]+",
    "build": {"context": str, "dockerfile": str, "target": str},
    "command": [str],
    "restart": r"no|always|unless-stopped|on-failure(:\d+)?",
    "stop_grace_period": _SPAN,
    "ulimits": {"nofile": int},
    "ports": [r"\d+:\d+"],
    "volumes": [r"[a-z-]+:/[a-z/]+"],
    "depends_on": {"*": {"condition": "service_(started|healthy|completed_successfully)"}},
    "read_only": bool,
    "tmpfs": [r"/[a-z]+"],
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "networks": [str],
}
_COMPOSE = {
    "name": r"[a-z]+",
    "services": {"*": _SERVICE},
    "volumes": {"*": type(None)},
    "networks": {"*": type(None)},
}


def test_compose_has_the_shape_of_a_compose_file() -> None:
    """The part of the Compose specification that is used; a key that is misspelled is ignored."""
    found = _compose()
    found.pop("x-server")
    assert _misfits(found, _COMPOSE) == []
    found["services"]["namesrv"]["healtcheck"] = {}
    found["services"]["broker-a"]["stop_grace_period"] = "a while"
    found["services"]["spark"]["restart"] = 5
    assert sorted(_misfits(found, _COMPOSE)) == [
        ".services.broker-a.stop_grace_period = 'a while'",
        ".services.namesrv.healtcheck",
        ".services.spark.restart = 5",
    ]


def test_compose_runs_commands_that_exist() -> None:
    services = _compose()["services"]
    assert sorted(services) == ["broker-a", "broker-b", "namesrv", "spark"]
    for service in services.values():
        _understood(service["command"])


def test_compose_serves_what_health_checks_and_others_ask_for() -> None:
    """Brokers advertise the name of their service; each server has /readyz, for the image."""
    services = _compose()["services"]
    for name in ("broker-a", "broker-b", "namesrv"):
        options = _understood(services[name]["command"])
        assert ("metricsExporterType", "PROM") in options.settings
        assert services[name]["read_only"] is True
        if name != "namesrv":
            assert options.name == options.host == name


def _health_check() -> list[str]:
    """The command of the image's HEALTHCHECK."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    [line] = re.findall(r"^HEALTHCHECK .*CMD (\[.+\])$", text, re.MULTILINE)
    found: list[str] = json.loads(line)
    return found


def test_compose_names_things_that_are_there() -> None:
    found = _compose()
    targets = re.findall(r"^FROM \S+ AS (\w+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for service in found["services"].values():
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
        assert build["target"] in targets
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(found["volumes"])
        assert set(service.get("depends_on", ())) <= set(found["services"])


def test_the_image_is_built_from_files_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert "pyproject.toml" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in allowed, f"{name} is kept out by Dockerfile.dockerignore"
    for line in re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE):
        _understood(json.loads(line))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_run_commands_that_exist(unit: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
    words = shlex.split(line.replace("%i", "a"))
    assert words[0] == BINARY
    _understood(words[1:])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_units_are_sound(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text().replace(BINARY, "/bin/true")
        (tmp_path / unit.name.replace("@", "@a")).write_text(text)
    names = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *names],
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = [line for line in done.stderr.splitlines() if "contrail" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_may_do_little(tmp_path: Path, unit: Path) -> None:
    """An exposure of at most 3 of 10, as systemd counts (it was 6 with ProtectSystem alone)."""
    copy = tmp_path / unit.name.replace("@", "@a")
    shutil.copy(unit, copy)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("needs systemd 250")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_the_image_is_built_with_care() -> None:
    """What a linter of Dockerfiles would say."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            assert re.search(r":\d+\.\d+\S* AS ", rest) or rest.startswith("server AS "), line
        if "apt-get install" in rest:
            assert "--no-install-recommends" in rest, line
            assert "apt-get update" in rest, line
            assert rest.rstrip().endswith("rm -rf /var/lib/apt/lists/*"), line
        if "pip install" in rest or "pip wheel" in rest:
            assert "--no-cache-dir" in rest, line
        if word in ("CMD", "ENTRYPOINT"):
            json.loads(rest)
        if word == "WORKDIR":
            assert rest.startswith("/"), line
        assert word != "ADD", line
    stages = re.split(r"^FROM ", "\n".join(lines), flags=re.MULTILINE)[1:]
    for stage in stages[1:]:
        users = re.findall(r"^USER (\w+)$", stage, re.MULTILINE)
        assert users[-1] == "10911", "a server does not run as root; a number, for runAsNonRoot"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """A service of compose.yaml as a process here: with other addresses, ports and folders."""

    def __init__(
        self, name: str, *, folder: Path, names: dict[str, str], host: str = "127.0.0.1"
    ) -> None:
        self._service = _compose()["services"][name]
        self._names = {"/var/lib/contrailmq": str(folder / name), **names}
        self._port = str(_free_port())
        command = self._words(self._service["command"])
        command += ["--set", f"metricsPromExporterPort={self._port}"]
        self.process = subprocess.Popen(
            [*CONTRAIL, *command, "--port", "0", "--host", host],
            stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"(?:localhost|\b\d+\.\d+\.\d+\.\d+):(\d+)", line)
        assert found is not None, line
        self.address = f"127.0.0.1:{found[1]}"

    def _words(self, words: list[str]) -> list[str]:
        for old, new in self._names.items():
            words = [word.replace(old, new) for word in words]
        return words

    def is_healthy(self) -> bool:
        """What the image's health check says."""
        words = [word.replace("5557", self._port) for word in _health_check()]
        done = subprocess.run([sys.executable, *words[1:]], capture_output=True, timeout=60)
        return done.returncode == 0

    def stop(self) -> int:
        """As the engine does; its exit code."""
        self.process.terminate()
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def test_the_services_run_and_are_healthy_until_they_stop(tmp_path: Path) -> None:
    """The commands and health checks of compose.yaml, run here."""
    namesrv = Served("namesrv", folder=tmp_path, names={})
    broker = None
    try:
        assert namesrv.is_healthy()
        names = {"namesrv:9876": namesrv.address}
        broker = Served("broker-a", folder=tmp_path, names=names, host="localhost")
        assert broker.is_healthy()
        assert broker.stop() == 0
        assert not broker.is_healthy()
        assert (tmp_path / "broker-a" / "store" / "checkpoint").exists()
        assert namesrv.stop() == 0
        assert not namesrv.is_healthy()
    finally:
        for served in (namesrv, broker):
            if served is not None and served.process.poll() is None:
                served.stop()


def test_keys_of_a_name_server_on_its_command_line() -> None:
    words = [*CONTRAIL, "namesrv", "-p", "--set"]
    done = subprocess.run([*words, "metricsExporterType=PROM"], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=60)  # fmt: skip
    assert "metricsExporterType=PROM" in done.stdout.splitlines()
    done = subprocess.run([*words, "metricExporterType=PROM"], capture_output=True, text=True,
                          env=ENVIRONMENT, timeout=60)  # fmt: skip
    assert done.returncode != 0
    assert "metricExporterType" in done.stderr


def test_settings_to_start_from_are_known() -> None:
    conf = read_conf(parse_properties((DEPLOY / "broker.conf").read_text()), strict=True)
    assert conf.broker.broker_name == "broker-a"
    names = parse_properties((DEPLOY / "namesrv.conf").read_text())
    assert Configuration.of(names, strict=True).settings.listen_port == 9876


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_units_commands_run(unit: Path, tmp_path: Path) -> None:
    """With the settings to start from, in other folders and on free ports."""
    settings, state = tmp_path / "etc", tmp_path / "lib"
    settings.mkdir()
    shutil.copy(DEPLOY / "namesrv.conf", settings / "namesrv.conf")
    shutil.copy(DEPLOY / "broker.conf", settings / "broker-a.conf")
    [line] = re.findall(r"^ExecStart=\S+ (.+)$", unit.read_text(), re.MULTILINE)
    line = line.replace("%i", "a").replace("/etc/contrailmq", str(settings))
    words = shlex.split(line.replace("/var/lib/contrailmq", str(state)))
    process = subprocess.Popen(
        [*CONTRAIL, *words, "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert "boot success" in process.stdout.readline()
        process.terminate()
        assert process.wait(60) == 0
