"""The settings of the gRPC door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contrailmq.errors import ConfigError
from contrailmq.protocol.hosts import split_address
from contrailmq.settings import key

PORT_DEFAULT: Final = 8081
PORT_STEP: Final = 10  # between the brokers of one contrail up


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Where gRPC clients come in, and what they are told."""

    server_port: int = key(
        "grpcServerPort",
        -PORT_DEFAULT,
        low=-65535,
        high=65535,
        doc=(
            "The port for gRPC clients (5.x SDKs), TLS and plain text; 0 is off. A negative "
            "number is that port if it is free, and a warning if it is not."
        ),
    )
    advertised: str = key(
        "grpcAdvertised",
        "",
        doc=(
            "What gRPC clients are told for a broker, name=host:port with commas between; for the "
            "own broker the address they came by, for others the host of their remoting address "
            "with this broker's gRPC port."
        ),
    )

    def child_keys(self, number: int, brokers: int, *, host: str) -> list[tuple[str, str]]:
        """The keys of one broker process of ``contrail up``: its port, and the other brokers'.

        ``host`` is where all of them listen; 0.0.0.0 tells clients nothing.
        """
        keys = [("grpcServerPort", str(self._higher(PORT_STEP * number)))]
        if brokers > 1 and not self.advertised and host != "0.0.0.0" and self.server_port:
            others = (
                f"broker-{index}={host}:{abs(self._higher(PORT_STEP * index))}"
                for index in range(brokers)
                if index != number
            )
            keys.append(("grpcAdvertised", ",".join(others)))
        return keys

    def _higher(self, step: int) -> int:
        port = self.server_port
        return port + step if port > 0 else port - step if port else 0

    def places(self) -> dict[str, tuple[str, int]]:
        """The advertised endpoints by broker name; raises ConfigError."""
        found = {}
        for part in filter(None, map(str.strip, self.advertised.split(","))):
            name, _, address = part.partition("=")
            try:
                found[name.strip()] = split_address(address)
            except ValueError:
                raise ConfigError(
                    f"grpcAdvertised: {part!r}: expected name=host:port, for example "
                    "broker-a=mq.example.com:8081"
                ) from None
        return found
