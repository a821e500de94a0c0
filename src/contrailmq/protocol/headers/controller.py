"""Headers of the controller protocol of 5.x (RequestCodes 1001 to 1013)."""

from __future__ import annotations

from contrailmq.protocol.header import Header, Int32


class ControllerMetadata(Header, frozen=True, kw_only=True):
    """RequestCode 1005's answer: who leads the controllers."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool | None = None
    peers: str | None = None


class NextBrokerIdRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1012: an id for a new broker of a group."""

    cluster_name: str
    broker_name: str


class NextBrokerIdResponse(Header, frozen=True, kw_only=True):
    """The id the group would give next."""

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: int | None = None


class ApplyBrokerIdRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1013: take this id; the check code makes it the same if it is asked twice."""

    cluster_name: str
    broker_name: str
    applied_broker_id: int
    register_check_code: str


class ApplyBrokerIdResponse(Header, frozen=True, kw_only=True):
    """The id is the broker's."""

    cluster_name: str | None = None
    broker_name: str | None = None


class RegisterToControllerRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1003: a broker that has an id is here."""

    cluster_name: str
    broker_name: str
    broker_id: int
    broker_address: str
    invoke_time: int = 0


class MasterInfo(Header, frozen=True, kw_only=True):
    """Who is primary: the answer of 1002, 1003 and 1004."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class ElectMasterRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1002: elect a primary."""

    cluster_name: str = ""
    broker_name: str
    broker_id: int = -1
    designate_elect: bool = False
    invoke_time: int = 0


class AlterSyncStateSetRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1001: the primary wants another in-sync set."""

    broker_name: str
    master_broker_id: int
    master_epoch: Int32
    invoke_time: int = 0


class AlterSyncStateSetResponse(Header, frozen=True, kw_only=True):
    """The epoch of the set that counts now."""

    new_sync_state_set_epoch: Int32 | None = None


class GetReplicaInfoRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1004: who is primary of a group?"""

    broker_name: str
    broker_address: str | None = None


class CleanBrokerDataRequest(Header, frozen=True, kw_only=True):
    """RequestCode 1011: forget brokers of a group, or the group."""

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: int = 0
