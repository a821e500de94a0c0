"""Who a broker is, before it serves: its names, its address, its ports."""

from __future__ import annotations

import asyncio
from typing import Final

from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.identity import Identity
from contrailmq.errors import ConfigError
from contrailmq.net.network import Network
from contrailmq.protocol.hosts import host_bytes
from contrailmq.usage import listen_fault

FAST_PORT_OFFSET: Final = 2
HA_PORT_OFFSET: Final = 1
FREE_PORT_TRIES: Final = 20


async def identify(settings: BrokerSettings, network: Network) -> Identity:
    """Address and names of a broker; raises ConfigError for an address that is none."""
    ip = settings.advertised_ip
    try:
        host_bytes(ip, 0)
    except Exception as error:
        raise ConfigError(
            f"brokerIP1 = {ip!r}: expected an IP address, for example 127.0.0.1; "
            "--host takes one too"
        ) from error
    port = settings.listen_port or await _free_port(settings.bind_address, network)
    return Identity(
        cluster_name=settings.cluster_name,
        broker_name=settings.broker_name,
        broker_id=settings.broker_id,
        address=f"{ip}:{port}",
        ha_address=f"{settings.ha_ip}:{port + HA_PORT_OFFSET}",
        store_host=host_bytes(ip, port),
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
