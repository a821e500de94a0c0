"""Pages are wrapped at 100 columns, so that a change shows as the lines it changed."""

from __future__ import annotations

import runpy
from pathlib import Path

WRAP = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts" / "wrap"))


def test_every_page_is_wrapped() -> None:
    stale = [p.name for p in WRAP["pages"]() if WRAP["wrapped"](p.read_text()) != p.read_text()]
    assert stale == [], "run scripts/wrap"


def test_what_wrapping_leaves_alone() -> None:
    page = (
        "# T\n\n| a | b |\n|---|---|\n\n```sh\n" + "x " * 80 + "\n```\n\n- " + "word " * 30 + "\n"
    )
    done = WRAP["wrapped"](page)
    assert "x " * 80 in done
    assert [len(line) <= 100 for line in done.splitlines() if "word" in line] == [True, True]
    assert WRAP["wrapped"](done) == done
