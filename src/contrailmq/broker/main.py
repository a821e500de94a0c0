"""``contrail broker``: options, broker.conf, signals.

``-c``, ``-n``, ``-p`` and ``-m`` are those of mqbroker.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import BrokerConf, given_keys, read_conf
from contrailmq.broker.config.settings import completed
from contrailmq.logs import add_log_options, begin_logging
from contrailmq.net.loop import run
from contrailmq.security.exposure import exposure
from contrailmq.settings import read_file
from contrailmq.usage import CommandParser, pair, port
from contrailmq.version import build_text

_EPILOG: Final = """\
examples:
  contrail broker -n 127.0.0.1:9876                  beside a name server of this machine
  contrail broker -c broker.conf                     broker.conf is Java's
  contrail broker --set flushDiskType=SYNC_FLUSH     or some of its keys
  contrail broker -n 'a:9876;b:9876' --name broker-b --port 10921 --store /var/lib/contrailmq/b
  contrail broker -c broker.conf -m                  what it would run with

exit codes: 0 stopped, 1 failed, 2 wrong usage
"""

log = logging.getLogger(__name__)
DIES_WITH_PARENT: Final = "CONTRAIL_DIES_WITH_PARENT"  # the process id of the parent
_PR_SET_PDEATHSIG: Final = 1


def main(argv: Sequence[str]) -> int:
    """Run a broker until SIGTERM or SIGINT."""
    options = _parser().parse_args(argv)
    begin_logging(options)
    conf = load_conf(options)
    if options.print_all or options.print_important:
        shown = conf.properties() if options.print_all else conf.important()
        for name, value in shown.items():
            print(f"{name}={value}")
        return 0
    path = None if options.config is None else str(options.config.absolute())
    run(serve(conf, path, on_ready=lambda: warn(conf, options)))
    return 0


def load_conf(options: argparse.Namespace) -> BrokerConf:
    """The settings a command line asks for.

    Options outrank ``--set``, that the file, and the file NAMESRV_ADDR.
    """
    properties: dict[str, str] = {}
    if os.environ.get("NAMESRV_ADDR"):
        properties["namesrvAddr"] = os.environ["NAMESRV_ADDR"]
    if options.config is not None:
        properties.update(read_file(options.config))
    properties.update(given_keys(options.settings))
    for name, value in (
        ("namesrvAddr", options.namesrv),
        ("listenPort", options.port),
        ("storePathRootDir", options.store),
        ("brokerName", options.name),
    ):
        if value is not None:
            properties[name] = str(value)
    if options.host is not None:
        properties["brokerIP1"] = properties["bindAddress"] = options.host
    path = None if options.config is None else str(options.config)
    return read_conf(properties, strict=options.strict, config_path=path)


async def serve(
    conf: BrokerConf, path: str | None = None, *, on_ready: Callable[[], None] = lambda: None
) -> None:
    """Run a broker until a signal; prints one line when it serves. ``path`` is its broker.conf."""
    allow_many_files()
    die_with_parent()
    if plain := build_text():
        log.warning("slow:%s", plain)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    broker = Broker(
        conf.broker,
        conf.store,
        ha_settings=conf.ha,
        server_settings=conf.server,
        client_settings=conf.client,
        config_path=path,
        tls=conf.tls,
        metrics=conf.metrics,
        grpc=conf.grpc,
    )
    loop.add_signal_handler(signal.SIGHUP, broker.reload)
    async with broker:
        identity = broker.identity
        namesrv = conf.broker.namesrv_addr or "none"
        print(
            f"The broker[{identity.broker_name}, {identity.address}] boot success. "
            f"name server {namesrv}; stop it with Ctrl-C or kill {os.getpid()}",
            flush=True,
        )
        on_ready()
        gc.collect()
        gc.freeze()
        await stop.wait()
        log.info("broker stops: name=%s", identity.broker_name)
    log.info("broker has stopped: name=%s store is closed", identity.broker_name)


def warn(conf: BrokerConf, options: argparse.Namespace) -> None:
    """Tell whoever starts a broker that others may reach it unchecked."""
    told = exposure(
        completed(conf.broker).bind_address,
        acl=conf.broker.acl_enable,
        tls_only=conf.tls.server_mode == "enforcing",
    )
    if told is not None and not options.insecure:
        print(told, file=sys.stderr, flush=True)


def die_with_parent() -> None:
    """Be stopped when the ``contrail up`` that started this process dies (Linux)."""
    parent = os.environ.pop(DIES_WITH_PARENT, "")
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if str(os.getppid()) != parent:  # it died before we could ask
        os.kill(os.getpid(), signal.SIGTERM)


def allow_many_files() -> None:
    """Use all open files the system allows: each connection and each segment is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options a broker has in every command that runs one."""
    parser.add_argument("-c", "--config", type=Path, metavar="FILE", help="a broker.conf")
    parser.add_argument(
        "--set", dest="settings", action="append", type=pair, default=[], metavar="KEY=VALUE",
        help="a key of broker.conf; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--insecure", action="store_true", help="say nothing of open doors: they are meant"
    )
    parser.add_argument("--host", help="the address to listen on and to advertise")
    parser.add_argument("--store", metavar="DIR", help="the store directory (storePathRootDir)")
    parser.add_argument(
        "--strict-config", dest="strict", action="store_true", help="unknown keys are errors"
    )
    add_log_options(parser)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail broker",
        description="Run a broker.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.add_argument("-n", "--namesrv", metavar="ADDR", help="name servers, a:9876;b:9876")
    parser.add_argument("--port", type=port, help="listenPort; 0 takes a free one")
    parser.add_argument("--name", help="brokerName")
    parser.add_argument(
        "-p", dest="print_all", action="store_true", help="print all settings and exit"
    )
    parser.add_argument(
        "-m", dest="print_important", action="store_true", help="print the main ones and exit"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
