"""Typed request and response headers over RocketMQ's string-to-string ``extFields``.

A header is a frozen dataclass.  Its wire names are the camelCase of its field names, or what
``wire`` says.  ``None`` means absent, in both directions.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from contrailmq.errors import RemoteProtocolError


class _Field(NamedTuple):
    name: str
    wire: str
    parse: Callable[[str], Any]
    required: bool


def wire(name: str, **kwargs: Any) -> Any:
    """Declare a field whose name on the wire is not its own name in camelCase."""
    return dataclasses.field(metadata={"wire": name}, **kwargs)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Base of all headers: a frozen record that knows its own wire names."""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Self:
        """Parse ``extFields``; unknown keys are ignored, as Java does."""
        values: dict[str, Any] = {}
        for field in _layout(cls):  # type: ignore[arg-type,unused-ignore]
            text = fields.get(field.wire)
            if text is None:
                if field.required:
                    raise RemoteProtocolError(f"{cls.__name__}: {field.wire} is missing")
                continue
            try:
                values[field.name] = field.parse(text)
            except ValueError as error:
                raise RemoteProtocolError(f"{cls.__name__}: bad {field.wire}={text!r}") from error
        return cls(**values)

    def to_fields(self) -> dict[str, str]:
        """Render ``extFields``; ``None`` means absent."""
        fields: dict[str, str] = {}
        for field in _layout(type(self)):  # type: ignore[arg-type,unused-ignore]
            value = getattr(self, field.name)
            if value is not None:
                fields[field.wire] = _render(value)
        return fields


@functools.cache
def _layout(cls: type[Header]) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        _Field(
            name=field.name,
            wire=field.metadata.get("wire") or _camel(field.name),
            parse=_parser(hints[field.name]),
            required=field.default is dataclasses.MISSING,
        )
        for field in dataclasses.fields(cls)
    )


def _parser(hint: Any) -> Callable[[str], Any]:
    alternatives = [a for a in typing.get_args(hint) or (hint,) if a is not type(None)]
    assert len(alternatives) == 1, f"a header field has one type, not {hint}"
    kind: Callable[[str], Any] = alternatives[0]
    return _parse_bool if kind is bool else kind


def _parse_bool(text: str) -> bool:
    # Java's Boolean.parseBoolean takes "true" alone; the C++ client writes "1" and means it.
    return text == "1" or text.lower() == "true"


def _render(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
