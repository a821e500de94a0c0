"""Turn a parsed expression into a program for the compiled evaluator (``_native/sql``).

It decides what ``sql_compile`` decides, in the same order, over the raw bytes of a property string.
A node the evaluator has no operation for becomes a hard one: whoever meets it asks the functions of
``sql_compile``, so every expression has a program, and some programs are only a detour.

Texts are compared as UTF-8 bytes.  That is the same as comparing decoded texts, unless the
constant has the character that stands for undecodable bytes: such a constant is hard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from contrailmq._native import sql as native
from contrailmq._native.sql import SqlProgram
from contrailmq.protocol.filter.sql_compile import MIRRORED, compile_node, fold, property_names
from contrailmq.protocol.filter.sql_tree import (
    NUMBERS,
    Among,
    Cast,
    Constant,
    Equal,
    Kind,
    Logic,
    Node,
    Not,
    Order,
    Property,
    Search,
)

_TESTS: Final = {">": 0, ">=": 1, "<": 2, "<=": 3}
_WORDS: Final = {"CONTAINS": 0, "STARTSWITH": 1, "ENDSWITH": 2}
_OUTCOMES: Final = {False: native.FALSE, True: native.TRUE, None: native.UNKNOWN}
_UNDECODABLE: Final = "\ufffd"
_HARD: Final = (native.OP_HARD,)


def build_program(tree: Node, fallback: Callable[[bytes], bool]) -> SqlProgram:
    """The program of an expression; ``fallback`` decides what it finds hard."""
    names = sorted(property_names(tree))
    builder = _Builder(names)
    if len(names) > native.NAMES_MAX:
        builder.names = {}
        builder.texts = []
        builder.put(_HARD)
    else:
        builder.add(tree)
    program = SqlProgram(
        builder.nodes,
        builder.children,
        builder.texts,
        builder.integers,
        builder.doubles,
        fallback,
    )
    program.set_names(len(builder.names))
    return program


class _Builder:
    def __init__(self, names: list[str]) -> None:
        self.names = {name: place for place, name in enumerate(names)}
        self.texts = [name.encode() for name in names]
        self.nodes: list[int] = []
        self.children: list[int] = []
        self.integers: list[int] = []
        self.doubles: list[float] = []

    def add(self, tree: Node) -> int:
        """Add a node and what is below it; its place."""
        place = self.put(_HARD)
        self.put(self._code(tree), place)
        return place

    def put(self, code: tuple[int, ...], place: int | None = None) -> int:
        """Write one node, at the end or over another."""
        size = native.NODE_SIZE
        if place is None:
            place = len(self.nodes) // size
            self.nodes += [0] * size
        self.nodes[place * size : (place + 1) * size] = [*code, *[0] * (size - len(code))]
        return place

    def _code(self, tree: Node) -> tuple[int, ...]:
        if not property_names(tree):
            return _code_of_constant(tree)
        if isinstance(tree, Cast):
            return native.OP_CAST, self.names[tree.operand.name]
        if isinstance(tree, Not):
            return native.OP_NOT, self.add(tree.operand)
        if isinstance(tree, Logic):
            below = [self.add(operand) for operand in tree.operands]
            first = len(self.children)
            self.children += below
            return native.OP_AND if tree.symbol == "&&" else native.OP_OR, first, len(below)
        if isinstance(tree, Among):
            return self._among(tree)
        if isinstance(tree, Search):
            return self._search(tree)
        if isinstance(tree, Order):
            return self._order(tree)
        if isinstance(tree, Equal):
            return self._equal(tree)
        return _HARD

    def _text(self, text: str) -> int | None:
        """The place of a constant text; None when it cannot be compared as bytes."""
        if _UNDECODABLE in text:
            return None
        try:
            data = text.encode()
        except UnicodeEncodeError:
            return None
        self.texts.append(data)
        return len(self.texts) - 1

    def _among(self, tree: Among) -> tuple[int, ...]:
        places = [self._text(value) for value in tree.values]
        if None in places:
            return _HARD
        name = self.names[tree.operand.name]
        return native.OP_AMONG, name, places[0] or 0, len(places), int(tree.negated)

    def _search(self, tree: Search) -> tuple[int, ...]:
        text = self._text(tree.text)
        if text is None or not isinstance(tree.operand, Property):
            return _HARD
        name = self.names[tree.operand.name]
        return native.OP_SEARCH, name, text, _WORDS[tree.word], int(tree.negated)

    def _order(self, tree: Order) -> tuple[int, ...]:
        left, right = fold(tree.left), fold(tree.right)
        if isinstance(tree.left, Property) and right is not None and right.kind in NUMBERS:
            return self._order_to_number(tree.left, tree.symbol, right)
        if isinstance(tree.right, Property) and left is not None and left.kind in NUMBERS:
            return self._order_to_number(tree.right, MIRRORED[tree.symbol], left)
        if isinstance(tree.left, Property) and isinstance(tree.right, Property):
            names = self.names[tree.left.name], self.names[tree.right.name]
            return native.OP_ORDER_NAMES, *names, _TESTS[tree.symbol]
        return _HARD

    def _order_to_number(self, left: Property, symbol: str, right: Constant) -> tuple[int, ...]:
        name, test = self.names[left.name], _TESTS[symbol]
        if right.kind is Kind.DOUBLE:
            return native.OP_ORDER_DOUBLE, name, self._double(right), test
        return native.OP_ORDER_INTEGER, name, self._integer(right), test, right.kind is Kind.LONG

    def _equal(self, tree: Equal) -> tuple[int, ...]:
        left, right = fold(tree.left), fold(tree.right)
        if isinstance(tree.left, Property) and right is not None:
            return self._equal_to(tree.left, right, native.UNKNOWN)
        if isinstance(tree.right, Property) and left is not None and left.kind is not Kind.BOOLEAN:
            return self._equal_to(tree.right, left, native.FALSE)
        if isinstance(tree.left, Property) and isinstance(tree.right, Property):
            return native.OP_EQUAL_NAMES, self.names[tree.left.name], self.names[tree.right.name]
        if right is not None and right.kind is Kind.NULL and isinstance(tree.left, _CONDITIONS):
            return native.OP_IS_UNKNOWN, self.add(tree.left)
        return _HARD

    def _equal_to(self, left: Property, right: Constant, missing: int) -> tuple[int, ...]:
        name = self.names[left.name]
        if right.kind is Kind.NULL:
            return native.OP_IS_NULL, name
        if right.kind is Kind.STRING:
            text = self._text(str(right.value))
            return _HARD if text is None else (native.OP_EQUAL_TEXT, name, text, missing)
        if right.kind is Kind.DOUBLE:
            return native.OP_EQUAL_DOUBLE, name, self._double(right), missing
        if right.kind is Kind.BOOLEAN:
            return native.OP_EQUAL_BOOLEAN, name, int(bool(right.value)), missing
        number = self._integer(right)
        return native.OP_EQUAL_INTEGER, name, number, missing, right.kind is Kind.LONG

    def _integer(self, constant: Constant) -> int:
        assert isinstance(constant.value, int)
        self.integers.append(constant.value)
        return len(self.integers) - 1

    def _double(self, constant: Constant) -> int:
        assert isinstance(constant.value, float)
        self.doubles.append(constant.value)
        return len(self.doubles) - 1


_CONDITIONS: Final = (Cast, Not, Logic, Equal, Order, Among, Search)


def _code_of_constant(tree: Node) -> tuple[int, ...]:
    """A part without a property is what it is, once for all."""
    try:
        value = compile_node(tree)({})
    except ValueError:
        return native.OP_VALUE, native.ERROR
    if value is None or isinstance(value, bool):
        return native.OP_VALUE, _OUTCOMES[value]
    return _HARD
