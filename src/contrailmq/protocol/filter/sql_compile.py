"""Turn a parsed expression into nested functions over a message's properties.

Each function takes the properties and gives true, false or None (unknown), or raises ValueError
where RocketMQ fails on a message: a property that is not the number it is compared with.  The
order of evaluation is RocketMQ's, since a part that is not evaluated cannot fail.  The common
forms (a property against a constant) have functions of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from contrailmq.protocol.filter.sql_numbers import (
    INT_MAX,
    LONG_MAX,
    compare_doubles,
    parse_boolean,
    parse_double,
    parse_int,
)
from contrailmq.protocol.filter.sql_tree import (
    NUMBERS,
    Among,
    Cast,
    Constant,
    Equal,
    Kind,
    Logic,
    Negate,
    Node,
    Not,
    Order,
    Property,
    Search,
)

Properties: TypeAlias = Mapping[str, str]
Evaluate: TypeAlias = Callable[[Properties], Any]
_Test: TypeAlias = Callable[[Any, Any], bool]

_TESTS: Final[dict[str, _Test]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
MIRRORED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def compile_node(node: Node) -> Evaluate:
    """The function of a node."""
    return _COMPILERS[type(node)](node)


def property_names(node: Node) -> set[str]:
    """Every property an expression looks at."""
    if isinstance(node, Property):
        return {node.name}
    if isinstance(node, Logic):
        return set().union(*map(property_names, node.operands))
    if isinstance(node, Equal | Order):
        return property_names(node.left) | property_names(node.right)
    if isinstance(node, Constant):
        return set()
    return property_names(node.operand)


def _constant(node: Constant) -> Evaluate:
    value = node.value
    return lambda properties: value


def _property(node: Property) -> Evaluate:
    name = node.name
    return lambda properties: properties.get(name)


def _negate(node: Negate) -> Evaluate:
    known = fold(node)
    if known is not None:
        return _constant(known)
    inner = compile_node(node.operand)

    def nothing(properties: Properties) -> None:
        inner(properties)

    return nothing


def _cast(node: Cast) -> Evaluate:
    name = node.operand.name
    return lambda properties: None if properties.get(name) is None else False


def _not(node: Not) -> Evaluate:
    inner = compile_node(node.operand)

    def opposite(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return opposite


def _logic(node: Logic) -> Evaluate:
    if len(node.operands) == 2:
        return _logic_of_two(node)
    parts = tuple(map(compile_node, node.operands))
    final = node.symbol == "||"  # the value that decides at once

    def chain(properties: Properties) -> bool | None:
        result: bool | None = not final
        for part in parts:
            value: bool | None = part(properties)
            if value is final:
                return final
            if value is None:
                result = None
        return result

    return chain


def _logic_of_two(node: Logic) -> Evaluate:
    left, right = map(compile_node, node.operands)

    def both(properties: Properties) -> bool | None:
        first = left(properties)
        if first is False:
            return False
        second = right(properties)
        return second if first or second is False else None

    def either(properties: Properties) -> bool | None:
        first = left(properties)
        if first is True:
            return True
        second = right(properties)
        return second if first is False or second else None

    return both if node.symbol == "&&" else either


def _among(node: Among) -> Evaluate:
    name, values, negated = node.operand.name, frozenset(node.values), node.negated

    def among(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in values) is not negated

    return among


def _search(node: Search) -> Evaluate:
    inner, wanted, negated = compile_node(node.operand), node.text, node.negated
    find = _FIND[node.word]

    def search(properties: Properties) -> bool:
        if not wanted:
            return False
        text = inner(properties)
        return isinstance(text, str) and find(text, wanted) is not negated

    return search


def fold(node: Node) -> Constant | None:
    """The constant a node is, minus signs before a number included."""
    if isinstance(node, Constant):
        return node
    if isinstance(node, Negate):
        inner = fold(node.operand)
        if inner is not None and inner.kind in NUMBERS:
            return Constant(inner.kind, -inner.value)  # type: ignore[operator]
        if inner is not None:
            return Constant(Kind.NULL, None)
    return None


def _order(node: Order) -> Evaluate:
    left, right = fold(node.left), fold(node.right)
    if isinstance(node.left, Property) and right is not None and right.kind in NUMBERS:
        return _order_to_number(node.left.name, node.symbol, right)
    if isinstance(node.right, Property) and left is not None and left.kind in NUMBERS:
        return _order_to_number(node.right.name, MIRRORED[node.symbol], left)
    if isinstance(node.left, Property) and isinstance(node.right, Property):
        return _order_of_properties(node.left.name, node.right.name, _TESTS[node.symbol])
    first, second = compile_node(node.left), compile_node(node.right)
    test = _TESTS[node.symbol]

    def order(properties: Properties) -> bool | None:
        # Two numbers, or one side is nothing: a negated property or condition.
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        return None if other is None else test(one, other)

    return order


def _order_to_number(name: str, symbol: str, number: Constant) -> Evaluate:
    test, limit = _TESTS[symbol], number.value
    if number.kind is Kind.DOUBLE:
        assert isinstance(limit, float)
        bound = limit

        def order_double(properties: Properties) -> bool | None:
            text = properties.get(name)
            return None if text is None else test(compare_doubles(parse_double(text), bound), 0)

        return order_double
    largest = INT_MAX if number.kind is Kind.INT else LONG_MAX

    def order_integer(properties: Properties) -> bool | None:
        text = properties.get(name)
        if text is None:
            return None
        if len(text) < 10 and text.isascii() and text.isdecimal():
            return test(int(text), limit)
        return test(parse_int(text, largest), limit)

    return order_integer


def _order_of_properties(left: str, right: str, test: _Test) -> Evaluate:
    def order(properties: Properties) -> bool | None:
        first = properties.get(left)
        if first is None:
            return None
        second = properties.get(right)
        if second is None:
            return None
        return test(compare_doubles(parse_double(first), parse_double(second)), 0)

    return order


def _equal(node: Equal) -> Evaluate:
    left, right = fold(node.left), fold(node.right)
    if isinstance(node.left, Property) and right is not None:
        return _equal_property(node.left.name, right, missing=None)
    if isinstance(node.right, Property) and left is not None and left.kind is not Kind.BOOLEAN:
        return _equal_property(node.right.name, left, missing=left.value is None or False)
    first, second = compile_node(node.left), compile_node(node.right)
    kinds = (left.kind if left else None, right.kind if right else None)

    def equal(properties: Properties) -> bool | None:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else _equal_values(one, other, kinds)

    return equal


def _equal_property(name: str, constant: Constant, *, missing: bool | None) -> Evaluate:
    value, kind = constant.value, constant.kind
    if kind is Kind.NULL:
        # Both sides nothing is true: IS NULL.
        return lambda properties: properties.get(name) is None
    if kind is Kind.STRING:

        def equal_text(properties: Properties) -> bool | None:
            text = properties.get(name)
            return missing if text is None else text == value

        return equal_text
    convert = _CONVERT[kind]

    def equal_value(properties: Properties) -> bool | None:
        text = properties.get(name)
        return missing if text is None else convert(text) == value

    return equal_value


def _equal_values(left: Any, right: Any, kinds: tuple[Kind | None, Kind | None]) -> bool:
    """Equality of what is there on both sides; ``kinds`` are those of constants."""
    if isinstance(left, bool) and isinstance(right, str):
        raise ValueError(f"{left} cannot be compared with {right!r}")  # Java: ClassCastException
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    if isinstance(left, str):
        return bool(_CONVERT[kinds[1] or Kind.BOOLEAN](left) == right)
    if isinstance(right, str):
        return bool(_CONVERT[kinds[0] or Kind.BOOLEAN](right) == left)
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


_FIND: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, wanted: wanted in text,
    "STARTSWITH": lambda text, wanted: text.startswith(wanted),
    "ENDSWITH": lambda text, wanted: text.endswith(wanted),
}
_CONVERT: Final[dict[Kind, Callable[[str], Any]]] = {
    Kind.INT: lambda text: parse_int(text, INT_MAX),
    Kind.LONG: lambda text: parse_int(text, LONG_MAX),
    Kind.DOUBLE: parse_double,
    Kind.BOOLEAN: parse_boolean,
}
_COMPILERS: Final[dict[type, Callable[[Any], Evaluate]]] = {
    Constant: _constant,
    Property: _property,
    Negate: _negate,
    Cast: _cast,
    Not: _not,
    Logic: _logic,
    Among: _among,
    Search: _search,
    Order: _order,
    Equal: _equal,
}
