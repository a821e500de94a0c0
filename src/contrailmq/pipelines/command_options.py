"""Options that ``contrail pipeline`` and ``contrail sql`` share."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any, Final

from contrailmq.admin.options import tls_of
from contrailmq.errors import UsageError

_MASTER: Final = re.compile(r"local(\[.+\])?$|local-cluster\[.+\]$|(spark|k8s)://.|yarn$")


def spark_options() -> argparse.ArgumentParser:
    """A parent parser with what a command that starts Spark takes."""
    parent = argparse.ArgumentParser(add_help=False)
    group = parent.add_argument_group("Spark")
    group.add_argument("--master", metavar="URL", help="a cluster's master (this machine's cores)")
    group.add_argument("--remote", metavar="URL", help="a Spark Connect server, sc://HOST:PORT")
    group.add_argument("--memory", default="2g", metavar="SIZE", help="of the driver (2g)")
    group.add_argument(
        "--conf", type=pair, action="append", default=[], metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )  # fmt: skip
    return parent


def place(options: argparse.Namespace) -> dict[str, str | None]:
    """Where Spark is to run, as arguments of ``command_session``."""
    if options.master and options.remote:
        raise UsageError("--master and --remote exclude each other")
    if options.master and _MASTER.match(options.master) is None:
        raise UsageError(
            f"--master {options.master}: expected local[N], spark://HOST:PORT, yarn or k8s://URL"
        )
    if options.remote and not options.remote.startswith("sc://"):
        raise UsageError(f"--remote {options.remote}: expected sc://HOST:PORT")
    return {"master": options.master, "remote": options.remote}


def settings(options: argparse.Namespace) -> dict[str, str]:
    """The settings of Spark that a command line asks for."""
    return {"spark.driver.memory": options.memory, **dict(options.conf)}


def account(options: argparse.Namespace) -> dict[str, Any]:
    """The account a command line names, as arguments of ``Cluster``."""
    found: dict[str, Any] = {"tls": tls_of(options)}
    if options.access_key is None:
        return found
    secret = options.secret_key or os.environ.get("CONTRAIL_SECRET_KEY", "")
    if not secret:
        raise UsageError("--access-key needs --secret-key, or the variable CONTRAIL_SECRET_KEY")
    return {**found, "access_key": options.access_key, "secret_key": secret}


def names(text: str | None) -> list[str]:
    """The parts of a list with commas."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` as two."""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name.strip(), value
