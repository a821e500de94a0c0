"""Version ordinals: what a release calls itself in the ``version`` of its commands (MQVersion).

The ordinal is the position in a list that has grown since 3.0.0; from 3.0.1 on every release has
two places, the first of them for its snapshot.
"""

from __future__ import annotations

from typing import Final

_FIRST: Final = (
    "V3_0_0_SNAPSHOT",
    "V3_0_0_ALPHA1",
    "V3_0_0_BETA1",
    "V3_0_0_BETA2",
    "V3_0_0_BETA3",
    "V3_0_0_BETA4",
    "V3_0_0_BETA5",
    "V3_0_0_BETA6_SNAPSHOT",
    "V3_0_0_BETA6",
    "V3_0_0_BETA7_SNAPSHOT",
    "V3_0_0_BETA7",
    "V3_0_0_BETA8_SNAPSHOT",
    "V3_0_0_BETA8",
    "V3_0_0_BETA9_SNAPSHOT",
    "V3_0_0_BETA9",
    "V3_0_0_FINAL",
)


def _releases() -> list[tuple[int, int, int]]:
    found = [(3, 0, patch) for patch in range(1, 16)]
    for major, minors in ((3, range(1, 10)), (4, range(10)), (5, range(10))):
        for minor in minors:
            first = 1 if major == 3 and minor >= 3 else 0
            found += [(major, minor, patch) for patch in range(first, 10)]
    return found


def _names() -> tuple[str, ...]:
    names = list(_FIRST)
    for major, minor, patch in _releases():
        release = f"V{major}_{minor}_{patch}"
        names += (f"{release}_SNAPSHOT", release)
    return (*names, "HIGHER_VERSION")


VERSION_NAMES: Final = _names()
_ORDINALS: Final = {name: ordinal for ordinal, name in enumerate(VERSION_NAMES)}
HIGHER_VERSION: Final = _ORDINALS["HIGHER_VERSION"]

# Where a peer's version changes what is done.
V3_0_7_SNAPSHOT: Final = _ORDINALS["V3_0_7_SNAPSHOT"]
V3_0_11: Final = _ORDINALS["V3_0_11"]
V3_1_8_SNAPSHOT: Final = _ORDINALS["V3_1_8_SNAPSHOT"]
V3_4_9: Final = _ORDINALS["V3_4_9"]
V4_9_3: Final = _ORDINALS["V4_9_3"]
V4_9_4: Final = _ORDINALS["V4_9_4"]
V5_0_0: Final = _ORDINALS["V5_0_0"]
V5_2_0: Final = _ORDINALS["V5_2_0"]
V5_3_1: Final = _ORDINALS["V5_3_1"]

CURRENT_VERSION: Final = V5_2_0
"""What we speak, and what peers adapt to."""


def version_name(ordinal: int) -> str:
    """The name of a version, ``V5_2_0``; what is newer than the list is HIGHER_VERSION."""
    return VERSION_NAMES[ordinal] if 0 <= ordinal < HIGHER_VERSION else "HIGHER_VERSION"


def find_ordinal(text: str) -> int | None:
    """The ordinal of ``V5_2_0`` or ``5.2.0``, None when there is no such version."""
    name = text if text.startswith("V") or text == "HIGHER_VERSION" else f"V{text}"
    return _ORDINALS.get(name.replace(".", "_").replace("-", "_"))
