"""``contrail proxy``: arguments and signals."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from typing import Final

from contrailmq.errors import ConfigError, UsageError
from contrailmq.net.loop import run
from contrailmq.net.tls_settings import read_tls
from contrailmq.proxy.app import PORT, Proxy, ProxySettings
from contrailmq.settings import read_file
from contrailmq.usage import CommandParser, port

_EPILOG: Final = """\
examples:
  contrail proxy -n 127.0.0.1:9876                       gRPC on 8081 for all brokers
  contrail proxy -n a:9876;b:9876 --host 0.0.0.0         for other machines, too

The account for the proxy's own requests is CONTRAIL_ACCESS_KEY and CONTRAIL_SECRET_KEY.

exit codes: 0 stopped, 1 failed, 2 wrong usage
"""


def main(argv: Sequence[str]) -> int:
    """Run a proxy until SIGTERM or SIGINT; returns the exit code."""
    options = _parser().parse_args(list(argv))
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    text = options.namesrv or os.environ.get("NAMESRV_ADDR", "")
    names = tuple(filter(None, map(str.strip, text.replace(",", ";").split(";"))))
    if not names:
        raise UsageError("no name server: give -n HOST:9876, or set NAMESRV_ADDR")
    properties = read_file(options.config) if options.config is not None else {}
    settings = ProxySettings(
        name_servers=names,
        host=options.host,
        port=options.port,
        access_key=os.environ.get("CONTRAIL_ACCESS_KEY", ""),
        secret_key=os.environ.get("CONTRAIL_SECRET_KEY", ""),
        tls=read_tls(properties, config_path=options.config),
    )
    if settings.access_key and not settings.secret_key:
        raise ConfigError("CONTRAIL_ACCESS_KEY is set, CONTRAIL_SECRET_KEY is not: set both")
    run(_serve(settings))
    return 0


async def _serve(settings: ProxySettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Proxy(settings) as proxy:
        print(
            f"contrail proxy serves gRPC on {settings.host}:{proxy.port} for the brokers of "
            f"{';'.join(settings.name_servers)}; stop it with Ctrl-C or kill {os.getpid()}",
            flush=True,
        )
        await stop.wait()


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail proxy",
        description="Serve gRPC clients for all brokers of a cluster, RocketMQ's own included.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-n", "--namesrv", metavar="ADDR", help="name servers, a:9876;b:9876")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=port, default=PORT, help="the port, 8081; 0 is a free one")
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="a file with the keys of TLS (tls.*)"
    )
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what is logged to stderr",
    )
    return parser
