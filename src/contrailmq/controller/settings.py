"""What can be set about a controller: RocketMQ's keys (ControllerConfig), and ours."""

from __future__ import annotations

from dataclasses import dataclass

from contrailmq.settings import key


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """How a controller runs."""

    bind_address: str = key("bindAddress", "127.0.0.1", doc="The address to listen on.")
    listen_port: int = key("listenPort", 9878, high=65535, doc="The port to listen on.")
    advertised: str = key(
        "controllerAddress", "", doc="What brokers are told to connect to. Empty: as listened on."
    )
    ledger: str = key(
        "controllerLedger",
        "~/contrail-controller/ledger.json",
        doc=(
            "Where the groups are kept: a file, of one controller, or `etcd://host:2379,…/prefix`, "
            "of any number (the extra `controller`)."
        ),
    )
    ledger_user: str = key(
        "controllerLedgerUser", "", doc="The user at etcd. Empty: no authentication."
    )
    ledger_password: str = key(
        "controllerLedgerPassword", "", secret=True, doc="The password of that user."
    )
    scan_ms: int = key(
        "scanNotActiveBrokerInterval",
        5000,
        low=50,
        doc="How often groups whose primary is dead are looked for.",
    )
    elects_unclean: bool = key(
        "enableElectUncleanMaster",
        False,
        live=True,
        doc=(
            "Whether a broker outside the in-sync set may be elected when no other lives. "
            "Acknowledged messages can be lost then."
        ),
    )
    notifies: bool = key(
        "notifyBrokerRoleChanged", True, live=True, doc="Whether brokers are told of an election."
    )
