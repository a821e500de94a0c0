"""Every module can be the first one imported: no module waits for another to have been there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from testkit.sources import PACKAGE, listing, modules

# A process that has the foreign packages ready and none of ours, and forks for each module.
ZYGOTE = """
import asyncio, dataclasses, enum, importlib, json, logging, os, struct, sys
for name in ("msgspec", "uvloop", "lz4.frame", "zstandard"):
    importlib.import_module(name)
failed = {}
for name in json.load(sys.stdin):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
            text = ""
        except ModuleNotFoundError as error:
            optional = (error.name or "").split(".")[0] in ("pyspark", "pyarrow", "pandas", "numpy")
            text = "" if optional else repr(error)
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_module_imports_alone() -> None:
    names = [module.name for module in modules()]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ZYGOTE],
        input=json.dumps(names),
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    failed = json.loads(done.stdout)
    assert not failed, listing([f"{name}: {text}" for name, text in failed.items()])
