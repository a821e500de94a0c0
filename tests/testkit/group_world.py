"""A whole replica group in virtual time: brokers, controllers over etcd, clients, and faults.

``campaign(seed)`` runs one story.  After each short step of time the invariants are checked:

* one primary per epoch;
* logs are the same up to the smaller confirmed offset, and what was confirmed once stays;
* the confirmed offset of a broker never falls within an epoch;
* what can be read is confirmed;
* only the controller that leads has changed a group.

At the end everything heals, and the clients' history is checked against the last primary's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

from contrailmq.broker.app import Broker
from contrailmq.broker.config.file import read_conf
from contrailmq.controller.app import Controller
from contrailmq.controller.etcd import EtcdLedger
from contrailmq.controller.settings import ControllerSettings
from contrailmq.errors import ContrailError
from contrailmq.net.client import RemotingClient
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import PullMessageRequest
from contrailmq.protocol.headers.send import SendMessageRequestV2
from contrailmq.protocol.message import decode_records
from contrailmq.testing.files import SimFiles
from contrailmq.testing.network import SimNetwork
from contrailmq.testing.sim import SimClock, simulate
from testkit.broker_world import Mortal, live
from testkit.etcd import SimEtcd, SimValues
from testkit.history import History, Place, check

PORT, NAME, TOPIC, QUEUES = 10911, "broker-a", "T", 2
STEP_S = 0.05


class Machine:
    """One broker with its disk and its clock; it dies and comes back."""

    def __init__(self, group: Group, number: int) -> None:
        self._group = group
        self.ip = f"10.0.0.{number}"
        self.address = f"{self.ip}:{PORT}"
        self.files = SimFiles()
        self.clock = SimClock(offset_ms=group.rng.choice((0, 0, -3000, 90_000)))
        self.broker: Broker | None = None
        self._mortal: Mortal | None = None
        self._task: asyncio.Task[None] | None = None
        self.verified = 0  # the log was compared up to here
        self.epoch = self.confirmed = -1

    @property
    def role(self) -> Any:
        assert self.broker is not None and self.broker.replication is not None
        assert self.broker.replication.mode is not None
        return self.broker.replication.mode._role

    @property
    def is_up(self) -> bool:
        return self.broker is not None and self.broker.replication is not None

    async def start(self) -> None:
        group = self._group
        self._mortal = Mortal(self.files)
        read = read_conf(
            {
                "brokerName": NAME,
                "brokerIP1": self.ip,
                "bindAddress": self.ip,
                "listenPort": str(PORT),
                "namesrvAddr": "",
                "storePathRootDir": "/store",
                "mappedFileSizeCommitLog": "65536",
                "mappedFileSizeConsumeQueue": "20000",
                "maxHashSlotNum": "100",
                "maxIndexNum": "400",
                "maxMessageSize": "4096",
                "enableControllerMode": "true",
                "controllerAddr": ";".join(f"{ip}:9878" for ip in group.controller_ips),
                "brokerHeartbeatInterval": "300",
                "controllerHeartBeatTimeoutMills": "1500",
                "syncBrokerMetadataPeriod": "500",
                "syncControllerMetadataPeriod": "1000",
                "haMaxTimeSlaveNotCatchup": "1000",
                "haSendHeartbeatInterval": "400",
                "haHousekeepingInterval": "2000",
                "slaveTimeout": "1500",
                "timerWheelEnable": "false",
                **group.conf,
            }
        )
        broker = Broker(
            read.broker,
            read.store,
            ha_settings=read.ha,
            clock=self.clock,
            network=group.network.host(self.ip),
            files=self._mortal,  # type: ignore[arg-type]
            rng=group.stream(),
        )
        started = asyncio.Event()
        self._task = asyncio.ensure_future(live(broker, started))
        await asyncio.wait(
            [self._task, asyncio.ensure_future(started.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._task.done():
            self._task.result()
        self.broker, self.verified, self.epoch = broker, 0, -1

    async def kill(self, *, power: bool) -> None:
        if self._task is None or self._mortal is None:
            return
        self.broker = None
        self._mortal.is_dead = True
        self._group.network.crash(self.ip)
        if power:
            self.files.cut_power(self._group.rng)
        else:
            self.files.kill()
        self._task.cancel()
        with contextlib.suppress(BaseException):
            await self._task
        self._task = None
        self._group.network.restart(self.ip)


class ControllerMachine:
    """One controller; what it knows is in etcd."""

    def __init__(self, group: Group, number: int) -> None:
        self._group = group
        self.ip = group.controller_ips[number]
        self.values = SimValues(group.etcd, group.stream())
        self._task: asyncio.Task[None] | None = None
        self.controller: Controller | None = None

    async def start(self) -> None:
        settings = ControllerSettings(bind_address=self.ip, listen_port=9878, scan_ms=500)
        self.values = SimValues(self._group.etcd, self._group.stream(), name=f"{self.ip}:9878")
        ledger = EtcdLedger(self.values, prefix="c")
        host = self._group.network.host(self.ip)
        controller = Controller(settings, ledger=ledger, clock=SimClock(), network=host)
        self.controller = controller
        self._task = asyncio.ensure_future(self._live(controller))
        await asyncio.sleep(0.01)

    async def kill(self) -> None:
        if self._task is not None:
            self.values.is_cut = True
            self._group.network.crash(self.ip)
            self._task.cancel()
            with contextlib.suppress(BaseException):
                await self._task
            self._task = self.controller = None
            self._group.network.restart(self.ip)

    async def _live(self, controller: Controller) -> None:
        async with controller:
            await asyncio.Event().wait()


class Group:
    """The group, its clients and its faults."""

    def __init__(self, rng: random.Random, *, brokers: int) -> None:
        self.rng = rng
        self.is_sync = rng.random() < 0.5  # only then may power be cut
        self.conf = {"flushDiskType": "SYNC_FLUSH" if self.is_sync else "ASYNC_FLUSH"}
        self.network = SimNetwork(self.stream())
        self.etcd = SimEtcd()
        self.controller_ips = ["10.0.3.1", "10.0.3.2"]
        self.machines = [Machine(self, number) for number in range(1, brokers + 1)]
        self.controllers = [ControllerMachine(self, number) for number in range(2)]
        self.history = History()
        self.story: list[str] = []
        self.epochs: dict[int, str] = {}
        self._log = bytearray()  # everything that was ever confirmed
        self._sent = 0
        self.is_over = False
        self.refusal = ""  # why the last pull got nothing

    def stream(self) -> random.Random:
        return random.Random(self.rng.getrandbits(64))

    def note(self, event: str) -> None:
        self.story.append(f"{asyncio.get_running_loop().time():.2f} {event}")

    def primary(self) -> Machine | None:
        up = [one for one in self.machines if one.is_up and one.role.is_primary]
        return max(up, key=lambda one: one.role.epoch, default=None)

    # The invariants

    def look(self) -> None:
        """Check all invariants now."""
        for machine in self.machines:
            if machine.is_up:
                self._look_at(machine)
        for at, key, writer, leader in self.etcd.writes:
            assert writer == leader, f"{at:.3f}: {writer} changed {key} and {leader} leads"
        self.etcd.writes.clear()

    def _look_at(self, machine: Machine) -> None:
        role, store = machine.role, machine.broker.parts.store  # type: ignore[union-attr]
        if role.is_primary:
            held = self.epochs.setdefault(role.epoch, machine.ip)
            assert held == machine.ip, f"epoch {role.epoch}: {held} and {machine.ip} are primary"
        if store.bound is None or not role.epoch:
            return
        readable, bound = store.derivation.derived_offset, store.bound
        if machine.broker.identity.may_read:  # type: ignore[union-attr]
            assert readable <= bound, f"{machine.ip}: {readable} readable, {bound} confirmed"
        readable = min(readable, bound)
        # In whole records: one that is here in part is cut before it is fetched again.
        if machine.epoch == role.epoch:
            assert readable >= machine.confirmed, (
                f"{machine.ip}: confirmed {machine.confirmed}, then {readable}"
            )
        machine.epoch, machine.confirmed = role.epoch, readable
        machine.verified = min(machine.verified, readable)
        while machine.verified < readable:
            piece = store.log.record(machine.verified)
            if piece is None:
                break
            start, end = machine.verified, min(machine.verified + len(piece), readable)
            found = bytes(piece[: end - start])
            known = self._log[start:end]
            assert found.startswith(known), f"{machine.ip}: another log between {start} and {end}"
            if len(known) < len(found):
                assert len(self._log) >= start, "a hole in what was confirmed"
                self._log[start:end] = found
            machine.verified = end

    # The clients

    async def send(self, worker: int, client: RemotingClient) -> None:
        """Send one message to whoever seems to be primary."""
        loop, rng = asyncio.get_running_loop(), self.rng
        target = rng.choice(self.machines)
        while not self.is_over:
            self._sent += 1
            body = b"%d.%d" % (worker, self._sent)
            send = self.history.begin(body, rng.randrange(QUEUES), loop.time())
            header = SendMessageRequestV2(
                topic=TOPIC,
                producer_group="p",
                queue_id=send.queue,
                default_topic_queue_nums=QUEUES,
            )
            request = Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body)
            try:
                answer = await client.call(target.address, request, timeout_s=2)
            except ContrailError:
                target = rng.choice(self.machines)
                await asyncio.sleep(0.1)
                continue
            if answer.code == ResponseCode.SUCCESS:
                send.ended, send.offset = loop.time(), int(answer.fields["queueOffset"])
            elif answer.code not in (
                ResponseCode.FLUSH_SLAVE_TIMEOUT,
                ResponseCode.FLUSH_DISK_TIMEOUT,
                ResponseCode.SLAVE_NOT_AVAILABLE,
            ):
                target = rng.choice(self.machines)
            await asyncio.sleep(rng.uniform(0.01, 0.15))

    async def read(self, client: RemotingClient) -> None:
        """Read somewhere, again and again."""
        at = dict.fromkeys(range(QUEUES), 0)
        while not self.is_over:
            queue = self.rng.randrange(QUEUES)
            machine = self.rng.choice(self.machines)
            for offset, body in await self.pull(client, machine, queue, at[queue]):
                self.history.read(queue, offset, body)
                at[queue] = offset + 1
            await asyncio.sleep(self.rng.uniform(0.02, 0.2))

    async def pull(
        self, client: RemotingClient, machine: Machine, queue: int, offset: int
    ) -> list[tuple[int, bytes]]:
        header = PullMessageRequest(
            consumer_group="g",
            topic=TOPIC,
            queue_id=queue,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=4,
            subscription="*",
            expression_type="TAG",
        )
        try:
            request = Command.request(RequestCode.PULL_MESSAGE, header)
            answer = await client.call(machine.address, request, timeout_s=2)
        except ContrailError:
            return []
        if answer.code:
            self.refusal = f"{machine.ip}: {answer.code} {answer.remark}"
            return []
        return [(one.queue_offset, one.body) for one in decode_records(answer.body)]

    # The faults

    async def trouble(self) -> None:
        """One fault, its length, and its end."""
        rng = self.rng
        machine, controller = rng.choice(self.machines), rng.choice(self.controllers)
        primary = self.primary()
        if primary is not None and rng.random() < 0.5:
            machine = primary
        kinds = ["kill", "kill", "both", "controller", "cut", "one way", "etcd", "stall", "clock"]
        kind = rng.choice([*kinds, "power", "all power"] if self.is_sync else kinds)
        self.note(f"{kind} {machine.ip} {controller.ip}")
        length_s = rng.choice((0.1, 0.5, 2.0, 4.0))
        if kind in ("kill", "power"):
            await machine.kill(power=kind == "power")
            await asyncio.sleep(length_s)
            await machine.start()
        elif kind in ("both", "all power"):
            for one in self.machines:
                await one.kill(power=kind == "all power")
            await asyncio.sleep(length_s)
            for one in rng.sample(self.machines, len(self.machines)):
                await one.start()
                await asyncio.sleep(rng.choice((0.0, 0.3)))
        elif kind == "controller":
            await controller.kill()
            await asyncio.sleep(length_s)
            await controller.start()
        elif kind == "etcd":
            controller.values.is_cut = True
            controller.values.late_s = rng.choice((0.0, 3.0, 8.0))
            await asyncio.sleep(length_s * 2)
            controller.values.is_cut = False
        elif kind == "clock":
            machine.clock.jump(rng.choice((-3_600_000, -2000, 2000, 3_600_000)))
        else:
            self._cut(kind, machine)
            await asyncio.sleep(length_s)
            self.network.heal()

    def _cut(self, kind: str, machine: Machine) -> None:
        if kind == "stall":
            self.network.stall(machine.ip)
            return
        others = [one.ip for one in self.machines if one is not machine] + self.controller_ips
        for ip in self.rng.sample(others, self.rng.randint(1, len(others))):
            source, target = self.rng.sample([ip, machine.ip], 2)
            self.network.cut(source, target, both=kind == "cut")

    # The story

    async def run(self, faults: int) -> None:
        for controller in self.controllers:
            await controller.start()
        for machine in self.machines:
            await machine.start()
        await self._settled()
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(self._watch())]
        clients = [
            RemotingClient(
                clock=SimClock(), network=self.network.host(f"10.0.2.{number}"), rng=self.stream()
            )
            for number in range(3)
        ]
        tasks += [
            asyncio.ensure_future(self.send(0, clients[0])),
            asyncio.ensure_future(self.send(1, clients[1])),
            asyncio.ensure_future(self.read(clients[2])),
        ]
        for _ in range(faults):
            await asyncio.sleep(self.rng.choice((0.05, 0.5, 1.5)))
            await self.trouble()
            self._fail(tasks)
        self.note("all heal")
        await self._settled()
        self.is_over = True
        await asyncio.gather(*tasks)
        await self._settled()
        await self._judge(clients[2])
        for client in clients:
            await client.aclose()
        for machine in self.machines:
            await machine.kill(power=False)
        for controller in self.controllers:
            await controller.kill()

    async def _watch(self) -> None:
        while not self.is_over:
            self.look()
            await asyncio.sleep(STEP_S)

    def _fail(self, tasks: list[asyncio.Future[None]]) -> None:
        for task in tasks:
            if task.done():
                task.result()

    async def _settled(self) -> None:
        """Wait until one is primary and all are in sync with it."""
        async with asyncio.timeout(120):
            while not self._is_settled():
                await asyncio.sleep(STEP_S)
                self.look()

    def _is_settled(self) -> bool:
        primary = self.primary()
        if primary is None or not all(one.is_up for one in self.machines):
            return False
        ends = {one.broker.parts.store.max_offset for one in self.machines}  # type: ignore[union-attr]
        count = len(primary.role._in_sync.granted)
        return len(ends) == 1 and count == len(self.machines) and primary.role.fenced is None

    async def _judge(self, client: RemotingClient) -> None:
        for machine in self.machines:
            final: dict[Place, bytes] = {}
            for queue in range(QUEUES):
                store = machine.broker.parts.store  # type: ignore[union-attr]
                found = store.queues.find(TOPIC, queue)
                offset, end = 0, 0 if found is None else found.max_offset
                async with asyncio.timeout(90):  # a replica may have to get the topics first
                    while offset < end:
                        for at, body in await self.pull(client, machine, queue, offset):
                            final[queue, at] = body
                            offset = at + 1
                        await asyncio.sleep(0 if offset else STEP_S)
            faults = check(self.history, final)
            assert not faults, f"{machine.ip}: {len(faults)} faults: {faults[:5]}"


def campaign(seed: int, *, faults: int = 6, brokers: int | None = None) -> Group:
    """One story; the group as it was at the end."""

    async def scenario(rng: random.Random) -> Group:
        count = brokers or rng.choice((2, 2, 3))
        group = Group(rng, brokers=count)
        try:
            await group.run(faults)
        except BaseException as error:
            error.add_note("\n".join([*group.story, f"last refusal: {group.refusal}"]))
            raise
        return group

    return simulate(seed, scenario, limit_s=600)
