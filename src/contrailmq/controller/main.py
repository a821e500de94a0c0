"""``contrail controller``: options, the configuration file, signals."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contrailmq.controller.app import Controller
from contrailmq.controller.settings import ControllerSettings
from contrailmq.logs import add_log_options, begin_logging
from contrailmq.net.loop import run
from contrailmq.settings import read, read_file
from contrailmq.usage import CommandParser, pair, port

_EPILOG: Final = """\
examples:
  contrail controller --port 9878 --ledger /var/lib/contrailmq/controller.json
  contrail controller -c controller.conf
  contrail controller --port 9878 --ledger etcd://10.0.0.1:2379,10.0.0.2:2379

brokers: enableControllerMode=true, controllerAddr=HOST:9878
exit codes: 0 stopped, 1 failed, 2 wrong usage
"""


def main(argv: Sequence[str]) -> int:
    """Run a controller until SIGTERM or SIGINT."""
    options = _parser().parse_args(argv)
    begin_logging(options)
    properties: dict[str, str] = {}
    if options.config is not None:
        properties.update(read_file(options.config))
    properties.update(options.settings)
    for name, value in (
        ("listenPort", options.port),
        ("bindAddress", options.host),
        ("controllerLedger", options.ledger),
    ):
        if value is not None:
            properties[name] = str(value)
    run(_serve(read(ControllerSettings, properties)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail controller",
        description="Run a controller: it decides which broker of a replica group is primary.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", help="a properties file")
    parser.add_argument(
        "--set", dest="settings", action="append", type=pair, default=[], metavar="KEY=VALUE",
        help="a key of the properties file; may be repeated",
    )  # fmt: skip
    parser.add_argument("--port", type=port, help="listenPort; 0 takes a free one")
    parser.add_argument("--host", help="the address to listen on")
    parser.add_argument("--ledger", metavar="FILE|etcd://…", help="where the groups are kept")
    add_log_options(parser)
    return parser


async def _serve(settings: ControllerSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Controller(settings) as controller:
        print(
            f"The controller at {controller.address} boot success; "
            f"stop it with Ctrl-C or kill {os.getpid()}",
            flush=True,
        )
        await stop.wait()
