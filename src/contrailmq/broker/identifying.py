"""Who a broker is, before it serves: its names, its address, its ports."""

from __future__ import annotations

import asyncio
from typing import Final

from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.identity import Identity
from contrailmq.errors import ConfigError
from contrailmq.net.network import Network
from contrailmq.net.resolving import Resolve, is_address, may_be_name, resolve
from contrailmq.protocol.hosts import host_bytes
from contrailmq.usage import listen_fault

FAST_PORT_OFFSET: Final = 2
HA_PORT_OFFSET: Final = 1
FREE_PORT_TRIES: Final = 20


async def identify(
    settings: BrokerSettings, network: Network, *, resolve: Resolve = resolve
) -> Identity:
    """Address and names of a broker; raises ConfigError for an address that is none.

    A name stays the advertised address: clients resolve it at each connection.  Records and
    message ids have room for numbers only, so they get the address the name has now.
    """
    host = settings.advertised_ip
    ip = await _number_of(host, resolve)
    if not is_address(settings.ha_ip) and not may_be_name(settings.ha_ip):
        raise _no_address("brokerIP2", settings.ha_ip, "--set brokerIP2=… sets it")
    port = settings.listen_port or await _free_port(settings.bind_address, network)
    return Identity(
        cluster_name=settings.cluster_name,
        broker_name=settings.broker_name,
        broker_id=settings.broker_id,
        address=f"{host}:{port}",
        ha_address=f"{settings.ha_ip}:{port + HA_PORT_OFFSET}",
        store_host=host_bytes(ip, port),
    )


async def _number_of(host: str, resolve: Resolve) -> str:
    if is_address(host):
        return host
    if not may_be_name(host):
        raise _no_address("brokerIP1", host, "--host takes one, too")
    try:
        return (await resolve(host))[0]
    except (OSError, IndexError) as error:
        raise ConfigError(
            f"brokerIP1 = {host!r}: this name cannot be resolved here ({error}); give one that "
            "the resolver of this machine knows, or an IP address"
        ) from error


def _no_address(name: str, value: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{name} = {value!r}: expected an IP address or a host name, for example 127.0.0.1 or "
        f"broker-a.example.org; {remedy}"
    )


async def _free_port(host: str, network: Network) -> int:
    """A port that is free together with its fast port; for tests and first steps."""
    for _ in range(FREE_PORT_TRIES):
        try:
            probe = await network.listen(asyncio.Protocol, host, 0)
        except OSError as error:
            fault = listen_fault(error, host=host, port=0, option="--port")
            raise ConfigError(fault) from error
        probe.close()
        await probe.wait_closed()
        fast = probe.port - FAST_PORT_OFFSET
        try:
            second = await network.listen(asyncio.Protocol, host, fast)
        except OSError:
            continue
        second.close()
        await second.wait_closed()
        return probe.port
    raise ConfigError(f"no two free ports found in {FREE_PORT_TRIES} attempts")
