"""Who this broker is to the rest of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.broker.settings import MASTER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Fixed for the life of a broker; known before the first request is served."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str  # what clients connect to, "ip:port"
    ha_address: str  # what replicas connect to
    store_host: bytes  # the address as records hold it

    @property
    def is_master(self) -> bool:
        """Whether this broker takes writes."""
        return self.broker_id == MASTER_ID
