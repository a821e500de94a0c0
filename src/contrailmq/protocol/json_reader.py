"""Read what fastjson writes and accepts, where it goes beyond standard JSON.

Java's bodies and configuration files are fastjson's.  Beyond the standard there are keys without
quotes (numbers, names), objects as keys, text in single quotes, comments, commas too many, and
``{"$ref":"$.path"}`` in place of an object that was written before.  ``read`` takes all of that;
``contrailmq.protocol.fastjson.loads`` asks for it only when a standard parser gave up.

A key keeps its type: ``{0:...}`` has an int as its key, ``{"0":...}`` a text, an object becomes a
``MessageQueue`` if it is one and an ``ObjectKey`` otherwise.  Names without quotes are text,
``true`` and ``null`` among them (Python takes ``True`` and ``1`` for the same key).

Whatever the input, the outcome is a value or a ``RemoteProtocolError``, in time linear in its
size: depth and references are bounded, and references become references, not copies.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.queue import MessageQueue

DEPTH_MAX: Final = 100
REFERENCES_MAX: Final = 100_000
_NUMBER_LENGTH_MAX: Final = 400

_SPACE = re.compile(r"(?:[ \t\r\n\f\b\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SPACE_STARTS: Final = frozenset(" \t\r\n\f\b\ufeff/")
_NUMBER = re.compile(r"([-+]?\d+)(\.\d*)?([eE][-+]?\d+)?[LSBFD]?(?![\w.])", re.ASCII)
_NAME = re.compile(r"[^\W\d][\w$]*|\$\w*")
_SINGLE_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_DOUBLE_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN_TEXT = re.compile(r'"([^"\\]*)"')
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SIMPLE_ESCAPES: Final = {
    "b": "\b",
    "f": "\f",
    "F": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    **{str(digit): chr(digit) for digit in range(8)},
}
_WORDS: Final[dict[str, Any]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
    "NaN": None,
}
_QUEUE_KEYS: Final = frozenset(("brokerName", "queueId", "topic"))


class ObjectKey(tuple[tuple[str, Any], ...]):
    """An object in the place of a key: its items in order, hashable."""

    __slots__ = ()


def read(text: str) -> Any:
    """The value ``text`` stands for, references resolved."""
    try:
        value, position = _Reader(text).value(0, 0)
        end = _skip(text, position)
    except RecursionError as error:
        raise RemoteProtocolError("JSON is nested too deeply") from error
    if end != len(text):
        raise RemoteProtocolError(f"JSON goes on after its end, at {end} of {len(text)}")
    return resolve_references(value) if "$ref" in text else value


def _skip(text: str, position: int) -> int:
    if text[position : position + 1] not in _SPACE_STARTS:
        return position
    match = _SPACE.match(text, position)
    assert match is not None  # the pattern matches nothing at all, too
    return match.end()


class _Reader:
    """A recursive descent over one text; every method returns a value and where it ended."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, position: int, depth: int) -> tuple[Any, int]:
        text = self._text
        position = _skip(text, position)
        first = text[position : position + 1]
        if first == '"':
            return self._quoted(position)
        if first == "{":
            return self._object(position + 1, depth + 1)
        if first == "[":
            return self._array(position + 1, depth + 1)
        if first == "'":
            return self._quoted(position)
        number = _NUMBER.match(text, position)
        if number:
            return _number(number), number.end()
        name = _NAME.match(text, position)
        if name and name.group() in _WORDS:
            return _WORDS[name.group()], name.end()
        raise self._error(position, "a value")

    def _object(self, position: int, depth: int) -> tuple[dict[Any, Any], int]:
        if depth > DEPTH_MAX:
            raise RemoteProtocolError(f"JSON is nested more than {DEPTH_MAX} deep")
        text = self._text
        found: dict[Any, Any] = {}
        while True:
            position = self._skip_commas(position)
            if text.startswith("}", position):
                return found, position + 1
            key, position = self._key(position, depth)
            position = _skip(text, position)
            if not text.startswith(":", position):
                raise self._error(position, "':'")
            found[key], position = self.value(position + 1, depth)
            position = _skip(text, position)
            if not text.startswith((",", "}"), position):
                raise self._error(position, "',' or '}'")

    def _array(self, position: int, depth: int) -> tuple[list[Any], int]:
        if depth > DEPTH_MAX:
            raise RemoteProtocolError(f"JSON is nested more than {DEPTH_MAX} deep")
        text = self._text
        found: list[Any] = []
        while True:
            position = self._skip_commas(position)
            if text.startswith("]", position):
                return found, position + 1
            item, position = self.value(position, depth)
            found.append(item)
            position = _skip(text, position)
            if not text.startswith((",", "]"), position):
                raise self._error(position, "',' or ']'")

    def _skip_commas(self, position: int) -> int:
        position = _skip(self._text, position)
        while self._text.startswith(",", position):
            position = _skip(self._text, position + 1)
        return position

    def _key(self, position: int, depth: int) -> tuple[Any, int]:
        text = self._text
        first = text[position : position + 1]
        if first in ('"', "'"):
            return self._quoted(position)
        if first in ("{", "["):
            value, position = self.value(position, depth)
            return _hashable(value), position
        number = _NUMBER.match(text, position)
        if number:
            key = _number(number)
            return (key if isinstance(key, int) else number.group()), number.end()
        name = _NAME.match(text, position)
        if name:
            return name.group(), name.end()
        raise self._error(position, "a key")

    def _quoted(self, position: int) -> tuple[str, int]:
        text = self._text
        match = _PLAIN_TEXT.match(text, position)
        if match:
            return match.group(1), match.end()
        pattern = _DOUBLE_QUOTED if text[position] == '"' else _SINGLE_QUOTED
        match = pattern.match(text, position)
        if match is None:
            raise self._error(position, "the end of a text")
        return _unescape(match.group(1)), match.end()

    def _error(self, position: int, expected: str) -> RemoteProtocolError:
        found = self._text[position : position + 20]
        return RemoteProtocolError(f"JSON: {expected} expected at {position}, not {found!r}")


def _number(match: re.Match[str]) -> int | float:
    text = match.group()
    if len(text) > _NUMBER_LENGTH_MAX:
        raise RemoteProtocolError(f"JSON: a number of {len(text)} characters")
    whole, fraction, exponent = match.groups()
    if fraction is None and exponent is None and text[-1] not in "FD":
        return int(whole)
    return float(whole + (fraction or "") + (exponent or ""))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = _ESCAPE.sub(_unescape_one, text)
    if "\\u" in text:
        # A pair of escapes may be one character; half a pair alone is none, and becomes U+FFFD.
        out = out.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return out


def _unescape_one(match: re.Match[str]) -> str:
    escape: str = match.group(1)
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    simple = _SIMPLE_ESCAPES.get(escape)
    if simple is None:
        raise RemoteProtocolError(f"JSON: unknown escape \\{escape}")
    return simple


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if not isinstance(value, dict):
        return value
    queue = as_queue(value)
    if queue is not None:
        return queue
    return ObjectKey((str(name), _hashable(item)) for name, item in value.items())


def as_queue(value: dict[Any, Any]) -> MessageQueue | None:
    """The queue an object describes, or None when it is something else."""
    if value.keys() != _QUEUE_KEYS:
        return None
    topic, name, queue_id = value["topic"], value["brokerName"], value["queueId"]
    if isinstance(queue_id, str) and queue_id.isdecimal() and len(queue_id) < 11:
        queue_id = int(queue_id)
    if not (isinstance(topic, str) and isinstance(name, str) and type(queue_id) is int):
        return None
    return MessageQueue(topic, name, queue_id)


def key_text(key: Any) -> str:
    """How a key that is not text is written where only text may stand."""
    if isinstance(key, ObjectKey):
        return json.dumps(dict(key), separators=(",", ":"), default=str)
    return str(key)


def resolve_references(root: Any) -> Any:
    """Put the objects in the place of the ``{"$ref":path}`` that stand for them."""
    return _References(root).resolve()


_STEP = re.compile(r"\.((?:\\.|[^.\[\\])+)|\[(\d{1,9})\]|\[[\"']([^\"']*)[\"']\]", re.DOTALL)


class _References:
    """One pass that finds the references, one that follows them."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._names: dict[int, dict[str, Any]] = {}
        # Where each reference stands: its parent, the key in there, and its ancestors for "..".
        self._found: list[tuple[Any, Any, str, Any]] = []

    def resolve(self) -> Any:
        path = _path_of(self._root)
        if path is not None:
            return None  # it can only refer to itself
        if not isinstance(self._root, dict | list):
            return self._root  # "$ref" was but a part of a text or of a comment
        self._scan()
        targets = [self._target(path, parent, above) for parent, _, path, above in self._found]
        for (parent, key, _, _), target in zip(self._found, targets, strict=True):
            # A reference to a reference: Java never writes one; it stands for nothing.
            parent[key] = None if _path_of(target) is not None else target
        return self._root

    def _scan(self) -> None:
        stack: list[tuple[Any, Any, int]] = [(self._root, None, 0)]
        while stack:
            node, above, depth = stack.pop()
            if depth > DEPTH_MAX:
                raise RemoteProtocolError(f"JSON is nested more than {DEPTH_MAX} deep")
            items = node.items() if isinstance(node, dict) else enumerate(node)
            for key, child in items:
                path = _path_of(child)
                if path is not None:
                    self._found.append((node, key, path, above))
                elif isinstance(child, dict | list):
                    stack.append((child, node, depth + 1))
            if len(self._found) > REFERENCES_MAX:
                raise RemoteProtocolError(f"JSON with more than {REFERENCES_MAX} references")

    def _target(self, path: str, parent: Any, above: Any) -> Any:
        if path == "@":
            return parent
        if path == "..":
            return above
        if not path.startswith("$"):
            return None
        node = self._root
        position = 1
        while position < len(path):
            step = _STEP.match(path, position)
            if step is None:
                return None
            node = self._step(node, step)
            position = step.end()
        return node

    def _step(self, node: Any, step: re.Match[str]) -> Any:
        name, index, quoted = step.groups()
        if index is not None and isinstance(node, list):
            return node[int(index)] if int(index) < len(node) else None
        if not isinstance(node, dict):
            return None
        if name is not None:
            name = name.replace("\\", "")  # SerialContext escapes what is no letter or digit
        name = name if name is not None else quoted if quoted is not None else index
        if name in node:
            return node[name]
        names = self._names.get(id(node))
        if names is None:
            names = {str(key).replace("\\", ""): key for key in node if not isinstance(key, str)}
            self._names[id(node)] = names
        return node[names[name]] if name in names else None


def _path_of(node: Any) -> str | None:
    if isinstance(node, dict) and len(node) == 1:
        path = node.get("$ref")
        if isinstance(path, str):
            return path
    return None
