"""Files that are replaced whole: at every moment something readable is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contrailmq.broker.config.saved_file import ConfigFile
from contrailmq.errors import ConfigError
from contrailmq.store.files import OsFiles


def test_the_last_write_is_read_and_the_one_before_is_the_backup(tmp_path: Path) -> None:
    file = ConfigFile(OsFiles(), str(tmp_path / "config" / "topics.json"))
    assert file.read(json.loads) is None
    file.write(b'{"n":1}')
    file.write(b'{"n":2}')
    assert file.read(json.loads) == {"n": 2}
    assert json.loads((tmp_path / "config" / "topics.json.bak").read_bytes()) == {"n": 1}


@pytest.mark.parametrize("cut", [0, 1, 6])
def test_a_torn_file_falls_back_to_its_backup(tmp_path: Path, cut: int) -> None:
    file = ConfigFile(OsFiles(), str(tmp_path / "topics.json"))
    file.write(b'{"n":1}')
    file.write(b'{"n":2}')
    Path(file.path).write_bytes(b'{"n":2}'[:cut])
    assert file.read(json.loads) == {"n": 1}


def test_a_missing_file_falls_back_to_its_backup(tmp_path: Path) -> None:
    file = ConfigFile(OsFiles(), str(tmp_path / "topics.json"))
    file.write(b'{"n":1}')
    file.write(b'{"n":2}')
    Path(file.path).unlink()
    assert file.read(json.loads) == {"n": 1}


def test_zeros_of_a_power_cut_are_no_content(tmp_path: Path) -> None:
    file = ConfigFile(OsFiles(), str(tmp_path / "topics.json"))
    file.write(b'{"n":1}')
    file.write(b'{"n":2}')
    Path(file.path).write_bytes(bytes(100))
    assert file.read(json.loads) == {"n": 1}


def test_two_damaged_files_are_an_error_and_not_an_empty_table(tmp_path: Path) -> None:
    file = ConfigFile(OsFiles(), str(tmp_path / "topics.json"))
    file.write(b"{")
    file.write(b"{")
    with pytest.raises(ConfigError, match=r"topics\.json"):
        file.read(json.loads)


def test_torn_content_never_becomes_the_backup(tmp_path: Path) -> None:
    path = str(tmp_path / "topics.json")
    first = ConfigFile(OsFiles(), path)
    first.write(b'{"n":1}')
    first.write(b'{"n":2}')
    Path(path).write_bytes(b'{"n"')
    again = ConfigFile(OsFiles(), path)
    assert again.read(json.loads) == {"n": 1}
    again.write(b'{"n":3}')
    assert json.loads(Path(path + ".bak").read_bytes()) == {"n": 1}
    assert again.read(json.loads) == {"n": 3}
