"""Numbers in property values, read by Java's rules, since filters were written against those.

Python's ``int`` and ``float`` take more (blanks, underscores, ``inf``) and less (``1.5d``).
All raise ValueError for what Java refuses.
"""

from __future__ import annotations

import re
from typing import Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MAX: Final = 1.7976931348623157e308
DOUBLE_MIN: Final = 5e-324

_INTEGER: Final = re.compile(r"[+-]?\d+")
_FLOAT: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?"
)
_TRIMMED: Final = "".join(map(chr, range(33)))  # String.trim


def parse_int(text: str, largest: int) -> int:
    """``Integer.valueOf`` or ``Long.valueOf``, as ``largest`` says."""
    if len(text) < 10 and text.isascii() and text.isdecimal():
        return int(text)
    if not _INTEGER.fullmatch(text) or max(text) > "\uffff" or len(text) > 4000:
        raise ValueError(f"not an integer: {text!r}")
    value = int(text)
    if not -largest - 1 <= value <= largest:
        raise ValueError(f"integer out of range: {text!r}")
    return value


def parse_double(text: str) -> float:
    """``Double.valueOf``."""
    trimmed = text.strip(_TRIMMED)
    if _FLOAT.fullmatch(trimmed):
        number = trimmed if trimmed[-1] in "yN" else trimmed.rstrip("fFdD")
        return float(number)
    if _HEX_FLOAT.fullmatch(trimmed):
        try:
            return float.fromhex(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)
        except OverflowError:
            return float("-inf" if trimmed[0] == "-" else "inf")
    raise ValueError(f"not a number: {text!r}")


def parse_boolean(text: str) -> bool:
    """``Boolean.valueOf``: everything that is not "true" is false."""
    return text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """``Double.compareTo``: NaN is equal to itself and above all, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    first, second = _rank(left), _rank(right)
    return (first > second) - (first < second)


def _rank(value: float) -> int:
    if value != value:  # noqa: PLR0124 NaN alone is not itself
        return 2
    return 0 if value == 0 and str(value)[0] == "-" else 1


def double_text(value: float) -> str:
    """``Double.toString``."""
    digits = repr(abs(value))
    sign = "-" if value < 0 else ""
    if 1e-3 <= abs(value) < 1e7:
        return sign + digits
    mantissa, _, exponent = f"{abs(value):.17g}".partition("e")
    for precision in range(17):
        shorter, _, power = f"{abs(value):.{precision}e}".partition("e")
        if float(f"{shorter}e{power}") == abs(value):
            mantissa, exponent = shorter, power
            break
    if "." not in mantissa:
        mantissa += ".0"
    return f"{sign}{mantissa}E{int(exponent or 0)}"
