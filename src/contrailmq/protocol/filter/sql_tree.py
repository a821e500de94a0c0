"""The tree of a parsed SQL92 expression.  ``str`` of a node is its normal form, fully bracketed.

What a node yields for a message is known before: a property gives a string or nothing, a constant
its own type, everything boolean gives true, false or unknown (None).  Constructors refuse operands
that RocketMQ refuses when it compiles, with ValueError; the parser adds the place.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

from contrailmq.protocol.filter.sql_numbers import double_text

ORDERS: Final = (">", ">=", "<", "<=")


class Kind(enum.Enum):
    """The type of a constant: INT and LONG differ in what a property must fit into."""

    STRING = enum.auto()
    INT = enum.auto()
    LONG = enum.auto()
    DOUBLE = enum.auto()
    BOOLEAN = enum.auto()
    NULL = enum.auto()


NUMBERS: Final = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE})


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    kind: Kind
    value: str | int | float | bool | None

    @property
    def is_boolean(self) -> bool:
        """Whether it can stand where a condition must: TRUE, FALSE, NULL."""
        return self.kind in (Kind.BOOLEAN, Kind.NULL)

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        if isinstance(self.value, float):
            return double_text(self.value)
        return "NULL" if self.value is None else str(self.value).upper()


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a message property, or nothing."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Negate:
    """A number with its sign turned; of anything but a number it is nothing."""

    operand: Node

    def __str__(self) -> str:
        return f"(- {self.operand})"


@dataclass(frozen=True, slots=True)
class Cast:
    """A property where a condition must stand: it is a string, and so never true."""

    operand: Property

    def __str__(self) -> str:
        return str(self.operand)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; of unknown it is unknown."""

    operand: Node

    def __str__(self) -> str:
        return f"(NOT {self.operand})"


@dataclass(frozen=True, slots=True)
class Logic:
    """``&&`` or ``||`` over two or more conditions, from left to right."""

    symbol: str
    operands: tuple[Node, ...]

    def __str__(self) -> str:
        text = str(self.operands[0])
        for operand in self.operands[1:]:
            text = f"({text} {self.symbol} {operand})"
        return text


@dataclass(frozen=True, slots=True)
class Equal:
    """Equality, and with the NULL constant on its right also IS NULL."""

    left: Node
    right: Node

    def __str__(self) -> str:
        return f"({self.left} == {self.right})"


@dataclass(frozen=True, slots=True)
class Order:
    """One of ORDERS between numbers."""

    symbol: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"({self.left} {self.symbol} {self.right})"


@dataclass(frozen=True, slots=True)
class Among:
    """IN and NOT IN: a property and strings."""

    operand: Property
    values: tuple[str, ...]
    negated: bool

    def __str__(self) -> str:
        return f"{self.operand} {'NOT ' * self.negated}IN ( {', '.join(self.values)} )"


@dataclass(frozen=True, slots=True)
class Search:
    """CONTAINS, STARTSWITH, ENDSWITH and their NOT forms; false, never unknown."""

    word: str
    operand: Node
    text: str
    negated: bool

    def __str__(self) -> str:
        return f"({'NOT ' * self.negated}{self.word} {self.operand})"


Node: TypeAlias = Constant | Property | Negate | Cast | Not | Logic | Equal | Order | Among | Search


def is_condition(node: Node) -> bool:
    """Whether a node gives true, false or unknown by itself."""
    if isinstance(node, Constant):
        return node.is_boolean
    return not isinstance(node, Property | Negate)


def as_condition(node: Node) -> Node:
    """A node to stand where a condition must."""
    if is_condition(node):
        return node
    if isinstance(node, Property):
        return Cast(node)
    raise ValueError(f"{node} is neither true nor false")


def join(symbol: str, left: Node, right: Node) -> Logic:
    """AND or OR; a chain of one of them becomes one node."""
    left, right = as_condition(left), as_condition(right)
    if isinstance(left, Logic) and left.symbol == symbol:
        return Logic(symbol, (*left.operands, right))
    return Logic(symbol, (left, right))


def equal(left: Node, right: Node) -> Equal:
    """``=`` between two values."""
    for node in (left, right):
        if isinstance(node, Constant) and node.kind is Kind.NULL:
            raise ValueError("NULL cannot be compared, use IS NULL")
    constants = isinstance(left, Constant) and isinstance(right, Constant)
    if constants and is_condition(left) and not is_condition(right):
        raise ValueError(f"{left} cannot be compared with {right}")
    return Equal(left, right)


def order(symbol: str, left: Node, right: Node) -> Order:
    """``>``, ``>=``, ``<`` or ``<=`` between two values."""
    for node in (left, right):
        number = isinstance(node, Constant) and node.kind in NUMBERS
        if not number and not isinstance(node, Property | Negate):
            raise ValueError(f"{node} cannot be compared by {symbol}, only numbers can")
    return Order(symbol, left, right)


def between(value: Node, low: Node, high: Node) -> Logic:
    """BETWEEN: both limits belong to the range."""
    if isinstance(low, Constant) and isinstance(high, Constant):
        if low.value is None or high.value is None:
            raise ValueError("the limits of BETWEEN cannot be NULL")
        if low.kind in NUMBERS and high.kind in NUMBERS and low.value > high.value:  # type: ignore[operator]
            raise ValueError(f"the limits of BETWEEN are the wrong way round: {low} and {high}")
    return Logic("&&", (order(">=", value, low), order("<=", value, high)))


def outside(value: Node, low: Node, high: Node) -> Logic:
    """NOT BETWEEN."""
    return Logic("||", (order("<", value, low), order(">", value, high)))


def among(node: Node, values: tuple[str, ...], *, negated: bool) -> Among:
    """IN or NOT IN."""
    if not isinstance(node, Property):
        raise ValueError(f"{node} is not a property; IN needs a property")
    return Among(node, values, negated)
