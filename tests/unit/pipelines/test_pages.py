"""Every command of the pages and of the help texts is one the commands accept."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from contrailmq.pipelines import main as pipeline
from contrailmq.pipelines import query_command

DOCS = Path(__file__).resolve().parents[3] / "docs"
PARSERS = {"pipeline": pipeline.parser, "sql": query_command.parser}


def _commands(text: str) -> list[list[str]]:
    """The lines ``contrail pipeline …`` and ``contrail sql …``, which may go on in a quotation."""
    found = []
    for match in re.finditer(r"^ +contrail (?=pipeline |sql )", text, re.MULTILINE):
        lines = text[match.start() :].split("\n")
        for count in range(1, 4):
            try:
                found.append(shlex.split(" ".join(lines[:count]))[1:])
                break
            except ValueError:  # no closing quotation yet
                continue
    return found


PAGES = {
    **{path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))},
    "contrail pipeline --help": pipeline.parser().format_help(),
    "contrail sql --help": query_command.parser().format_help(),
}
COMMANDS = [(page, command) for page, text in PAGES.items() for command in _commands(text)]


def test_there_are_commands_on_the_pages() -> None:
    pages = [page for page, _ in COMMANDS]
    assert pages.count("pipelines.md") >= 16
    assert pages.count("contrail pipeline --help") >= 8
    assert pages.count("contrail sql --help") >= 4


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda value: " ".join(value)[:60])
def test_a_command_of_a_page_is_accepted(
    page: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repair.py").write_text("def fix(frame):\n    return frame\n")
    monkeypatch.chdir(tmp_path)
    PARSERS[command[0]]().parse_args(command[1:])
