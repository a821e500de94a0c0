"""Completion scripts hold every command, and the shell itself agrees."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from contrailmq import main as command


def _script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert command.main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = _script(shell, capsys)
    for name in command.available():
        assert name in script
    assert "reset" in script
    assert "json-lines" in script


def test_an_unknown_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["completion", "tcsh"]) == 2
    assert "bash, zsh or fish" in capsys.readouterr().err


LINES = [
    (["contrail", "clus"], {"cluster"}),
    (["contrail", "topic", "cr"], {"create"}),
    (["contrail", "topic", "create", "--que"], {"--queues"}),
    (["contrail", "tail", "--js"], {"--json"}),
    (["contrail", "up", "--log-level", "w"], {"warning"}),
    (["contrail", "admin", "topicR"], {"topicRoute"}),
    (["contrail", "pipeline", "audit", "--trace"], {"--trace-topic"}),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_bash_completes(
    line: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(f"'{word}'" for word in line)
    script = _script("bash", capsys) + (
        f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _contrail; echo ${{COMPREPLY[@]}}\n"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert set(done.stdout.split()) == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish_completes(
    line: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script = _script("fish", capsys) + f"complete -C '{' '.join(line)}'\n"
    done = subprocess.run(["fish"], input=script, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert {one.partition("\t")[0] for one in done.stdout.splitlines()} == expected


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
@pytest.mark.parametrize(("line", "expected"), [one for one in LINES if "up" not in one[0]])
def test_zsh_offers(
    line: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the script gives to ``_describe``, which chooses from it by the letters typed."""
    words = " ".join(f"'{word}'" for word in line)
    script = (
        "_describe() { print -l -- ${(P)2} }\n"
        f"words=({words}); CURRENT={len(line)}\n" + _script("zsh", capsys)
    )
    done = subprocess.run(["zsh", "-f"], input=script, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    offered = {one.partition(":")[0] for one in done.stdout.splitlines()}
    assert expected <= offered
    assert all(not one or one.isascii() for one in offered)
