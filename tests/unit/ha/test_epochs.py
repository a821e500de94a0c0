"""The epochs of a log: their file, and where two logs are the same."""

from __future__ import annotations

import pytest

from contrailmq.ha.epochs import NO_END, EpochList
from contrailmq.ha.wire import Epoch
from contrailmq.testing.files import SimFiles


def epochs(*entries: tuple[int, int], files: SimFiles | None = None) -> EpochList:
    found = EpochList(files or SimFiles(), "store/epochFileCheckpoint")
    for epoch, start in entries:
        found.append(epoch, start)
    return found


def test_the_file_is_javas() -> None:
    """As golden/ha has it."""
    files = SimFiles()
    epochs((1, 0), (2, 23339), files=files)
    assert files.read("store/epochFileCheckpoint") == b"2\n685733628\n1-0\n2-23339\n"
    again = EpochList(files, "store/epochFileCheckpoint")
    assert again.entries == [Epoch(1, 0), Epoch(2, 23339)]
    assert again.at(23338) == Epoch(1, 0)
    assert again.at(23339) == Epoch(2, 23339)
    assert (again.end_of(0), again.end_of(23339)) == (23339, NO_END)


def test_a_damaged_file_is_passed_over_for_the_one_before() -> None:
    files = SimFiles()
    epochs((1, 0), (2, 100), files=files)
    files.replace("store/epochFileCheckpoint", b"2\n17\n1-0\n2-100\n")
    assert EpochList(files, "store/epochFileCheckpoint").entries == [Epoch(1, 0)]


def test_an_epoch_without_a_record_is_forgotten() -> None:
    found = epochs((1, 0), (2, 50), (2, 70), (1, 90))
    assert found.entries == [Epoch(1, 0), Epoch(2, 50)]
    found.append(3, 50)
    assert found.entries == [Epoch(1, 0), Epoch(3, 50)]
    # The primary of epoch 2 comes back with what it did not replicate: all of that is cut.
    old = epochs((1, 0), (2, 50))
    assert old.common_end(80, tuple(found.entries), 200) == 50


def test_a_log_whose_only_epoch_never_was() -> None:
    assert epochs((1, 0)).never_was((Epoch(2, 0), Epoch(3, 90)))
    assert not epochs((1, 0)).never_was((Epoch(1, 0), Epoch(3, 90)))
    assert not epochs((1, 0), (2, 100)).never_was((Epoch(3, 0),))
    assert not epochs((3, 0)).never_was((Epoch(2, 0),))
    assert not epochs((1, 0)).never_was(())


@pytest.mark.parametrize(
    ("mine", "end", "theirs", "their_end", "common"),
    [
        ([(1, 0)], 23621, [(1, 0), (2, 23339)], 32475, 23339),  # golden/ha: a returns
        ([(1, 0)], 100, [(1, 0), (2, 200)], 300, 100),  # it has less
        ([(1, 0), (2, 100)], 150, [(1, 0), (3, 120)], 200, 100),  # epoch 2 never was
        ([(1, 0), (2, 100)], 150, [(1, 0), (2, 100)], 120, 120),  # the primary has less
        ([], 77, [(4, 0)], 100, 77),  # from before controller mode
        ([(1, 0), (2, 100)], 150, [(3, 0)], 200, None),
        ([(2, 90)], 150, [(1, 0), (2, 100)], 200, None),  # begun elsewhere
    ],
)
def test_up_to_where_two_logs_are_the_same(
    mine: list[tuple[int, int]],
    end: int,
    theirs: list[tuple[int, int]],
    their_end: int,
    common: int | None,
) -> None:
    others = tuple(Epoch(*entry) for entry in theirs)
    assert epochs(*mine).common_end(end, others, their_end) == common


def test_cuts() -> None:
    found = epochs((1, 0), (2, 100), (3, 200))
    found.cut(200)
    assert found.entries == [Epoch(1, 0), Epoch(2, 100)]
    found.drop_before(150)
    assert found.entries == [Epoch(2, 100)]
