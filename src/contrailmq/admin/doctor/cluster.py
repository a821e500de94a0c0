"""The doctor's look at name servers and brokers: reachable, of one mind, on time, with room."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from contrailmq.admin.broker_calls import shown_version
from contrailmq.admin.client import AdminClient
from contrailmq.admin.doctor.findings import Chart, Severity
from contrailmq.errors import BrokerError, ContrailError, NetworkError
from contrailmq.protocol.bodies.route import ClusterInfo
from contrailmq.protocol.bodies.topic import TopicConfig
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.names import is_system_topic

CLOCK_OFF_S: Final = 5
DISK_WARNING: Final = 0.75  # diskMaxUsedSpaceRatio: what is old is deleted at any hour
DISK_PROBLEM: Final = 0.90  # diskSpaceWarningLevelRatio: no more messages are taken
SEGMENT_SIZE: Final = 1 << 30  # mappedFileSizeCommitLog, where a broker does not tell its own
_FREE: Final = re.compile(r"Free : ([\d.]+) ([KMGTPE]?)i?B")
_RUNTIME: Final = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


async def examine_name_servers(admin: AdminClient, chart: Chart) -> ClusterInfo | None:
    """Each name server by itself; what the first that answers knows, or None."""
    answers: dict[str, ClusterInfo] = {}
    for address in admin.name_servers.addresses:
        try:
            answer = await admin.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        except ContrailError as error:
            chart.add(
                Severity.PROBLEM, "name server", f"{address} does not answer: {error}",
                cause="it is not running, listens elsewhere, or a firewall is between",
                fix="contrail up  (or: contrail namesrv; or name another with -n HOST:9876)",
            )  # fmt: skip
            continue
        answers[address] = ClusterInfo.decode(answer.body)
        chart.ok("name server", f"{address} answers")
    views = {address: _view(info) for address, info in answers.items()}
    if len(set(views.values())) > 1:
        counts = ", ".join(f"{address} knows {len(view)}" for address, view in views.items())
        chart.add(
            Severity.WARNING, "name server", f"name servers know different brokers: {counts}",
            cause="a broker registers with some of them only",
            fix="put all of them into namesrvAddr of every broker, a:9876;b:9876",
        )  # fmt: skip
    return next(iter(answers.values()), None)


def _view(info: ClusterInfo) -> tuple[str, ...]:
    return tuple(
        sorted(a for data in info.broker_addr_table.values() for a in data.broker_addrs.values())
    )


async def examine_brokers(admin: AdminClient, chart: Chart, info: ClusterInfo) -> dict[str, str]:
    """Every address of every broker; the masters that answer, by broker name."""
    if not info.broker_addr_table:
        chart.add(
            Severity.PROBLEM, "broker", "no broker is registered",
            cause="none is running, or it registers with another name server",
            fix=f"contrail broker -n {admin.name_servers}",
        )  # fmt: skip
        return {}
    alive: dict[str, str] = {}
    tables: dict[str, Mapping[str, str]] = {}
    for name, data in sorted(info.broker_addr_table.items()):
        for number, address in sorted(data.broker_addrs.items()):
            try:
                tables[address] = await admin.brokers.runtime(address)
            except NetworkError as error:
                _unreachable(admin, chart, name, address, error=str(error))
                continue
            except BrokerError as error:
                chart.add(
                    Severity.WARNING, "broker", f"{name} {address} tells no state: {error}",
                    cause="it wants a signed request, or is of a version that has no such request",
                    fix="contrail doctor --access-key KEY --secret-key KEY",
                )  # fmt: skip
                continue
            chart.ok("broker", f"{name} {address} answers")
            if number == 0:
                alive[name] = address
            _clock(admin, chart, address, tables[address])
            segment = await _segment_size(admin, address)
            _disk(chart, address, tables[address], segment=segment)
    versions = {shown_version(table) for table in tables.values()}
    if len(versions) > 1:
        chart.add(
            Severity.NOTE, "version", f"brokers differ in version: {', '.join(sorted(versions))}",
            cause="an upgrade is under way, or was left half done",
            fix="contrail cluster shows which; stop the older ones, one at a time, and start the "
            "new version over their stores",
        )  # fmt: skip
    elif versions:
        chart.ok("version", f"all brokers are {versions.pop()}")
    return alive


def _unreachable(admin: AdminClient, chart: Chart, name: str, address: str, *, error: str) -> None:
    host = address.rpartition(":")[0]
    is_far = not any(
        server.startswith(("127.", "localhost")) for server in admin.name_servers.addresses
    )
    inside = host.startswith(("127.", "172.17.", "10.", "192.168.")) and is_far
    chart.add(
        Severity.PROBLEM, "broker", f"{name} is registered as {address}, not reachable: {error}",
        cause="it advertises an address of its own network (a container's, loopback's)"
        if inside
        else "it has stopped in the last two minutes, a firewall is between, or it advertises an "
        "address that does not lead to it",
        fix="set brokerIP1 in its broker.conf to an address clients reach, and restart it"
        if inside
        else f"start it again, open the way to {address}, or set brokerIP1 in its broker.conf to "
        "an address clients reach",
    )  # fmt: skip


def _clock(admin: AdminClient, chart: Chart, address: str, table: Mapping[str, str]) -> None:
    """The broker's own idea of now: when it started and for how long it has been running."""
    found = _RUNTIME.search(table.get("runtime", ""))
    boot = table.get("bootTimestamp", "")
    if found is None or not boot.isdecimal():
        return
    days, hours, minutes, seconds = map(int, found.groups())
    theirs = int(boot) / 1000 + ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    off = theirs - admin.world.clock.now_ms() / 1000
    if abs(off) > CLOCK_OFF_S:
        chart.add(
            Severity.WARNING, "clock", f"the clock of {address} is off by about {off:+.0f} s",
            cause="no time synchronisation there, or here",
            fix="timedatectl set-ntp true there  (or run chrony, ntpd); retention, delays and "
            "queries by time depend on it",
        )  # fmt: skip
    else:
        chart.ok("clock", f"{address} is on time")


async def _segment_size(admin: AdminClient, address: str) -> int:
    """How large the broker's commit-log files are."""
    try:
        config = await admin.brokers.config(address)
    except ContrailError:
        return SEGMENT_SIZE  # the look at permissions tells why
    return int(config.get("mappedFileSizeCommitLog") or SEGMENT_SIZE)


def free_size(capacity: str) -> int | None:
    """The free bytes of ``Total : 98.3 GiB, Free : 1.2 GiB.``; None where they are not told."""
    found = _FREE.search(capacity)
    if found is None:
        return None
    return int(float(found[1]) * 1024 ** (" KMGTPE".index(found[2] or " ")))


def _disk(chart: Chart, address: str, table: Mapping[str, str], *, segment: int) -> None:
    ratio = float(table.get("commitLogDiskRatio") or 0)
    free = free_size(table.get("commitLogDirCapacity", ""))
    if ratio >= DISK_PROBLEM:
        chart.add(
            Severity.PROBLEM, "disk", f"{address}: disk {ratio:.0%} full, sends are refused",
            cause="the disk of the store is shared or too small for fileReservedTime",
            fix=f"contrail admin updateBrokerConfig -b {address} -k fileReservedTime -v 24 && "
            f"contrail admin deleteExpiredCommitLog -b {address}",
        )  # fmt: skip
    elif free is not None and free < segment:
        chart.add(
            Severity.WARNING, "disk", f"{address}: {_mib(free)} free, and a file of the commit log "
            f"takes {_mib(segment)}",
            cause="a file is given all of its room when it begins; sends are refused when none is "
            "left for the next",
            fix=f"contrail admin deleteExpiredCommitLog -b {address}  (or make room there, or set "
            "a smaller mappedFileSizeCommitLog in its broker.conf and restart it)",
        )  # fmt: skip
    elif ratio >= DISK_WARNING:
        chart.add(
            Severity.WARNING, "disk", f"{address}: disk {ratio:.0%} full",
            cause="above diskMaxUsedSpaceRatio old messages go before their time",
            fix=f"contrail admin updateBrokerConfig -b {address} -k fileReservedTime -v 24",
        )  # fmt: skip
    else:
        chart.ok("disk", f"{address}: {ratio:.0%} full")


async def examine_routes(admin: AdminClient, chart: Chart, masters: Mapping[str, str]) -> None:
    """Topics that brokers have and clients cannot find."""
    homes: dict[str, tuple[str, TopicConfig]] = {}
    try:
        for name, address in masters.items():
            for topic, config in (await admin.topics.configs(address)).items():
                homes.setdefault(topic, (name, config))
        known = set(await admin.topics.names())
    except ContrailError:
        return  # the look at permissions tells why
    lost = [topic for topic in sorted(homes) if topic not in known and not is_system_topic(topic)]
    for topic in lost[:10]:
        name, config = homes[topic]
        chart.add(
            Severity.WARNING, "route", f"name servers do not know the topic {topic} of {name}",
            cause="it was deleted there alone, or its broker registers with other name servers",
            fix=f"contrail admin updateTopic -b {masters[name]} -t {topic} "
            f"-r {config.read_queue_nums} -w {config.write_queue_nums} -p {config.perm}  "
            "(registers it again; the broker does so by itself every 30 s)",
        )  # fmt: skip
    if not lost:
        chart.ok("route", f"name servers know all {len(homes)} topics of the brokers")


async def examine_permissions(admin: AdminClient, chart: Chart, masters: Mapping[str, str]) -> None:
    """Brokers and topics that refuse to be written to or read from."""
    for name, address in masters.items():
        try:
            config = await admin.brokers.config(address)
            topics = await admin.topics.configs(address)
        except ContrailError as error:
            chart.add(
                Severity.WARNING, "permission", f"{name} does not tell its settings: {error}",
                cause="it wants a signed request, or went away while we looked",
                fix="contrail doctor --access-key KEY --secret-key KEY",
            )  # fmt: skip
            continue
        perm = int(config.get("brokerPermission") or 6)
        if perm & 6 != 6:
            chart.add(
                Severity.WARNING, "permission", f"broker {name} is {_perm(perm)}",
                cause="brokerPermission was changed",
                fix=f"contrail admin updateBrokerConfig -b {address} -k brokerPermission -v 6",
            )  # fmt: skip
        closed = [t for t, topic in sorted(topics.items()) if topic.perm & 6 != 6]
        for topic in closed[:10]:
            found = topics[topic]
            chart.add(
                Severity.NOTE, "permission", f"topic {topic} at {name} is {_perm(found.perm)}",
                cause="its permission was changed",
                fix=f"contrail topic create {topic} -q {found.write_queue_nums} --perm rw",
            )  # fmt: skip
        if perm & 6 == 6 and not closed:
            chart.ok("permission", f"broker {name} and its {len(topics)} topics can be used")


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


def _perm(perm: int) -> str:
    return {6: "read and write", 4: "read-only", 2: "write-only"}.get(perm & 6, "closed")
