"""``contrail up``: a name server and a broker, ready to use, in one process.

With ``--brokers N`` the name server stays here and each broker is a process of its own, for one
process uses one core.  ``Cluster`` is the same thing for programs: tests and the demo use it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from contrailmq.broker.app import Broker
from contrailmq.broker.conf import BrokerConf, given_keys, read_conf
from contrailmq.broker.main import add_options, allow_many_files
from contrailmq.clock import SystemClock
from contrailmq.errors import ConfigError, ContrailError
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import NameServerSettings
from contrailmq.net.loop import run
from contrailmq.settings import read_file
from contrailmq.store.layout import Layout
from contrailmq.usage import CommandParser, listen_fault, port, whole

DEFAULT_STORE: Final = "~/.contrailmq/store"
SQL_FILTERS: Final = "enablePropertyFilter"
PORT_STEP: Final = 10
CHILD_READY_S: Final = 120.0  # a store that was not stopped cleanly is walked first
CHILD_STOP_S: Final = 60.0  # it flushes; who is killed meanwhile has to recover
BROKERS_MAX: Final = 64
_EPILOG: Final = """\
examples:
  contrail up                              on 127.0.0.1:9876, messages in ~/.contrailmq/store
  contrail up --store /tmp/try --namesrv-port 0 --port 0
  contrail up --host 10.0.0.5              for other machines, too
  contrail up --brokers 4                  a process each, for one process uses one core
  contrail up --set flushDiskType=SYNC_FLUSH --set autoCreateTopicEnable=false

Ctrl-C or SIGTERM stops it; everything is on disk then.

exit codes: 0 stopped, 1 failed, 2 wrong usage
"""


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = _parser().parse_args(argv)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    run(_serve(options))
    return 0


class Cluster:
    """A name server and a broker in the running loop: ``async with Cluster(conf) as cluster``."""

    def __init__(
        self, conf: BrokerConf, *,
        namesrv_port: int = 0, kv_config_path: str = "", config_path: str | None = None,
    ) -> None:  # fmt: skip
        self._conf = conf
        self._config_path = config_path
        self._namesrv_port = namesrv_port
        self._kv_config_path = kv_config_path
        self._stack = contextlib.AsyncExitStack()
        self._namesrv_address = ""
        self._broker: Broker | None = None

    @property
    def namesrv_address(self) -> str:
        """What clients are given."""
        return self._namesrv_address

    @property
    def broker(self) -> Broker:
        """The broker, once the cluster runs."""
        assert self._broker is not None, "the cluster has not started"
        return self._broker

    async def __aenter__(self) -> Cluster:
        try:
            host = self._conf.broker.bind_address
            self._namesrv_address = await self._stack.enter_async_context(
                _name_server(host, self._namesrv_port, self._kv_config_path)
            )
            broker = Broker(
                dataclasses.replace(self._conf.broker, namesrv_addr=self._namesrv_address),
                self._conf.store,
                server_settings=self._conf.server,
                client_settings=self._conf.client,
                config_path=self._config_path,
            )
            self._broker = await self._stack.enter_async_context(broker)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


def local_cluster(directory: str, properties: Mapping[str, str]) -> Cluster:
    """A cluster of this machine alone on free ports, its files in a directory of the caller's.

    ``properties`` are keys of broker.conf; they outrank what this function chooses.
    """
    chosen = {
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "listenPort": "0",
        "brokerName": "broker-a",
        "storePathRootDir": f"{directory}/store",
        **properties,
    }
    return Cluster(read_conf(chosen), kv_config_path=f"{directory}/kvConfig.json")


@asynccontextmanager
async def _name_server(host: str, port: int, kv_config_path: str) -> AsyncIterator[str]:
    settings = NameServerSettings(
        bind_address=host, listen_port=port, kv_config_path=kv_config_path
    )
    server = NameServer(settings, clock=SystemClock())
    try:
        await server.start()
    except OSError as error:
        fault = listen_fault(error, host=host, port=port, option="--namesrv-port")
        raise ConfigError(fault) from error
    try:
        shown = "127.0.0.1" if host == "0.0.0.0" else host
        yield f"{shown}:{server.port}"
    finally:
        await server.aclose()


def _conf(options: argparse.Namespace) -> BrokerConf:
    properties = read_file(options.config) if options.config is not None else {}
    properties.update(given_keys(options.settings))
    host = options.host or properties.get("bindAddress", "127.0.0.1")
    properties["bindAddress"] = host
    if host != "0.0.0.0" and (options.host is not None or "brokerIP1" not in properties):
        properties["brokerIP1"] = host
    properties.setdefault("brokerName", "broker-a")
    properties.setdefault(SQL_FILTERS, "true")  # the commands' examples use them
    if options.port is not None:
        properties["listenPort"] = str(options.port)
    if options.store is not None:
        properties["storePathRootDir"] = options.store
    properties.setdefault("storePathRootDir", DEFAULT_STORE)
    properties.pop("namesrvAddr", None)  # the name server here is the one that counts
    return read_conf(properties, strict=options.strict)


async def _serve(options: argparse.Namespace) -> None:
    allow_many_files()
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    conf = _conf(options)
    kv_path = f"{Layout(conf.store).root}/kvConfig.json"
    serve = _many if options.brokers > 1 else _one
    async with serve(conf, options, kv_path) as told:
        took_s = (clock.monotonic_ms() - began_ms) / 1000
        sys.stdout.write(
            f"contrail is up: {told}; ready in {took_s:.2f} s; "
            f"stop it with Ctrl-C or kill {os.getpid()}\n"
        )
        sys.stdout.flush()
        gc.collect()
        gc.freeze()
        await stop.wait()


@asynccontextmanager
async def _one(conf: BrokerConf, options: argparse.Namespace, kv_path: str) -> AsyncIterator[str]:
    cluster = Cluster(
        conf,
        namesrv_port=options.namesrv_port,
        kv_config_path=kv_path,
        config_path=None if options.config is None else str(options.config),
    )
    async with cluster:
        yield (
            f"name server {cluster.namesrv_address}, broker {cluster.broker.address}, "
            f"store {conf.store.root}"
        )


@asynccontextmanager
async def _many(conf: BrokerConf, options: argparse.Namespace, kv_path: str) -> AsyncIterator[str]:
    """The name server here, each broker in a process that ends with this one."""
    host, port = conf.broker.bind_address, options.namesrv_port
    async with _name_server(host, port, kv_path) as namesrv:
        children: list[asyncio.subprocess.Process] = []
        addresses: list[str] = []
        try:
            for number in range(options.brokers):
                command = _child_command(conf, options, number=number, namesrv=namesrv)
                children.append(
                    await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
                )
                if number == 0:  # what is wrong with all of them is said once
                    addresses.append(await _ready_address(children[0]))
            addresses += [await _ready_address(child) for child in children[1:]]
            yield f"name server {namesrv}, brokers {' '.join(addresses)}, store {conf.store.root}"
        finally:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    child.terminate()
            for child in children:
                await _await_end(child)


def _child_command(
    conf: BrokerConf, options: argparse.Namespace, *, number: int, namesrv: str
) -> list[str]:
    port = conf.broker.listen_port
    port = port + number * PORT_STEP if port else 0
    store = f"{Layout(conf.store).root}/broker-{number}"
    command = [sys.executable, "-m", "contrailmq.main", "broker", "-n", namesrv]
    command += ["--port", str(port), "--store", store, "--name", f"broker-{number}"]
    command += ["--host", conf.broker.bind_address, "--log-level", options.log_level]
    if options.config is not None:
        command += ["-c", str(options.config)]
    filters = (SQL_FILTERS, str(conf.broker.property_filter).lower())
    for name, value in (filters, *options.settings):
        command += ["--set", f"{name}={value}"]
    return command


async def _ready_address(child: asyncio.subprocess.Process) -> str:
    """The address in the line a broker prints when it serves."""
    assert child.stdout is not None
    try:
        async with asyncio.timeout(CHILD_READY_S):
            line = (await child.stdout.readline()).decode()
    except TimeoutError:
        raise ContrailError(f"a broker was not ready within {CHILD_READY_S:g} s") from None
    if "boot success" not in line:
        raise ContrailError("a broker did not start, for the reason above; so none does")
    return line.partition(", ")[2].partition("]")[0]


async def _await_end(child: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(CHILD_STOP_S):
            await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail up",
        description="Run a name server and a broker in one process.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.add_argument(
        "--namesrv-port",
        type=port,
        default=9876,
        metavar="PORT",
        help="the name server's port, 9876; 0 takes a free one",
    )
    parser.add_argument("--port", type=port, help="the broker's port, 10911; 0 takes a free one")
    parser.add_argument(
        "--brokers",
        type=whole(1, BROKERS_MAX),
        default=1,
        metavar="N",
        help="as many broker processes",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
