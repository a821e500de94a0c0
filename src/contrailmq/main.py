"""The command ``contrail``: a table of sub-commands, and the one place where errors become lines.

Each sub-command is a function ``main(argv) -> int`` in a module that is imported only when its name
is typed, so that ``contrail --version`` costs nothing and a part whose extra is not installed
hurts nobody else.  Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from contrailmq.errors import ConfigError, ContrailError, DiskFull, StoreLocked, UsageError
from contrailmq.version import VERSION, build_text

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130


class Entry(NamedTuple):
    """Where a sub-command lives (``module:function``), what it is for, and its heading."""

    target: str
    summary: str
    section: str = "more"


_SERVERS: Final = "servers"
_MESSAGES: Final = "messages"
_ADMIN: Final = "administration"
_SPARK: Final = "Spark"
COMMANDS: Final[Mapping[str, Entry]] = {
    "up": Entry("contrailmq.up:main", "name server and broker in one process", _SERVERS),
    "namesrv": Entry("contrailmq.namesrv.main:main", "run a name server", _SERVERS),
    "broker": Entry("contrailmq.broker.main:main", "run a broker", _SERVERS),
    "controller": Entry(
        "contrailmq.controller.main:main", "run a controller of replica groups", _SERVERS
    ),
    "proxy": Entry("contrailmq.proxy.main:main", "gRPC for a whole cluster", _SERVERS),
    "console": Entry("contrailmq.console.main:main", "the web console of a cluster", _SERVERS),
    "send": Entry(
        "contrailmq.admin.commands.send:main", "send messages from arguments or files", _MESSAGES
    ),
    "consume": Entry(
        "contrailmq.admin.commands.consume:main", "consume messages as a group", _MESSAGES
    ),
    "tail": Entry(
        "contrailmq.admin.commands.tail:main", "follow a topic without a group", _MESSAGES
    ),
    "message": Entry(
        "contrailmq.admin.commands.message:main", "get, query, trace messages", _MESSAGES
    ),
    "export": Entry("contrailmq.arrow.export_command:main", "a topic as Parquet files", _MESSAGES),
    "topic": Entry(
        "contrailmq.admin.commands.topic:main", "create, list, show, delete topics", _ADMIN
    ),
    "group": Entry(
        "contrailmq.admin.commands.group:main",
        "list groups, their lag, reset offsets",
        _ADMIN,
    ),
    "cluster": Entry(
        "contrailmq.admin.commands.cluster:main", "show brokers and their state", _ADMIN
    ),
    "doctor": Entry(
        "contrailmq.admin.commands.doctor:main",
        "find what is wrong, and the remedy",
        _ADMIN,
    ),
    "account": Entry(
        "contrailmq.admin.commands.account:main", "accounts: add, grant, rotate, test", _ADMIN
    ),
    "cert": Entry(
        "contrailmq.admin.commands.cert:main",
        "certificates: an authority and what it issues",
        _ADMIN,
    ),
    "admin": Entry(
        "contrailmq.admin.main:main", "mqadmin's commands under their own names", _ADMIN
    ),
    "store": Entry("contrailmq.admin.commands.store:main", "look into a store directory", _ADMIN),
    "bench": Entry("contrailmq.admin.commands.bench:main", "measure a running cluster", _ADMIN),
    "sql": Entry(
        "contrailmq.pipelines.query_command:main", "SQL over topics, by Spark or DuckDB", _SPARK
    ),
    "pipeline": Entry("contrailmq.pipelines.main:main", "run a Spark pipeline over topics", _SPARK),
    "demo": Entry("contrailmq.demo.main:main", "a tour of everything, in two minutes"),
    "completion": Entry("contrailmq.main:completion", "a completion script for bash, zsh or fish"),
}

_NOT_YOURS: Final = "; choose one that you may use, or run as a user with that right"
_REMEDIES: Final[Mapping[int, str]] = {
    errno.EACCES: _NOT_YOURS,
    errno.EPERM: _NOT_YOURS,
    errno.EROFS: _NOT_YOURS,
    errno.ENOTDIR: _NOT_YOURS,
    errno.ENOSPC: "; make room there, or choose another folder",
    errno.EMFILE: "; allow more open files: ulimit -n 65536",
    errno.EADDRINUSE: "; is another server running? use it, or take a free port with --port 0",
    errno.EADDRNOTAVAIL: "; give an address of this machine with --host, or 0.0.0.0 for all",
}
_NO_FOLDER: Final = "; choose a folder you may write to (servers take it with --store DIR)"
_NO_ROOM: Final = "; make room there, or choose another folder with --store DIR"
_SERVER_REMEDIES: Final[Mapping[int, str]] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR), _NO_FOLDER),
    errno.ENOSPC: _NO_ROOM,
}
_GLOBAL_OPTIONS: Final = """\
  --version        print the version
  --debug          show the stack trace of a failure
  -h, --help       this text; after a command: its options"""
_FIRST_STEPS: Final = """\
  contrail up                    a cluster on 127.0.0.1:9876, until Ctrl-C
  contrail send orders hello     in another terminal
  contrail tail orders
  contrail doctor                when something is in the way"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; raises only what ``--debug`` asks to see."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = bool(args) and args[0] == "--debug"
    if debug:
        del args[0]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not have all characters
    if not __debug__:
        return _refuse("python -O removes the assertions that guard the store; run without it")
    try:
        code = _run(args)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has said what is wrong, or printed its help
        return stop.code if isinstance(stop.code, int) else DONE if stop.code is None else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return DONE
    except Exception as error:
        if debug:
            raise
        return _fail(error, args[0] if args else "")


def available() -> dict[str, Entry]:
    """The sub-commands of this installation, in the order of the help text."""
    return {name: entry for name, entry in COMMANDS.items() if _exists(entry.target)}


def completion(argv: Sequence[str]) -> int:
    """Print the completion script of a shell, made from the parsers of all commands here."""
    maker = importlib.import_module("contrailmq.admin.completion")
    if len(argv) != 1 or argv[0] not in maker.SHELLS:
        if argv and argv[0] in ("-h", "--help"):
            print("usage: contrail completion bash|zsh|fish")
            print('for example: eval "$(contrail completion bash)"')
            return DONE
        return _refuse('give one shell, bash, zsh or fish: eval "$(contrail completion bash)"')
    commands = {}
    for name, entry in available().items():
        make = _find_parser(entry.target)
        commands[name] = (
            maker.Words(help=entry.summary)
            if make is None
            else maker.words_of(make(), entry.summary)
        )
    sys.stdout.write(maker.script(argv[0], commands))
    return DONE


def _find_parser(target: str) -> Callable[[], object] | None:
    """What makes the parser of a command; None for one without, or one whose extra is missing."""
    try:
        module = importlib.import_module(target.partition(":")[0])
    except ImportError:
        return None
    found: Callable[[], object] | None = getattr(module, "parser", getattr(module, "_parser", None))
    return found


def _run(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        print(_help_text())
        return DONE
    name, rest = args[0], args[1:]
    if name in ("--version", "-V"):
        print(f"contrail {VERSION}{build_text()}")
        return DONE
    if name == "help":
        if not rest:
            print(_help_text())
            return DONE
        name, rest = rest[0], ["--help"]
    if name.startswith("-"):
        return _refuse(f"there is no option {name}; contrail help lists options and commands")
    entry = COMMANDS.get(name)
    if entry is None or not _exists(entry.target):
        alike = difflib.get_close_matches(name, available(), 1)
        guess = f"; did you mean {alike[0]}?" if alike else ""
        return _refuse(f"there is no command {name!r}; contrail help lists them{guess}")
    return _load(entry.target)(rest)


def _load(target: str) -> Callable[[Sequence[str]], int]:
    module, _, function = target.partition(":")
    loaded: Callable[[Sequence[str]], int] = getattr(importlib.import_module(module), function)
    return loaded


def _exists(target: str) -> bool:
    try:
        return importlib.util.find_spec(target.partition(":")[0]) is not None
    except ModuleNotFoundError:
        return False


def _help_text() -> str:
    entries = {**available(), "help": Entry("", "this text, or that of a command")}
    width = max(map(len, entries))
    sections: dict[str, list[str]] = {}
    for name, entry in entries.items():
        lines = sections.setdefault(entry.section, [])
        lines.append(f"  {name:<{width}}   {entry.summary}")
    parts = ["usage: contrail [--debug] COMMAND [options]", "ContrailMQ: RocketMQ in Python."]
    parts += ["\n".join([f"{_bold(title)}:", *lines]) for title, lines in sections.items()]
    parts.append(f"{_bold('options')}:\n{_GLOBAL_OPTIONS}")
    parts.append(f"{_bold('first steps')}:\n{_FIRST_STEPS}")
    parts.append("exit codes: 0 done, 1 failed or not found, 2 wrong usage, 130 interrupted")
    return "\n\n".join(parts)


def _bold(text: str) -> str:
    has_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\033[1m{text}\033[0m" if has_colour else text


_EXTRAS: Final = {
    **dict.fromkeys(("pyspark", "py4j", "pandas"), "spark"),
    **dict.fromkeys(("pyarrow", "numpy"), "arrow"),
    **dict.fromkeys(("starlette", "uvicorn", "jinja2"), "console"),
    "aetcd": "controller",
    "opentelemetry": "otel",
}


def _refuse(text: str) -> int:
    print(f"contrail: {text}", file=sys.stderr)
    return USAGE


def _fail(error: Exception, name: str) -> int:
    """Say on one line what went wrong in the command ``name``, and what to do where we know it."""
    text = " ".join(str(error).split())
    is_server = name in COMMANDS and COMMANDS[name].section == _SERVERS
    remedies = {**_REMEDIES, **_SERVER_REMEDIES} if is_server else _REMEDIES
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("contrailmq"):
        wanted = (error.name or "").partition(".")[0]
        source = f"contrailmq[{_EXTRAS[wanted]}]" if wanted in _EXTRAS else wanted
        text = f"the package {error.name} is not installed; pip install '{source}' has it"
    elif isinstance(error, StoreLocked):
        text += "; stop that one, or give this one another folder with --store DIR"
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        text += remedies.get(error.errno or 0, "")
    elif isinstance(error, DiskFull):
        text += _NO_ROOM
    elif isinstance(error, ConfigError) and isinstance(error.__cause__, OSError):
        if ";" not in text:  # else it has a remedy already
            text += remedies.get(error.__cause__.errno or 0, "")
    elif not isinstance(error, ContrailError | OSError):
        text = f"{type(error).__name__}: {text} (contrail --debug shows where)"
    print(f"contrail: {text}", file=sys.stderr)
    return USAGE if isinstance(error, UsageError) else FAILED


def _abandon_stdout() -> None:
    # The reader is gone (contrail … | head): without this the interpreter reports it once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
