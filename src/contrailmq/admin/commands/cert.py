"""``contrail cert``: an authority of one's own, and the certificates it issues."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from contrailmq.admin.options import new_parser
from contrailmq.clock import SystemClock
from contrailmq.security.certificates import describe, issue, make_authority

_EPILOG: Final = """\
examples:
  contrail cert init --dir certs --host mq1.example.org 10.0.0.5     authority and server
  contrail cert issue shop-account --dir certs                      a client, by its account's name
  contrail cert issue mq2 --dir certs --host mq2.example.org         another server
  contrail cert show certs/server.pem

Keys are P-256, PKCS#8, readable by their owner alone. Keep ca.key where servers are not.
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = _parser().parse_args(argv)
    code: int = options.act(options, sys.stdout if out is None else out)
    return code


def _init(o: argparse.Namespace, out: TextIO) -> int:
    folder, clock = Path(o.dir), SystemClock()
    make_authority(folder, clock=clock)
    server = issue(folder, o.host[0], hosts=o.host, clock=clock, file="server")
    keys = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(server.absolute()),
        "tls.server.keyPath": str(server.with_suffix(".key").absolute()),
        "tls.server.trustCertPath": str((folder / "ca.pem").absolute()),
    }
    lines = "\n".join(f"{name}={value}" for name, value in keys.items())
    out.write((json.dumps(keys) if o.json else lines) + "\n")
    return 0


def _issue(o: argparse.Namespace, out: TextIO) -> int:
    path = issue(Path(o.dir), o.name, hosts=o.host, clock=SystemClock())
    made = {"cert": str(path), "key": str(path.with_suffix(".key"))}
    out.write((json.dumps(made) if o.json else "\n".join(made.values())) + "\n")
    return 0


def _show(o: argparse.Namespace, out: TextIO) -> int:
    for path in o.files:
        found = describe(Path(path))
        left = (found.pop("until_ms") - SystemClock().now_ms()) // 86_400_000
        if o.json:
            out.write(json.dumps({**found, "days_left": left}) + "\n")
            continue
        for name in ("path", "subject", "issuer", "from", "until"):
            out.write(f"{name:<8} {found[name]}\n")
        out.write(f"{'hosts':<8} {', '.join(found['hosts'])}\n{'left':<8} {left} days\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("cert", "Make and show certificates for TLS.", _EPILOG)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    init = commands.add_parser("init", help="make an authority and a server's certificate")
    init.set_defaults(act=_init)
    one = commands.add_parser("issue", help="make one more certificate")
    one.set_defaults(act=_issue)
    one.add_argument("name", metavar="NAME", help="its common name; for a client its account")
    for each, hosts in ((init, ["localhost", "127.0.0.1"]), (one, [])):
        each.add_argument("--dir", default="certs", help="where the files are (certs)")
        each.add_argument(
            "--host",
            nargs="+",
            default=hosts,
            metavar="HOST",
            help="names and addresses of a server",
        )
    show = commands.add_parser("show", help="what a certificate says")
    show.set_defaults(act=_show)
    show.add_argument("files", nargs="+", metavar="FILE")
    for each in (init, one, show):
        each.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser
