"""The version of this package, and the one it speaks on the wire."""

from importlib.util import find_spec
from typing import Final

VERSION: Final = "0.2.0"


def build_text() -> str:
    """Return `` (plain build: nothing is compiled)`` if that is so, else nothing."""
    compiled = find_spec("contrailmq._native.records")
    is_plain = compiled is None or (compiled.origin or "").endswith(".py")
    return " (plain build: nothing is compiled, so it is many times slower)" if is_plain else ""
