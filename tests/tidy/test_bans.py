"""Time, chance and tasks come from whoever composes the parts, never from the module itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from testkit.sources import Module, imports, listing, modules

# Dotted names that may not even be mentioned: a reference is as good as a call.
BANNED = (
    r"time\.(time|monotonic|perf_counter|process_time|sleep|localtime|gmtime)(_ns)?",
    r"datetime\.(datetime|date)\.(now|utcnow|today)",
    r"random\.(?!Random$)\w+",
    r"secrets\.\w+",
    r"uuid\.uuid[14]",
    r"os\.(urandom|getrandom)",
    r"asyncio\.(get_event_loop|create_task|ensure_future|run_coroutine_threadsafe)",
    r"asyncio\.get_running_loop\(\)\.create_task",
)
LOOP_TASK = re.compile(r"(?:.*[._])?loop\.create_task$")

# (module, dotted name) -> why it has to be here.
ALLOWED: dict[tuple[str, str], str] = {
    ("_native/system.py", "time.time_ns"): "the clock itself",
    ("_native/system.py", "time.monotonic_ns"): "the clock itself",
    ("clock.py", "time.monotonic_ns"): "the clock itself",
    ("console/sessions.py", "os.urandom"): "ids of sessions are the system's, never a seed's",
    ("security/first_start.py", "os.urandom"): "secrets are the system's, never a seed's",
    ("lifecycle.py", "asyncio.get_running_loop().create_task"): "the owner of tasks",
}
# Who talks to a terminal.
SPEAKERS = re.compile(r"(.*/)?main\.py|up\.py|admin/commands/.*|admin/output\.py|demo/.*")
# Bytes and values: no waiting, no files, no time, no log; but for the one module that says what
# compiled loops ask of the operating system.
SYSTEM = "_native/system.py"
PROTOCOL_NEVER = {"asyncio", "os", "time", "logging", "socket", "threading", "io"}


def test_no_banned_name_is_used() -> None:
    wrong = []
    for module in modules():
        for line, name in _references(module):
            if _is_banned(name) and (module.place, name) not in ALLOWED:
                wrong.append(f"{module.place}:{line}: {name}")
    assert not wrong, listing(wrong)


def test_every_permission_is_used() -> None:
    used = {(module.place, name) for module in modules() for _, name in _references(module)}
    assert sorted(set(ALLOWED) - used) == []


def test_print_is_for_commands() -> None:
    wrong = [
        f"{module.place}:{node.lineno}"
        for module in modules()
        if not SPEAKERS.fullmatch(module.place)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not wrong, listing(wrong)


def test_protocol_is_bytes_and_values() -> None:
    wrong = [
        f"{module.place}:{line}: {name}"
        for module in modules()
        if module.part in ("protocol", "_native") and module.place != SYSTEM
        for line, name in imports(module)
        if name.split(".")[0] in PROTOCOL_NEVER
    ]
    assert not wrong, listing(wrong)


def test_nothing_is_left_for_later() -> None:
    wrong = [
        f"{module.place}:{node.lineno}: {node.id}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]
    assert not wrong, listing(wrong)


def test_no_module_level_container_is_changed_by_a_function() -> None:
    """Three brokers must run in one loop: ``global`` is the sign of state that they would share."""
    wrong = [
        f"{module.place}:{node.lineno}: global {', '.join(node.names)}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Global)
    ]
    assert not wrong, listing(wrong)


def _is_banned(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in BANNED) or bool(LOOP_TASK.match(name))


def _references(module: Module) -> Iterator[tuple[int, str]]:
    """Dotted names as the import statements of the module spell them out."""
    aliases: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                aliases[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
            head, _, tail = _dotted(node).partition(".")
            name = aliases.get(head, head)
            yield node.lineno, f"{name}.{tail}" if tail else name


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return f"{_dotted(node.func)}()" if isinstance(node, ast.Call) else "?"


def test_the_ban_sees_through_aliases() -> None:
    text = (
        "import time as t\nfrom datetime import datetime as dt\nimport random, asyncio\n"
        "a = t.monotonic\nb = dt.now()\nc = random.choice\nd = random.Random(1)\n"
        "asyncio.get_running_loop().create_task(x)\nself._loop.create_task(x)\n"
        "group.create_task(x)\n"
    )
    path = next(iter(modules())).path
    found = [name for _, name in _references(Module("x", path, text, ast.parse(text)))]
    assert sorted(filter(_is_banned, found)) == [
        "asyncio.get_running_loop().create_task",
        "datetime.datetime.now",
        "random.choice",
        "self._loop.create_task",
        "time.monotonic",
    ]
