"""SQL92 filters: conditions over a message's properties, compiled once and asked often.

    order_filter = compile_sql("amount > 5 AND region = 'eu'")
    order_filter.matches({"amount": "7", "region": "eu"})

The rules are RocketMQ's, some of which surprise: properties are strings and become numbers only
when compared with one (and then must be one, or the message does not match); NOT binds more
tightly than a comparison, so write ``NOT (a = 1)``; a missing property makes a comparison
unknown, and unknown does not match; what follows a complete expression is ignored.
"""

from __future__ import annotations

from typing import Final, Literal

from contrailmq._native.records import find_property
from contrailmq._native.sql import SqlProgram
from contrailmq.protocol.filter.sql_compile import Properties, compile_node, property_names
from contrailmq.protocol.filter.sql_lexer import KEYWORDS_4_9, KEYWORDS_5, SqlError
from contrailmq.protocol.filter.sql_parser import parse_sql
from contrailmq.protocol.filter.sql_program import build_program

EXPRESSION_LENGTH_MAX: Final = 32 * 1024

__all__ = ["EXPRESSION_LENGTH_MAX", "SqlError", "SqlFilter", "compile_sql"]


class SqlFilter:
    """A compiled expression; it has no state, so one serves every message and thread."""

    __slots__ = ("_evaluate", "_tree", "_wanted", "expression")

    def __init__(self, expression: str, keywords: frozenset[str]) -> None:
        self._tree = parse_sql(expression, keywords)
        self.expression = expression
        self._evaluate = compile_node(self._tree)
        self._wanted = [(name, name.encode()) for name in sorted(property_names(self._tree))]

    @property
    def text(self) -> str:
        """The expression in normal form: what it was understood to mean."""
        return str(self._tree)

    @property
    def names(self) -> list[str]:
        """The properties the expression looks at."""
        return [name for name, _ in self._wanted]

    def evaluate(self, properties: Properties) -> bool | None:
        """True, false, or None for unknown; ValueError where a value cannot be compared."""
        result: bool | None = self._evaluate(properties)
        return result

    def matches(self, properties: Properties) -> bool:
        """Whether a message with these properties matches; what cannot be compared does not."""
        try:
            return self._evaluate(properties) is True
        except ValueError:
            return False

    def program(self) -> SqlProgram:
        """The expression for the compiled evaluator. It has scratch space: one thread's only."""
        return build_program(self._tree, self.matches_raw)

    def matches_raw(self, properties: bytes) -> bool:
        """``matches`` for a stored property string; only what the expression uses is decoded."""
        values: dict[str, str] = {}
        for name, raw_name in self._wanted:
            value = find_property(properties, raw_name)
            if value is not None:
                values[name] = value.decode("utf-8", "replace")
        return self.matches(values)

    def __repr__(self) -> str:
        return f"SqlFilter({self.expression!r})"


def compile_sql(expression: str, *, dialect: Literal["5.x", "4.9"] = "5.x") -> SqlFilter:
    """Compile an expression; SqlError with its place if it is none, or too long or too deep.

    Under "4.9" CONTAINS, STARTSWITH and ENDSWITH are not words of the language.
    """
    if len(expression) > EXPRESSION_LENGTH_MAX:
        raise SqlError(
            f"expression of {len(expression)} characters, at most {EXPRESSION_LENGTH_MAX}",
            position=EXPRESSION_LENGTH_MAX,
        )
    return SqlFilter(expression, KEYWORDS_5 if dialect == "5.x" else KEYWORDS_4_9)
