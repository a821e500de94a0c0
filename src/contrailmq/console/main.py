"""``contrail console``: the web console of any RocketMQ cluster."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import Final

from contrailmq.admin.options import client_settings, name_servers, new_parser
from contrailmq.console.serving import serving
from contrailmq.console.settings import DEFAULT_PORT, ConsoleSettings
from contrailmq.errors import UsageError
from contrailmq.logs import add_log_options, begin_logging
from contrailmq.net.loop import run
from contrailmq.usage import port

_EPILOG: Final = """\
examples:
  contrail console                                   of the cluster here, on 127.0.0.1:8080
  contrail console --name-servers 'a:9876;b:9876' --port 8090
  contrail console --read-only                       nothing can be changed
  contrail console --host 10.0.0.5 --login           for other machines, with accounts
"""


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = _parser().parse_args(argv)
    begin_logging(options)
    run(_serve(options))
    return 0


async def _serve(options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings = ConsoleSettings(
        host=options.host,
        port=options.port,
        read_only=options.read_only,
        allow_remote=options.allow_remote,
        hosts=tuple(options.host_name),
        login=True if options.login else None,
    )
    if options.access_key is not None and not settings.is_local and not options.allow_remote:
        raise UsageError(
            "--access-key lets every visitor act under that account; for other machines use "
            "--login, so that visitors give their own, or say --allow-remote"
        )
    names = name_servers(options)
    client = client_settings(options)
    async with serving(names, settings, client=client) as address:
        sys.stdout.write(f"console of {names}: {address}; stop it with Ctrl-C\n")
        sys.stdout.flush()
        await stop.wait()


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("console", "Serve the web console of a cluster.", _EPILOG, connects=True)
    parser.add_argument(
        "--name-servers", dest="namesrv", metavar="ADDR", help="the same as --namesrv"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1)")
    parser.add_argument(
        "--port", type=port, default=DEFAULT_PORT, help=f"({DEFAULT_PORT}); 0 takes a free one"
    )
    parser.add_argument("--read-only", action="store_true", help="no action changes anything")
    parser.add_argument(
        "--login", action="store_true",
        help="visitors give an account of the cluster (found out, if the cluster demands one)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-remote", action="store_true",
        help="serve other machines although there is no access control",
    )  # fmt: skip
    parser.add_argument(
        "--host-name", action="append", default=[], metavar="NAME",
        help="a name under which browsers reach the console, besides its address",
    )  # fmt: skip
    add_log_options(parser)
    return parser
