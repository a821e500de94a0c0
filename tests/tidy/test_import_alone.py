"""Every module can be the first one imported: no module waits for another to have been there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from testkit.sources import PACKAGE, listing, modules

OPTIONAL = """
def optional(error):
    return (error.name or "").split(".")[0] in ("pyspark", "pyarrow", "pandas", "numpy")
"""
ONE_PROCESS = f"""
import importlib, json, sys
{OPTIONAL}
failed = {{}}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except Exception as error:
        if not (isinstance(error, ModuleNotFoundError) and optional(error)):
            failed[name] = repr(error)
json.dump(failed, sys.stdout)
"""
# A process that has the foreign packages ready and none of ours, and forks for each module.
ZYGOTE = f"""
import asyncio, dataclasses, enum, importlib, json, logging, os, struct, sys
for name in ("msgspec", "uvloop", "lz4.frame", "zstandard"):
    importlib.import_module(name)
{OPTIONAL}
failed = {{}}
for name in json.load(sys.stdin):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
            text = ""
        except ModuleNotFoundError as error:
            text = "" if optional(error) else repr(error)
        except BaseException as error:
            text = repr(error)
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    if text:
        failed[name] = text
json.dump(failed, sys.stdout)
"""


def test_every_module_imports() -> None:
    """In one process, last names first: quick, and enough as long as there is no circle."""
    names = sorted((module.name for module in modules()), reverse=True)
    assert_all_import(["-c", ONE_PROCESS], names)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_module_imports_alone() -> None:
    assert_all_import(["-c", ZYGOTE], [module.name for module in modules()])


def assert_all_import(script: list[str], names: list[str]) -> None:
    """Run a script that takes names on standard input and prints those that fail, and why."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *script],
        input=json.dumps(names),
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    assert not failed, listing([f"{name}: {text}" for name, text in failed.items()])
