"""Committed offsets, reset marks, and what deleting does to them."""

from __future__ import annotations

import pytest

from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.errors import SystemBusy


def test_a_commit_overwrites_also_with_a_smaller_value() -> None:
    table = OffsetTable()
    assert table.find("g", "T", 0) is None
    table.commit("g", "T", 0, offset=7)
    table.commit("g", "T", 0, offset=3)
    assert table.find("g", "T", 0) == 3
    assert table.find("g", "T", 1) is None


def test_the_revision_changes_only_with_the_content() -> None:
    table = OffsetTable()
    table.commit("g", "T", 0, offset=7)
    revision = table.revision
    table.commit("g", "T", 0, offset=7)
    assert table.revision == revision
    table.commit("g", "T", 0, offset=8)
    assert table.revision != revision


def test_a_reset_outranks_commits_until_a_pull_has_taken_the_mark() -> None:
    table = OffsetTable()
    table.commit("g", "T", 0, offset=50)
    table.reset("g", "T", 0, offset=10)
    assert not table.commit("g", "T", 0, offset=51)
    assert table.commit("g", "T", 1, offset=5)
    assert table.find("g", "T", 0) == 10
    assert table.take_mark("g", "T", 0) == 10
    assert table.take_mark("g", "T", 0) is None
    assert table.commit("g", "T", 0, offset=11)
    assert table.find("g", "T", 0) == 11


def test_groups_and_topics_are_found_and_forgotten() -> None:
    table = OffsetTable()
    for group, topic in (("g", "T"), ("g", "U"), ("h", "T")):
        table.commit(group, topic, 0, offset=1)
    assert table.topics_of("g") == ["T", "U"]
    assert table.groups_of("T") == ["g", "h"]
    table.forget_topic("T")
    assert table.groups_of("T") == []
    assert table.topics_of("g") == ["U"]
    table.forget_group("g")
    assert len(table) == 0


def test_a_copy_is_independent_of_its_source() -> None:
    table = OffsetTable()
    table.commit("g", "T", 0, offset=4)
    table.copy("g", "h", "T")
    table.commit("g", "T", 0, offset=5)
    assert table.find("h", "T", 0) == 4


def test_the_bound_is_named() -> None:
    table = OffsetTable(pairs_max=1)
    table.commit("g", "T", 0, offset=1)
    with pytest.raises(SystemBusy, match="at most 1"):
        table.commit("g", "U", 0, offset=1)
