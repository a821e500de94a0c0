"""``contrail namesrv``: arguments as mqnamesrv has them, the configuration file, signals."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError
from contrailmq.logs import add_log_options, begin_logging
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.files import make_folder
from contrailmq.namesrv.settings import Configuration
from contrailmq.net.loop import run
from contrailmq.security.accounts import account_path
from contrailmq.security.exposure import exposure
from contrailmq.security.files import AccountFiles
from contrailmq.settings import read_file
from contrailmq.usage import CommandParser, listen_fault, pair, port

_EPILOG: Final = """\
examples:
  contrail namesrv                                   on port 9876, for this machine alone
  contrail namesrv --host 0.0.0.0 --port 19876       for other machines, too
  contrail namesrv -c namesrv.conf -m                what it would run with

exit codes: 0 stopped, 1 failed, 2 wrong usage
"""
IMPORTANT = ("bindAddress", "listenPort", "kvConfigPath", "configStorePath", "orderMessageEnable")


def main(argv: Sequence[str]) -> int:
    """Run a name server until SIGTERM or SIGINT; returns the exit code."""
    options = _parser().parse_args(list(argv))
    begin_logging(options)
    configuration = _configuration(options)
    if options.print_all or options.print_important:
        for line in configuration.as_text().splitlines():
            if options.print_all or line.partition("=")[0] in IMPORTANT:
                print(line)
        return 0
    if options.store:
        make_folder(Path(options.store))  # else the first setting to be kept would tell
    run(_serve(configuration, is_quiet=options.insecure))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail namesrv",
        description="Run a name server.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-c", "--configFile", metavar="FILE", help="name server properties file")
    parser.add_argument(
        "--set", dest="settings", action="append", type=pair, default=[], metavar="KEY=VALUE",
        help="a key of namesrv.conf; may be repeated",
    )  # fmt: skip
    parser.add_argument("-n", "--namesrvAddr", metavar="LIST", help="taken for mqnamesrv's sake")
    parser.add_argument(
        "-p",
        "--printConfigItem",
        dest="print_all",
        action="store_true",
        help="print all settings and exit",
    )
    parser.add_argument(
        "-m",
        "--printImportantConfig",
        dest="print_important",
        action="store_true",
        help="print the important settings and exit",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="say nothing of open doors: they are meant"
    )
    parser.add_argument("--host", help="address to listen on (bindAddress)")
    parser.add_argument("--port", type=port, help="port to listen on (listenPort, 9876)")
    add_log_options(parser, level="info")
    parser.add_argument("--store", metavar="DIR", help="where kvConfig.json is kept")
    parser.add_argument(
        "--strict-config", action="store_true", help="an unknown setting is an error"
    )
    return parser


def _configuration(options: argparse.Namespace) -> Configuration:
    home = Path(options.store) if options.store else Path.home() / "namesrv"
    properties = {
        "kvConfigPath": str(home / "kvConfig.json"),
        "configStorePath": str(home / "namesrv.properties"),
    }
    if options.configFile:
        properties["configStorePath"] = str(Path(options.configFile).absolute())
        properties.update(read_file(Path(options.configFile)))
    given = dict(options.settings)
    Configuration.of(given, strict=True)  # one that nobody knows is an error here
    properties.update(given)
    if options.host:
        properties["bindAddress"] = options.host
    if options.port is not None:
        properties["listenPort"] = str(options.port)
    return Configuration.of(properties, strict=options.strict_config)


def _accounts(configuration: Configuration) -> AccountFiles | None:
    settings = configuration.settings
    if not settings.acl_enable:
        return None
    home = os.environ.get("ROCKETMQ_HOME")
    root = str(Path(settings.kv_config_path).parent)
    return AccountFiles(account_path(settings.config_store_path or None, home, root))


async def _serve(configuration: Configuration, *, is_quiet: bool = False) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    settings = configuration.settings
    server = NameServer(
        configuration,
        clock=SystemClock(),
        rng=random.Random(),
        accounts=_accounts(configuration),
    )
    loop.add_signal_handler(signal.SIGHUP, server.reload)
    host = settings.bind_address
    try:
        await server.start()
    except OSError as error:
        fault = listen_fault(error, host=host, port=settings.listen_port, option="--port")
        raise ConfigError(fault) from error
    try:
        print(f"The Name Server boot success. Listening on {host}:{server.port}", flush=True)
        told = exposure(
            configuration.settings.bind_address,
            acl=configuration.settings.acl_enable,
            tls_only=configuration.tls.server_mode == "enforcing",
        )
        if told is not None and not is_quiet:
            print(told, file=sys.stderr, flush=True)
        await stop.wait()
    finally:
        await server.aclose()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
