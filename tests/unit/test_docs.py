"""What the documents say is true: links, snippets, command lines, and the README as written."""

from __future__ import annotations

import argparse
import ast
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from contrailmq import main as command
from contrailmq.testing.cluster import ClusterThread

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"(?:<!-- run: (\w+) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9876"


class Snippet(NamedTuple):
    """A fenced block."""

    page: str
    run: str
    language: str
    text: str


def _snippets() -> Iterator[Snippet]:
    for page in PAGES:
        for run, language, text in FENCE.findall(page.read_text(encoding="utf-8")):
            yield Snippet(page.name, run, language, text)


def _anchors(page: Path) -> set[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = page if not path else (page.parent / path)
        if not place.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and place.suffix == ".md" and anchor not in _anchors(place):
            wrong.append(f"{target}: no such heading")
    assert not wrong, wrong


def test_there_is_something_to_check() -> None:
    found = list(_snippets())
    assert {"producer", "consumer", "spark"} <= {snippet.run for snippet in found}
    assert sum(snippet.language == "python" for snippet in found) >= 8


@pytest.mark.parametrize(
    "snippet", [s for s in _snippets() if s.language == "python"], ids=lambda s: s.page
)
def test_python_compiles(snippet: Snippet) -> None:
    compile(snippet.text, snippet.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _command_lines() -> Iterator[tuple[str, str]]:
    for snippet in _snippets():
        if snippet.language == "sh":
            for line in snippet.text.splitlines():
                for part in line.split("#")[0].split("|"):
                    words = part.strip().removeprefix(".venv/bin/")
                    if words.startswith("contrail "):
                        yield snippet.page, words
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for words in re.findall(r"^    (contrail .+)$", text, re.MULTILINE):
            yield page.name, words
        for words in re.findall(r"`(contrail [^`]+)`", text):
            if not re.search(r"\\\||[A-Z]{4,}|…", words):
                yield page.name, words


@pytest.mark.parametrize(("page", "line"), sorted(set(_command_lines())))
def test_commands_are_understood(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command line of the documents gets past the command's own parser."""
    repair = argparse.Namespace(fix=lambda frame: frame)  # the reader's own module
    monkeypatch.setitem(sys.modules, "repair", repair)  # type: ignore[arg-type]
    words = shlex.split(line)[1:]
    if words[0] in ("help", "--debug", "completion"):
        return
    assert words[0] in command.COMMANDS, line
    make = command._find_parser(command.COMMANDS[words[0]].target)
    if make is None:
        pytest.skip(f"{words[0]} is not installed")
    parser = make()
    assert isinstance(parser, argparse.ArgumentParser)
    try:
        parser.parse_args(words[1:])
    except SystemExit as stop:
        # A mention without its arguments ("`contrail topic`") is fine; a wrong option is not.
        is_mention = not any(word.startswith("-") for word in words)
        assert stop.code == 0 or is_mention, f"{page}: {line}"


def test_the_generated_pages_are_fresh() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "reference"))
    for name in ("configuration", "administration"):
        path = made["PAGES"][name]
        assert path.read_text(encoding="utf-8") == made[name](), "run scripts/reference"


def test_settings_without_effect_say_so() -> None:
    """A setting that no code asks for is shown for the original's sake, and the page says that."""
    made = runpy.run_path(str(ROOT / "scripts" / "reference"))
    source = "".join(path.read_text() for path in (ROOT / "src" / "contrailmq").rglob("*.py"))
    idle = {
        field.metadata["key"]
        for _, cls, _ in made["SECTIONS"]
        for field in made["_fields"](cls)
        if not re.search(rf"\.{field.name}\b", source)
    }
    said = {key for key, text in made["meanings"]().items() if text.startswith("Read and shown;")}
    assert idle == said


def test_the_table_of_codes_is_what_a_broker_serves() -> None:
    """The table is read from the source; here a running broker is asked."""
    made = runpy.run_path(str(ROOT / "scripts" / "reference"))
    listed = set()
    for module in ("table", "special", "admin", "replication"):
        listed |= set(made["handlers_of"](f"contrailmq.broker.handlers.{module}"))
    cluster = ClusterThread()
    try:
        broker = cluster._cluster.brokers[0].broker
        served = set(broker.handlers(broker.parts))
    finally:
        cluster.close()
    assert {int(code) for code in served} == {int(code) for code in listed}


def test_every_page_is_in_the_site() -> None:
    listed = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert there - listed == set()
    assert listed - there == set()


def test_all_served_commands_of_mqadmin_are_documented() -> None:
    from contrailmq.admin.main import COMMANDS

    text = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8")
    assert [name for name in sorted(COMMANDS) if f"\n| `{name}` |" not in text] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{len(COMMANDS)} commands of mqadmin" in readme


def test_modules_named_in_the_documents_exist() -> None:
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    places = (ROOT, ROOT / "src" / "contrailmq")
    missing = [item for item in named if not any((place / item[1]).exists() for place in places)]
    assert not missing


def test_the_testing_guide_runs(tmp_path: Path) -> None:
    """Its examples are tests; they run in a pytest of their own, as a reader's would."""
    page = [s for s in _snippets() if s.page == "testing.md" and s.language == "python"]
    count = 0
    for number, snippet in enumerate(page):
        (tmp_path / f"test_snippet_{number}.py").write_text(snippet.text)
        count += snippet.text.count("\ndef test_")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    words = ["-q", "-p", "contrailmq.testing.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr
    assert count >= 5


def _run_snippet(name: str, address: str) -> str:
    """Run a snippet of the README as it is written, but for the address."""
    [text] = [s.text for s in _snippets() if s.run == name]
    assert ADDRESS in text
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", text.replace(ADDRESS, address)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_quick_start_runs_as_written() -> None:
    cluster = ClusterThread()
    try:
        _run_snippet("quickstart", cluster.name_servers)
        store = cluster._cluster.brokers[0].broker.parts.store
        assert sum(store.bounds("orders", queue_id)[1] for queue_id in range(8)) == 1
    finally:
        cluster.close()


def test_the_readme_runs_as_written() -> None:
    cluster = ClusterThread()
    try:
        sent = _run_snippet("producer", cluster.name_servers)
        assert sent.count("SEND_OK") == 3
        assert "['order-2'] {\"order\": 2}" in _run_snippet("consumer", cluster.name_servers)
        assert re.search(r"^[0-9A-F]{32}$", _run_snippet("first", cluster.name_servers), re.M)
    finally:
        cluster.close()


@pytest.mark.spark
def test_the_readme_runs_in_spark() -> None:
    cluster = ClusterThread()
    try:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        for name in re.findall(r"`contrail topic create ([\w-]+)`", readme):
            cluster.create_topic(name)
        _run_snippet("producer", cluster.name_servers)
        shown = _run_snippet("spark", cluster.name_servers)
        assert shown.count("paid") == 3
    finally:
        cluster.close()
