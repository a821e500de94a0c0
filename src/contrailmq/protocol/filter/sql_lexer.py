"""Tokens of SQL92 filter expressions, made one at a time as the parser asks for them.

The longest match wins.  An expression may end early: what follows a complete expression is never
looked at beyond the next token, so text that could not be cut into tokens is no error there.
Hence a token is made only when the parser asks.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from contrailmq.errors import FilterError

KEYWORDS_4_9: Final = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"}
)
KEYWORDS_5: Final = KEYWORDS_4_9 | {"CONTAINS", "STARTSWITH", "ENDSWITH"}

# A comment to the end of the line needs that end; without it there are two minus signs.
_SKIP: Final = re.compile(
    r"(?:[ \t\n\r\f]|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*"
)
_TOKEN: Final = re.compile(
    r"""
    (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<integer>0|[1-9][0-9]*[lL]?)
    |(?P<string>'(?:''|[^'])*')
    |(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<mark><>|>=|<=|[=<>(),+-])
    """,
    re.VERBOSE,
)


class TokenKind(enum.Enum):
    """What a token is; a keyword or a mark is further told by its text."""

    FLOAT = "decimal number"
    INTEGER = "integer"
    STRING = "string"
    NAME = "name"
    KEYWORD = "keyword"
    MARK = "mark"
    END = "end of the expression"


class Token(NamedTuple):
    """One token: keywords are upper case, a string is without its quotes."""

    kind: TokenKind
    text: str
    position: int


class Lexer:
    """Cuts one expression into tokens, with as much look-ahead as the parser wants."""

    __slots__ = ("_ahead", "_keywords", "_position", "text")

    def __init__(self, text: str, keywords: frozenset[str]) -> None:
        self.text = text
        self._keywords = keywords
        self._position = 0
        self._ahead: list[Token] = []

    def peek(self, count: int = 1) -> Token:
        """The token ``count`` places ahead, which stays there."""
        while len(self._ahead) < count:
            self._ahead.append(self._make())
        return self._ahead[count - 1]

    def take(self) -> Token:
        """The next token, which is gone afterwards."""
        token = self.peek()
        del self._ahead[0]
        return token

    def _make(self) -> Token:
        blank = _SKIP.match(self.text, self._position)
        start = blank.end() if blank else self._position
        self._position = start
        if start == len(self.text):
            return Token(TokenKind.END, "", start)
        match = _TOKEN.match(self.text, start)
        if match is None:
            raise sql_error(self.text, start, f"unexpected character {self.text[start]!r}")
        self._position = match.end()
        text = match.group()
        kind = match.lastgroup
        if kind == "float":
            return Token(TokenKind.FLOAT, text, start)
        if kind == "integer":
            return Token(TokenKind.INTEGER, text, start)
        if kind == "string":
            return Token(TokenKind.STRING, text[1:-1].replace("''", "'"), start)
        if kind == "mark":
            return Token(TokenKind.MARK, text, start)
        if text.upper() in self._keywords:
            return Token(TokenKind.KEYWORD, text.upper(), start)
        return Token(TokenKind.NAME, text, start)


def sql_error(text: str, position: int, reason: str) -> SqlError:
    """An error that shows its place: line, column, and the text around it."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    start = max(0, position - 20)
    near = text[start : position + 20].replace("\n", " ")
    return SqlError(f"{reason} at line {line}, column {column}: ...{near!r}...", position=position)


class SqlError(FilterError):
    """An SQL92 expression that does not compile; ``position`` and the text show the place."""
