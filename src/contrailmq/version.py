"""The version of this package, and the one it speaks on the wire."""

from typing import Final

VERSION: Final = "0.1.0"
