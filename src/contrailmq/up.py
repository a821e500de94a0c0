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
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import BrokerConf, given_keys, read_conf
from contrailmq.broker.main import DIES_WITH_PARENT, add_options, allow_many_files, warn
from contrailmq.clock import SystemClock
from contrailmq.controller.app import Controller
from contrailmq.controller.settings import ControllerSettings
from contrailmq.errors import ConfigError
from contrailmq.lifecycle import running
from contrailmq.logs import begin_logging, log_arguments
from contrailmq.metrics.settings import MetricsSettings
from contrailmq.namesrv.app import NameServer
from contrailmq.namesrv.settings import Configuration, NameServerSettings
from contrailmq.net.loop import run
from contrailmq.net.tls_settings import own_calls
from contrailmq.security.accounts import account_path
from contrailmq.security.files import AccountFiles
from contrailmq.security.first_start import Secured, secure
from contrailmq.settings import read_file
from contrailmq.store.layout import Layout
from contrailmq.up_console import add_console_options, console_beside
from contrailmq.up_metrics import add_defaults, beside, child_keys, shown
from contrailmq.up_replicas import ReplicaProcesses, await_end, keep_running, ready_address
from contrailmq.usage import CommandParser, listen_fault, port, whole

DEFAULT_STORE: Final = "~/.contrailmq/store"
SQL_FILTERS: Final = "enablePropertyFilter"
PORT_STEP: Final = 10
BROKERS_MAX: Final = 64
REPLICAS_MAX: Final = 7
_EPILOG: Final = """\
examples:
  contrail up                              on 127.0.0.1:9876, messages in ~/.contrailmq/store
  contrail up --store /tmp/try --namesrv-port 0 --port 0
  contrail up --host 10.0.0.5 --secure     for other machines, with TLS and accounts
  contrail up --brokers 4                  a process each, for one process uses one core
  contrail up --replicas 2                 one broker twice: a kill -9 loses nothing
  contrail up --set flushDiskType=SYNC_FLUSH --set autoCreateTopicEnable=false

Ctrl-C or SIGTERM stops it; everything is on disk then.

exit codes: 0 stopped, 1 failed, 2 wrong usage
"""


def main(argv: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT."""
    options = _parser().parse_args(argv)
    begin_logging(options)
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
        self._names: NameServer | None = None
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

    def reload(self) -> None:
        """Look at certificates and accounts now (SIGHUP)."""
        if self._names is not None:
            self._names.reload()
        if self._broker is not None:
            self._broker.reload()

    async def __aenter__(self) -> Cluster:
        try:
            host = self._conf.broker.bind_address
            names, self._namesrv_address = await self._stack.enter_async_context(
                _name_server(
                    host, self._namesrv_port, self._kv_config_path,
                    conf=self._conf, config_path=self._config_path,
                )
            )  # fmt: skip
            self._names = names
            broker = Broker(
                dataclasses.replace(self._conf.broker, namesrv_addr=self._namesrv_address),
                self._conf.store,
                ha_settings=self._conf.ha,
                server_settings=self._conf.server,
                client_settings=self._conf.client,
                config_path=self._config_path,
                tls=own_calls(self._conf.tls),
                metrics=self._conf.metrics,
                beside=beside(self._conf.metrics, names.figures, self._namesrv_address),
                grpc=self._conf.grpc,
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
        "grpcServerPort": "0",
        "storePathRootDir": f"{directory}/store",
        **properties,
    }
    return Cluster(read_conf(chosen), kv_config_path=f"{directory}/kvConfig.json")


@asynccontextmanager
async def _name_server(
    host: str, port: int, kv_config_path: str, *,
    conf: BrokerConf, config_path: str | None, metrics: MetricsSettings | None = None,
) -> AsyncIterator[tuple[NameServer, str]]:  # fmt: skip
    """A name server that guards itself as its broker does."""
    settings = NameServerSettings(
        bind_address=host,
        listen_port=port,
        kv_config_path=kv_config_path,
        acl_enable=conf.broker.acl_enable,
    )
    accounts = None
    if conf.broker.acl_enable:
        home, root = os.environ.get("ROCKETMQ_HOME"), Layout(conf.store).root
        path = account_path(config_path, home, root, given=conf.broker.acl_file)
        accounts = AccountFiles(path)
    configuration = Configuration(
        settings=settings, tls=conf.tls, metrics=metrics or MetricsSettings()
    )
    server = NameServer(configuration, clock=SystemClock(), accounts=accounts)
    try:
        await server.start()
    except OSError as error:
        fault = listen_fault(error, host=host, port=port, option="--namesrv-port")
        raise ConfigError(fault) from error
    try:
        shown = "127.0.0.1" if host == "0.0.0.0" else host
        yield server, f"{shown}:{server.port}"
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
    add_defaults(properties, is_fixed=options.port != 0 and options.namesrv_port != 0)
    if options.port is not None:
        properties["listenPort"] = str(options.port)
    if options.store is not None:
        properties["storePathRootDir"] = options.store
    properties.setdefault("storePathRootDir", DEFAULT_STORE)
    properties.pop("namesrvAddr", None)  # the name server here is the one that counts
    path = None if options.config is None else str(options.config)
    return read_conf(properties, strict=options.strict, config_path=path)


def _secured(options: argparse.Namespace) -> Secured | None:
    """What ``--secure`` makes at the first start: in the folder ``secure`` beside the store."""
    if not options.secure:
        return None
    store = Path(options.store or DEFAULT_STORE).expanduser()
    host = options.host or "127.0.0.1"
    hosts = list(dict.fromkeys((host, "127.0.0.1", "localhost")))
    return secure(store.parent / f"{store.name}-secure", hosts=hosts, clock=SystemClock())


async def _serve(options: argparse.Namespace) -> None:
    allow_many_files()
    clock = SystemClock()
    began_ms = clock.monotonic_ms()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    secured = _secured(options)
    if secured is not None:
        options.settings += secured.properties.items()  # also for brokers in processes of their own
    conf = _conf(options)
    kv_path = f"{Layout(conf.store).root}/kvConfig.json"
    serve = _many if options.brokers > 1 else _one
    if options.replicas > 1:
        serve = _replicated
    async with serve(conf, options, kv_path) as told:
        took_s = (clock.monotonic_ms() - began_ms) / 1000
        sys.stdout.write(
            f"contrail is up: {told}; ready in {took_s:.2f} s; "
            f"stop it with Ctrl-C or kill {os.getpid()}\n"
        )
        if secured is not None:
            sys.stdout.write(secured.told(told.split(",")[0].removeprefix("name server ")))
        sys.stdout.flush()
        acl = conf.broker.acl_enable
        async with console_beside(options, told, tls=conf.tls, acl=acl) as console:
            sys.stdout.write(console)
            sys.stdout.flush()
            warn(conf, options)
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
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, cluster.reload)
    async with cluster:
        yield (
            f"name server {cluster.namesrv_address}, broker {cluster.broker.address}, "
            f"store {conf.store.root}" + shown(cluster.broker.metrics_address)
        )


@asynccontextmanager
async def _many(conf: BrokerConf, options: argparse.Namespace, kv_path: str) -> AsyncIterator[str]:
    """The name server here, each broker in a process that ends with this one."""
    host, port = conf.broker.bind_address, options.namesrv_port
    config_path = None if options.config is None else str(options.config)
    async with _name_server(
        host, port, kv_path, conf=conf, config_path=config_path, metrics=conf.metrics
    ) as (server, namesrv):  # fmt: skip
        children: list[asyncio.subprocess.Process] = []
        commands: list[list[str]] = []
        addresses: list[str] = []

        def reload() -> None:
            server.reload()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(signal.SIGHUP)

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        try:
            for number in range(options.brokers):
                commands.append(_child_command(conf, options, number=number, namesrv=namesrv))
                children.append(await _spawn(commands[-1]))
                if number == 0:  # what is wrong with all of them is said once
                    addresses.append(await ready_address(children[0]))
            addresses += [await ready_address(child) for child in children[1:]]
            async with running(keep_running(children, commands, _spawn), name="brokers"):
                yield (
                    f"name server {namesrv}, brokers {' '.join(addresses)}, store {conf.store.root}"
                )
        finally:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    child.terminate()
            for child in children:
                await await_end(child)


@asynccontextmanager
async def _replicated(
    conf: BrokerConf, options: argparse.Namespace, kv_path: str
) -> AsyncIterator[str]:
    """Name server and controller here; each broker of the group in a process that comes back."""
    host, root = conf.broker.bind_address, Layout(conf.store).root
    config_path = None if options.config is None else str(options.config)
    async with _name_server(
        host, options.namesrv_port, kv_path,
        conf=conf, config_path=config_path, metrics=conf.metrics,
    ) as (_, namesrv):  # fmt: skip
        settings = ControllerSettings(
            bind_address=host, listen_port=0, ledger=f"{root}/controller.json"
        )
        async with Controller(settings) as controller:
            more = ["--name", conf.broker.broker_name]
            for given in ("enableControllerMode=true", f"controllerAddr={controller.address}"):
                more += ["--set", given]
            commands = [
                _child_command(conf, options, number=number, namesrv=namesrv) + more
                for number in range(options.replicas)
            ]
            async with ReplicaProcesses(commands, _spawn, ready_address) as processes:
                brokers = " ".join(processes.addresses)
                yield (
                    f"name server {namesrv}, controller {controller.address}, "
                    f"replicas {brokers} of {conf.broker.broker_name}, store {root}"
                )


async def _spawn(command: Sequence[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, DIES_WITH_PARENT: str(os.getpid())},
    )


def _child_command(
    conf: BrokerConf, options: argparse.Namespace, *, number: int, namesrv: str
) -> list[str]:
    port = conf.broker.listen_port
    port = port + number * PORT_STEP if port else 0
    store = f"{Layout(conf.store).root}/broker-{number}"
    command = [sys.executable, "-m", "contrailmq.main", "broker", "-n", namesrv]
    command += ["--port", str(port), "--store", store, "--name", f"broker-{number}"]
    command += ["--host", conf.broker.bind_address]
    command += log_arguments(options, suffix=f"broker-{number}")
    if options.config is not None:
        command += ["-c", str(options.config)]
    filters = (SQL_FILTERS, str(conf.broker.property_filter).lower())
    grpc = conf.grpc.child_keys(number, options.brokers, host=conf.broker.bind_address)
    for name, value in (filters, *options.settings, *child_keys(conf.metrics, number), *grpc):
        command += ["--set", f"{name}={value}"]
    return command


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="contrail up",
        description="Run a name server and a broker in one process.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    parser.add_argument(
        "--secure",
        action="store_true",
        help="TLS and accounts; made at the first start, beside the store",
    )
    parser.add_argument(
        "--namesrv-port",
        type=port,
        default=9876,
        metavar="PORT",
        help="the name server's port, 9876; 0 takes a free one",
    )
    parser.add_argument("--port", type=port, help="the broker's port, 10911; 0 takes a free one")
    parser.add_argument(
        "--brokers", type=whole(1, BROKERS_MAX), default=1, metavar="N",
        help="as many broker processes",
    )  # fmt: skip
    parser.add_argument(
        "--replicas", type=whole(1, REPLICAS_MAX), default=1, metavar="N",
        help="one broker kept N times: when a process dies another takes over",
    )  # fmt: skip
    add_console_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
