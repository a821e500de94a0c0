"""Copies of the Spark Declarative Pipelines projects that come with the package, filled in."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from contrailmq.errors import ConfigError

PROJECTS: Final = ("archive", "audit")


def create(name: str, directory: Path, *, name_servers: str, topics: Sequence[str]) -> list[Path]:
    """Write a project into a directory that has none yet; the files it has now."""
    if name not in PROJECTS:
        raise ConfigError(f"no project {name!r}; there are {', '.join(PROJECTS)}")
    if not topics:
        raise ConfigError("say which topics")
    if (directory / "spark-pipeline.yml").exists():
        raise ConfigError(f"{directory} has a project already")
    marks = {
        "@STORAGE@": str((directory / "storage").absolute()),
        "@NAMESERVERS@": name_servers,
        "@TOPICS@": ",".join(topics),
    }
    return sorted(_copy(files("contrailmq.pipelines") / "projects" / name, directory, marks))


def _copy(source: Traversable, target: Path, marks: dict[str, str]) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    done: list[Path] = []
    for entry in source.iterdir():
        if entry.is_dir():
            done += _copy(entry, target / entry.name, marks)
            continue
        text = entry.read_text(encoding="utf-8")
        for mark, value in marks.items():
            text = text.replace(mark, value)
        place = target / entry.name.removesuffix(".txt")  # no module of ours: Spark runs it
        place.write_text(text, encoding="utf-8")
        done.append(place)
    return done
