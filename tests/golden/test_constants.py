"""Names and numbers of codes, languages and versions are Java's."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from contrailmq.protocol.codes import Language, RequestCode, ResponseCode
from contrailmq.protocol.versions import (
    CURRENT_VERSION,
    HIGHER_VERSION,
    VERSION_NAMES,
    find_ordinal,
    version_name,
)
from testkit.golden import VERSIONS, vectors

ENUMS: dict[str, type[enum.IntEnum]] = {
    "RequestCode": RequestCode,
    "ResponseCode": ResponseCode,
    "RemotingSysResponseCode": ResponseCode,
    "LanguageCode": Language,
}


def constants(version: str, name: str) -> list[dict[str, Any]]:
    """The constants of one Java class."""
    found = [row for row in vectors(version, "constants") if row["class"] == name]
    assert found
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ENUMS)
def test_codes(version: str, name: str) -> None:
    for row in constants(version, name):
        assert ENUMS[name][row["name"]].value == row["value"], row


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(version: str) -> None:
    for row in constants(version, "MQVersion"):
        if row["name"] == "CURRENT_VERSION":
            assert find_ordinal(version) == row["value"]
            continue
        assert version_name(row["value"]) == row["name"]
        assert find_ordinal(row["name"]) == row["value"]


def test_the_list_of_versions_ends_where_javas_ends() -> None:
    assert len(VERSION_NAMES) == HIGHER_VERSION + 1
    assert version_name(HIGHER_VERSION + 100) == version_name(-1) == "HIGHER_VERSION"
    assert find_ordinal("5.2.0") == CURRENT_VERSION
    assert find_ordinal("9.9.9") is None
