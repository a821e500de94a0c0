"""Copies of the Spark Declarative Pipelines projects that come with the package, filled in.

There is one per pipeline.  ``archive`` and ``table`` have streaming tables, ``audit`` and ``sql``
materialized views; ``redrive``, ``replay`` and ``restore`` a view of what was sent: to refresh it
is to send what is not there yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ConfigError

_ALL: Final = "nameServers"
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "archive": (_ALL, "topics"),
    "audit": (_ALL, "topics"),
    "redrive": (_ALL, "groups"),
    "replay": (_ALL, "topics", "to", "since", "until"),
    "restore": (_ALL, "topics", "to", "archive"),
    "sql": (_ALL, "topics", "query"),
    "table": (_ALL, "topics", "format"),
}
_MORE: Final[Mapping[str, Mapping[str, str]]] = {
    "archive": {"maxOffsetsPerTrigger": "500000"},
    "audit": {"traceTopic": "RMQ_SYS_TRACE_TOPIC"},
    "redrive": {"to": "", "where": "", "rate": "", "dryRun": "false"},
    "replay": {"toNameServers": "", "speed": "1", "where": "", "leadMs": "10000"},
    "restore": {"where": ""},
    "sql": {},
    "table": {"schema": "", "maxOffsetsPerTrigger": "500000"},
}
_NAMED: Final = ("replay", "restore")  # what they send has a name, by which it is known again
PROJECTS: Final = tuple(_NEEDS)


def create(
    name: str, directory: Path, *, settings: Mapping[str, str], clock: Clock | None = None
) -> list[Path]:
    """Write a project into a directory that has none yet; the files it has now.

    ``settings`` become its ``configuration``, as ``contrail.NAME``; what a project needs and is
    not there, or does not know and is there, is an error.
    """
    _need_pipelines()
    if name not in PROJECTS:
        raise ConfigError(f"no project {name!r}; there are {', '.join(PROJECTS)}")
    missing = [key for key in _NEEDS[name] if not settings.get(key)]
    if missing:
        options = ", ".join(f"--{option}" for option in missing)
        raise ConfigError(f"the project {name} needs {options}")
    known = {**dict.fromkeys(_NEEDS[name], ""), **_MORE[name], "accessKey": ""}
    unknown = sorted(key for key, value in settings.items() if value and key not in known)
    if unknown:
        raise ConfigError(f"the project {name} has no use for {', '.join(unknown)}")
    if (directory / "spark-pipeline.yml").exists():
        raise ConfigError(f"{directory} has a project already; give another folder")
    chosen = {**known, **{key: value for key, value in settings.items() if value}}
    if name in _NAMED:
        chosen["name"] = f"{name}-{(clock or SystemClock()).now_ms()}"
    query = chosen.pop("query", "")
    marks = {
        "@STORAGE@": str((directory / "storage").absolute()),
        "@QUERY@": query,
        "@CONFIGURATION@": "\n".join(
            f"  contrail.{key}: {json.dumps(value)}" for key, value in chosen.items()
        ),
    }
    return sorted(_copy(files("contrailmq.pipelines") / "projects" / name, directory, marks))


def _need_pipelines() -> None:
    """Refuse a Spark that cannot run projects; where there is none yet, one may come."""
    try:
        from contrailmq.spark.versions import need
    except ImportError:
        return
    need((4, 1), "a project of pyspark.pipelines")


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
