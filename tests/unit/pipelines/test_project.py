"""The declarative projects: complete, readable by Spark's tool, and exact about what they need."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from contrailmq.errors import ConfigError
from contrailmq.pipelines.main import main
from contrailmq.pipelines.project import PROJECTS, create

SETTINGS = {
    "archive": {"topics": "orders"},
    "audit": {"topics": "orders"},
    "redrive": {"groups": "billing", "where": 'tags = "it\'s"'},
    "replay": {"topics": "orders", "to": "again", "since": "1", "until": "2", "speed": "10"},
    "restore": {"topics": "orders", "to": "again", "archive": "/data/archive"},
    "sql": {"topics": "orders", "query": "select count(*) from orders"},
    "table": {"topics": "orders", "format": "delta"},
}


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_is_complete(name: str, tmp_path: Path) -> None:
    given = {"nameServers": "10.0.0.5:9876", **SETTINGS[name]}
    made = create(name, tmp_path, settings=given)
    project = yaml.safe_load((tmp_path / "spark-pipeline.yml").read_text())
    assert project["storage"] == f"file://{tmp_path}/storage"
    written = project["configuration"]
    for key, value in given.items():
        if key == "query":
            assert value in (tmp_path / "transformations" / "query.sql").read_text()
        else:
            assert written[f"contrail.{key}"] == value
    for path in made:
        assert "@" not in path.read_text().replace("@dp.", ""), path
        if path.suffix == ".py":
            used = {
                node.value
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Constant) and str(node.value).startswith("contrail.")
            }
            assert used <= set(written), path
    with pytest.raises(ConfigError, match="has a project already"):
        create(name, tmp_path, settings=given)


def test_what_is_missing_or_of_no_use_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the project restore needs --to, --archive"):
        create("restore", tmp_path, settings={"nameServers": "h:1", "topics": "orders"})
    with pytest.raises(ConfigError, match="has no use for groups"):
        given = {"nameServers": "h:1", "topics": "orders", "groups": "billing"}
        create("audit", tmp_path, settings=given)
    with pytest.raises(ConfigError, match="no project 'compact'"):
        create("compact", tmp_path, settings={})


def test_the_command_fills_in_what_a_replay_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["project", "replay", str(tmp_path / "r"), "--topics", "orders", "--to", "again"]
    assert main([*words, "--since", "2h", "-n", "10.0.0.5:9876"]) == 0
    assert "spark-pipelines run" in capsys.readouterr().out
    written = yaml.safe_load((tmp_path / "r" / "spark-pipeline.yml").read_text())["configuration"]
    span_ms = int(written["contrail.until"]) - int(written["contrail.since"])
    assert abs(span_ms - 7_200_000) < 60_000
