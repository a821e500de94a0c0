"""What is in deploy/ fits the commands: options exist, settings are known, units are sound."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contrailmq import main as command
from contrailmq.broker.conf import read_conf
from contrailmq.namesrv.settings import Configuration
from contrailmq.settings import parse_properties

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
BINARY = "/opt/contrailmq/bin/contrail"


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


def test_compose_runs_commands_that_exist() -> None:
    services = _compose()["services"]
    assert sorted(services) == ["broker-a", "broker-b", "namesrv", "spark"]
    for service in services.values():
        _understood(service["command"])
        check = service.get("healthcheck")
        if check is not None:
            assert check["test"][:2] == ["CMD", "contrail"]
            _understood(check["test"][2:])


def test_compose_gives_brokers_the_address_they_advertise() -> None:
    found = _compose()
    for name in ("broker-a", "broker-b"):
        service = found["services"][name]
        options = _understood(service["command"])
        assert options.name == name
        assert options.host == service["networks"]["mq"]["ipv4_address"]
        assert f"{options.host}:10911" in service["healthcheck"]["test"]


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


def test_settings_to_start_from_are_known() -> None:
    conf = read_conf(parse_properties((DEPLOY / "broker.conf").read_text()), strict=True)
    assert conf.broker.broker_name == "broker-a"
    names = parse_properties((DEPLOY / "namesrv.conf").read_text())
    assert Configuration.of(names, strict=True).settings.listen_port == 9876
