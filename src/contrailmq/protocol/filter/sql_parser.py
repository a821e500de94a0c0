"""Parse SQL92 filter expressions: recursive descent over RocketMQ's grammar.

    or         = and { OR and }
    and        = equality { AND equality }
    equality   = comparison { ( "=" | "<>" ) comparison | IS [ NOT ] NULL }
    comparison = unary { ( ">" | ">=" | "<" | "<=" ) unary
                       | [ NOT ] BETWEEN unary AND unary
                       | [ NOT ] IN "(" string { "," string } ")"
                       | [ NOT ] ( CONTAINS | STARTSWITH | ENDSWITH ) string }     (5.x)
    unary      = ( "+" | "-" | NOT ) unary | primary
    primary    = string | integer | decimal | TRUE | FALSE | NULL | name | "(" or ")"

NOT binds more tightly than a comparison.  Whatever follows a complete expression is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contrailmq.protocol.filter import sql_tree as tree
from contrailmq.protocol.filter.sql_lexer import Lexer, SqlError, Token, TokenKind, sql_error
from contrailmq.protocol.filter.sql_numbers import DOUBLE_MAX, DOUBLE_MIN, INT_MAX, LONG_MAX
from contrailmq.protocol.filter.sql_tree import Constant, Kind, Node

DEPTH_MAX: Final = 64
VALUES_MAX: Final = 2_000  # what is compared, texts of IN not counted: compiling takes its time
SEARCHES: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_RANGES: Final = ("NOT", "BETWEEN", "IN", *SEARCHES)
_SIGNS: Final = ("+", "-")


def parse_sql(text: str, keywords: frozenset[str]) -> Node:
    """The condition an expression states; SqlError if it states none."""
    return _Parser(text, keywords).parse()


class _Parser:
    def __init__(self, text: str, keywords: frozenset[str]) -> None:
        self._lexer = Lexer(text, keywords)
        self._depth = 0
        self._values = 0

    def parse(self) -> Node:
        start = self._lexer.peek()
        return self._checked(start, lambda: tree.as_condition(self._or()))

    def _or(self) -> Node:
        left = self._and()
        while self._next_is("OR"):
            place = self._lexer.take()
            right = self._and()
            left = self._checked(place, tree.join, "||", left, right)
        return left

    def _and(self) -> Node:
        left = self._equality()
        while self._next_is("AND"):
            place = self._lexer.take()
            right = self._equality()
            left = self._checked(place, tree.join, "&&", left, right)
        return left

    def _equality(self) -> Node:
        depth = self._depth
        left = self._comparison()
        while True:
            token = self._lexer.peek()
            if token.kind is TokenKind.MARK and token.text in ("=", "<>"):
                self._lexer.take()
                right = self._comparison()
                equal = self._checked(token, tree.equal, left, right)
                left = equal if token.text == "=" else tree.Not(equal)
            elif self._next_is("IS"):
                self._lexer.take()
                negated = self._accept("NOT")
                self._expect("NULL")
                unknown = tree.Equal(left, Constant(Kind.NULL, None))
                left = tree.Not(unknown) if negated else unknown
            else:
                self._depth = depth
                return left
            self._deeper(token)

    def _comparison(self) -> Node:
        depth = self._depth
        left = self._unary()
        while True:
            token = self._lexer.peek()
            if token.kind is TokenKind.MARK and token.text in tree.ORDERS:
                self._lexer.take()
                right = self._unary()
                left = self._checked(token, tree.order, token.text, left, right)
            elif token.kind is TokenKind.KEYWORD and token.text in _RANGES:
                left = self._range(token, left)
            else:
                self._depth = depth
                return left
            self._deeper(token)

    def _range(self, place: Token, left: Node) -> Node:
        negated = self._accept("NOT")
        word = self._lexer.take()
        if word.kind is TokenKind.KEYWORD and word.text == "BETWEEN":
            low = self._unary()
            self._expect("AND")
            high = self._unary()
            make = tree.outside if negated else tree.between
            return self._checked(place, make, left, low, high)
        if word.kind is TokenKind.KEYWORD and word.text == "IN":
            values = self._strings()
            return self._checked(place, lambda: tree.among(left, values, negated=negated))
        if word.kind is TokenKind.KEYWORD and word.text in SEARCHES:
            return tree.Search(word.text, left, self._string(), negated)
        raise self._unexpected(word, "BETWEEN or IN after NOT")

    def _strings(self) -> tuple[str, ...]:
        self._expect("(")
        values = [self._string()]
        while self._accept(","):
            values.append(self._string())
        self._expect(")")
        return tuple(values)

    def _string(self) -> str:
        token = self._lexer.take()
        if token.kind is not TokenKind.STRING:
            raise self._unexpected(token, "a string")
        return token.text

    def _unary(self) -> Node:
        token = self._lexer.peek()
        signed = token.kind is TokenKind.MARK and token.text in _SIGNS
        if not signed and not self._next_is("NOT"):
            return self._primary()
        self._lexer.take()
        self._deeper(token)
        operand = self._unary()
        self._depth -= 1
        if token.text == "+":
            return operand
        if token.text == "-":
            return tree.Negate(operand)
        return tree.Not(self._checked(token, tree.as_condition, operand))

    def _primary(self) -> Node:
        token = self._lexer.take()
        self._values += 1
        if self._values > VALUES_MAX:
            text = f"more than {VALUES_MAX} values and names"
            raise sql_error(self._lexer.text, token.position, text)
        if token.kind is TokenKind.STRING:
            return Constant(Kind.STRING, token.text)
        if token.kind is TokenKind.NAME:
            return tree.Property(token.text)
        if token.kind is TokenKind.INTEGER:
            return self._checked(token, _integer, token.text)
        if token.kind is TokenKind.FLOAT:
            return self._checked(token, _double, token.text)
        if token.kind is TokenKind.KEYWORD and token.text in ("TRUE", "FALSE"):
            return Constant(Kind.BOOLEAN, token.text == "TRUE")
        if token.kind is TokenKind.KEYWORD and token.text == "NULL":
            return Constant(Kind.NULL, None)
        if token.kind is TokenKind.MARK and token.text == "(":
            self._deeper(token)
            inner = self._or()
            self._expect(")")
            self._depth -= 1
            return inner
        raise self._unexpected(token, "a value, NOT or (")

    def _deeper(self, place: Token) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise sql_error(self._lexer.text, place.position, f"nested deeper than {DEPTH_MAX}")

    def _next_is(self, text: str) -> bool:
        token = self._lexer.peek()
        return token.text == text and token.kind in (TokenKind.KEYWORD, TokenKind.MARK)

    def _accept(self, text: str) -> bool:
        if self._next_is(text):
            self._lexer.take()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(self._lexer.peek(), text)

    def _unexpected(self, token: Token, wanted: str) -> SqlError:
        found = repr(token.text) if token.text else f"the {token.kind.value}"
        return sql_error(self._lexer.text, token.position, f"expected {wanted}, found {found}")

    def _checked(self, place: Token, make: Callable[..., Node], *args: object) -> Node:
        try:
            return make(*args)
        except ValueError as error:
            raise sql_error(self._lexer.text, place.position, str(error)) from error


def _integer(text: str) -> Node:
    digits = text.rstrip("lL")
    if len(digits) > 19 or int(digits) > LONG_MAX:
        raise ValueError(f"integer {text}, at most {LONG_MAX}")
    value = int(digits)
    return Constant(Kind.INT if value <= INT_MAX else Kind.LONG, value)


def _double(text: str) -> Node:
    value = float(text)
    if not DOUBLE_MIN <= value <= DOUBLE_MAX:
        raise ValueError(f"decimal number {text}, at least {DOUBLE_MIN} and at most {DOUBLE_MAX}")
    return Constant(Kind.DOUBLE, value)
