"""Who this broker is to the rest of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.errors import ServiceNotAvailable
from contrailmq.protocol.names import MASTER_ID


@dataclass(slots=True, kw_only=True)
class Identity:
    """Known before the first request is served.

    Fixed for the life of a broker, but for the id, which a controller may change, and with it
    whether the broker is primary.
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str  # what clients connect to, "ip:port" or "name:port"
    ha_address: str  # what replicas connect to
    store_host: bytes  # the address as records hold it, of a name the one it had at start
    is_known: bool = True  # False: a controller has not said yet what this broker is
    may_read: bool = True  # False: it has messages of which it does not know that they count

    @property
    def is_master(self) -> bool:
        """Whether this broker takes writes."""
        return self.broker_id == MASTER_ID

    def check_primary(self, verb: str) -> None:
        """Raise on a replica, and before a controller has said that this is none."""
        if not self.is_master or not self.is_known:
            raise ServiceNotAvailable(
                f"the broker[{self.address}] is a replica: {verb} at its primary"
            )
