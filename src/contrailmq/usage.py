"""Command lines that are wrong: one line that says what, a guess at what was meant, exit code 2.

``CommandParser`` is the parser of every command, and the functions below are the types of their
numbers.  Servers and tools share it, so it stands below both.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import math
import os
import re
import socket
from collections.abc import Callable
from typing import Any, Final, NoReturn

WRONG_USAGE: Final = 2
PORT_MAX: Final = 65_535
LONG_MIN: Final = -(1 << 63)
LONG_MAX: Final = (1 << 63) - 1
CHOICES_SHOWN: Final = 12

_INVALID: Final = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<choices>.+)\)")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, with a guess at what was meant.

    ``rest`` names an argument that is a list: its words may also stand behind and between options.
    """

    rest: str | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the original, but what is not known is an error here, where its options are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if self.rest is not None and not any(word.startswith("-") for word in unknown):
            setattr(found, self.rest, [*getattr(found, self.rest), *unknown])
            unknown = []
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._guess(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        wrong = _INVALID.search(message)
        if wrong is not None:
            choices = re.findall(r"[\w-]+", wrong["choices"])
            alike = difflib.get_close_matches(wrong["given"], choices, 1)
            few = ", ".join(choices) if len(choices) <= CHOICES_SHOWN else ""
            guess = f" (did you mean {alike[0]}?)" if alike else f"; there is {few}" if few else ""
            message = f"there is no {wrong['given']}{guess}"
        line = " ".join(f"{self.prog}: {message}; {self.prog} --help shows how".split())
        self.exit(WRONG_USAGE, f"{line}\n")

    def _guess(self, unknown: list[str]) -> str:
        if "--debug" in unknown:
            return " (--debug comes before the command: contrail --debug …)"
        options = [name for action in self._actions for name in action.option_strings]
        for word in unknown:
            alike = difflib.get_close_matches(word.partition("=")[0], options, 1)
            if word.startswith("--") and alike:
                return f" (did you mean {alike[0]}?)"
        return ""


def listen_fault(error: OSError, *, host: str, port: int, option: str) -> str:
    """Why a server cannot listen there, and what to do about it; ``option`` chooses its port."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return (
            f"{host} is not an address of this machine; give one with --host: 127.0.0.1 for "
            "this machine alone, 0.0.0.0 for all of its addresses"
        )
    remedy = {
        errno.EADDRINUSE: (
            f"; is another server running? use it, or take a free port with {option} 0"
        ),
        errno.EACCES: f"; ports below 1024 are root's, take another with {option}",
    }.get(error.errno or 0, "")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"port {port} on {host} cannot be used: {reason}{remedy}"


def whole(least: int | None = 0, most: int | None = None) -> Callable[[str], int]:
    """A type of option: whole numbers from ``least`` on (None: any), up to ``most``."""
    span = "" if least is None else f", at least {least}"
    span = f", from {least} to {most}" if most is not None else span
    low, high = LONG_MIN if least is None else least, LONG_MAX if most is None else most

    def whole_number(text: str) -> int:
        is_number = _WHOLE.fullmatch(text) is not None
        if not is_number or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number{span}")
        return int(text)

    return whole_number


def port(text: str) -> int:
    """A type of option: a port; 0 is a free one."""
    return whole(0, PORT_MAX)(text)


def pair(text: str) -> tuple[str, str]:
    """A type of option: a key and its value, ``KEY=VALUE``."""
    name, is_pair, value = text.partition("=")
    if not is_pair or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r}: expected KEY=VALUE")
    return name.strip(), value.strip()


def positive(text: str) -> float:
    """A type of option: numbers above 0."""
    found = _number(text)
    if not found > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return found


def seconds(text: str) -> float:
    """A type of option: a span of time; 0 is one."""
    found = _number(text)
    if not found >= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds, 0 or more")
    return found


def _number(text: str) -> float:
    """What a text says, NaN if it is no finite number."""
    try:
        found = float(text)
    except ValueError:
        return math.nan
    return found if math.isfinite(found) else math.nan
