"""The load generator as a program to be called, and what surrounds one call of it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from bench.broker.brokers import ROOT, BrokerProcess

OUT = ROOT / "bench" / "out"
CALL_S = 300.0
SETTLE_S = 15.0


def build_loadgen() -> Path:
    """The load generator, compiled if need be."""
    OUT.mkdir(parents=True, exist_ok=True)
    source, program = ROOT / "bench" / "broker" / "loadgen.c", OUT / "loadgen"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


class Load:
    """One run of the load generator against a broker, under way until ``result`` is asked for."""

    def __init__(self, program: Path, broker: BrokerProcess, arguments: list[str]) -> None:
        self._command = [str(program), arguments[0], "-P", str(broker.port), *arguments[1:]]
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def result(self) -> dict[str, Any]:
        """Wait for the end; its figures, or the end of the whole run with the reason."""
        try:
            out, error = self._process.communicate(timeout=CALL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, error = self._process.communicate()
        if self._process.returncode:
            reason = error.strip() or f"exit {self._process.returncode}"
            raise SystemExit(f"{' '.join(self._command)}: {reason}")
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found


def call(program: Path, broker: BrokerProcess, arguments: list[str]) -> dict[str, Any]:
    """One run of the load generator, to its end."""
    return Load(program, broker, arguments).result()


def settle() -> None:
    """Wait, within a bound, until nothing waits to be written to disk.

    Without it a sample would pay for the dirty pages of the one before, which were another
    broker's or another case's.
    """
    waiting = threading.Thread(target=os.sync, daemon=True)
    waiting.start()
    waiting.join(SETTLE_S)
