"""One typed, frozen settings object per component, read from RocketMQ's own keys.

``key`` declares a field and the ``broker.conf`` key (and its old spellings) it is read from;
``read`` builds the object.  A value that does not parse, or is out of bounds, is an error that
names key, value and what was expected; Java silently keeps the default there.  ``live=True`` marks
what may be changed while running.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from contrailmq.errors import ConfigError

T = TypeVar("T")

BLANKS: Final = " \t\r\n\f\v"  # taken off both ends of a value
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff"
_IN_VALUE: Final = re.compile(rf"[\\{_CONTROLS}]")
_IN_NAME: Final = re.compile(rf"[\\=: #!{_CONTROLS}]")
_SHORT: Final = {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}
_GUARDED_WORDS: Final = frozenset(
    {
        "acl",
        "addr",
        "addrs",
        "address",
        "addresses",
        "auth",
        "authentication",
        "authorization",
        "class",
        "classes",
        "credential",
        "credentials",
        "dir",
        "dirs",
        "directory",
        "home",
        "host",
        "hosts",
        "ip",
        "ips",
        "password",
        "path",
        "paths",
        "plug",
        "plugin",
        "port",
        "ports",
        "provider",
        "secret",
        "ssl",
        "target",
        "tls",
        "token",
        "trusted",
        "url",
    }
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
VALUE_LENGTH_MAX: Final = 4096
HIDDEN: Final = "******"


def key(
    name: str,
    default: Any,
    *,
    also: tuple[str, ...] = (),
    live: bool = False,
    low: int = 0,
    high: int | None = None,
    secret: bool = False,
    doc: str,
) -> Any:
    """A setting, the properties key it is read from, and the key's other spellings.

    ``low`` and ``high`` are the least and the most a number in properties may be. ``doc`` says
    what the key means; docs/configuration.md is made of it. A ``secret`` is never shown.
    """
    metadata = {
        "key": name, "also": also, "live": live, "low": low, "high": high, "doc": doc,
        "secret": secret,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata, repr=not secret)


def read(cls: type[T], properties: Mapping[str, str]) -> T:
    """Build ``cls`` from properties. A value that does not parse is an error, never a default."""
    return update(cls(), properties)


def update(settings: T, properties: Mapping[str, str], *, live_only: bool = False) -> T:
    """A copy of ``settings`` with the values of ``properties`` that belong to it."""
    hints = typing.get_type_hints(type(settings))
    values: dict[str, Any] = {}
    for field in _fields(type(settings)):
        for name in (*field.metadata["also"], field.metadata["key"]):
            if name in properties:
                if live_only and not field.metadata["live"]:
                    raise ConfigError(
                        f"{name} cannot be changed while running; restart to change it"
                    )
                value = parse(name, properties[name].strip(BLANKS), hints[field.name])
                if isinstance(value, int) and not isinstance(value, bool):
                    _check_range(name, value, field.metadata["low"], field.metadata["high"])
                values[field.name] = value
    return dataclasses.replace(settings, **values) if values else settings  # type: ignore[type-var]


def keys_of(cls: type[Any]) -> set[str]:
    """Every properties key, old spellings included, that ``cls`` is read from."""
    return {
        name for field in _fields(cls) for name in (field.metadata["key"], *field.metadata["also"])
    }


def explained(cls: type[Any]) -> dict[str, str]:
    """Return what each key of ``cls`` means."""
    return {field.metadata["key"]: field.metadata["doc"] for field in _fields(cls)}


def live_keys(cls: type[Any]) -> set[str]:
    """Return the keys of ``cls`` that may be changed while a server runs."""
    return {field.metadata["key"] for field in _fields(cls) if field.metadata["live"]}


def as_properties(settings: Any) -> dict[str, str]:
    """The settings as RocketMQ's keys and texts. A secret that is set shows as ``HIDDEN``."""
    found = {
        field.metadata["key"]: render(getattr(settings, field.name))
        for field in _fields(type(settings))
    }
    for field in _fields(type(settings)):
        if field.metadata["secret"] and found[field.metadata["key"]]:
            found[field.metadata["key"]] = HIDDEN
    return found


def parse(name: str, text: str, kind: Any) -> Any:
    """One value of a properties file."""
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return kind(text)
        return kind(text)
    except (ValueError, KeyError):
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            expected = "one of " + ", ".join(str(member.value) for member in kind)
        else:
            expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(
                kind, getattr(kind, "__name__", str(kind))
            )
        raise ConfigError(f"{name} = {text!r}: expected {expected}") from None


def _check_range(name: str, value: int, low: int, high: int | None) -> None:
    if value < low or (high is not None and value > high):
        bounds = f", at least {low}" if high is None else f" from {low} to {high}"
        raise ConfigError(f"{name} = {value}: expected a whole number{bounds}")


def render(value: Any) -> str:
    """A value as a properties file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, enum.Enum):
        return str(value.value)
    return str(value)


def read_file(path: Path) -> dict[str, str]:
    """The keys of a configuration file; one that cannot be read is a ConfigError."""
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; -c takes a file you may read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from error


def is_guarded(name: str) -> bool:
    """Whether a key names a path, an address, a port, a class or a matter of security.

    Such a key cannot be changed over the wire: who may send requests may not choose where a
    server writes, whom it connects to, or whom it trusts.
    """
    return any(word.lower() in _GUARDED_WORDS for word in _WORD.findall(name))


def value_fault(name: str, value: str) -> str | None:
    """Return why a value cannot be set over the wire, or None."""
    if len(value) > VALUE_LENGTH_MAX:
        return f"{name}: a value of {len(value)} characters, at most {VALUE_LENGTH_MAX}"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return f"{name}: half of a surrogate pair is no character"
    return None


def parse_properties(text: str) -> dict[str, str]:
    """Read Java's properties syntax: comments, ``=`` ``:`` or blank as separator, escapes."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        found[name] = value
    return found


def natural_lines(text: str) -> list[str]:
    """Return the lines of a properties text. Only CR, LF and CRLF end one, as in Java."""
    lines = _LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def property_line(name: str, value: str) -> str:
    """Return the line that ``parse_properties`` reads as exactly this key and this value."""
    return f"{_escape(name, _IN_NAME)}={_escape(value, _IN_VALUE)}\n"


def _escape(text: str, special: re.Pattern[str]) -> str:
    text = special.sub(_escape_one, text)
    return "\\" + text if text[:1] == " " else text


def _escape_one(found: re.Match[str]) -> str:
    char = found.group()
    if char in _SHORT:
        return "\\" + _SHORT[char]
    return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) > 0x7E else "\\" + char


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in natural_lines(text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
            continue
        if line[position] in "=: \t\f":
            break
        position += 1
    name, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return _unescape(name), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position >= len(text):
            out.append(char)
            continue
        char = text[position]
        position += 1
        if char == "u" and position + 4 <= len(text):
            try:
                out.append(chr(int(text[position : position + 4], 16)))
                position += 4
                continue
            except ValueError:
                pass
        out.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(char, char))
    whole = "".join(out)
    if any("\ud800" <= char <= "\udbff" for char in whole):  # Java writes large ones as a pair
        whole = whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return whole


def _fields(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(cls) if "key" in field.metadata]
