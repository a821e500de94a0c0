"""Pulling: request codes 11 and 361, held until there is something or time is over.

The checks are a ``PullPlan``'s; the rest of a pull is one read of the store.  A pull that finds
nothing and may wait becomes a ``Waiter``: when its queue grows only what is new is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, Protocol

from contrailmq.broker.lanes.pull_plan import PullPlan, PullPlanner
from contrailmq.broker.services.longpoll import LongPolls, Waiter
from contrailmq.broker.tables.counters import Counters
from contrailmq.broker.tables.offsets import OffsetTable
from contrailmq.errors import BrokerError
from contrailmq.net.connection import Connection
from contrailmq.protocol.codes import ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.pull import COMMIT_FLAG, SUSPEND_FLAG, PullMessageRequest
from contrailmq.store.types import GetResult, GetStatus, Matcher

LOADS_MAX: Final = 8  # units, then messages; what leaves memory faster than that is waited for
SUSPEND_MAX_S: Final = 600.0  # a client waits 15 to 30 seconds; nobody waits for ever

_RETRY_AT_ONCE = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)
_NO_QUEUE = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)
_NOT_FOUND = (GetStatus.OFFSET_FOUND_NULL, GetStatus.OFFSET_OVERFLOW_ONE)


class MessageSource(Protocol):
    """What this module needs of the store."""

    def get(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> GetResult:
        """Messages of a queue."""
        ...

    def loading(
        self, topic: str, queue_id: int, offset: int, *, count: int, matcher: Matcher | None = None
    ) -> asyncio.Future[None] | None:
        """What a pull has to wait for before its messages are in memory."""
        ...


class OffsetMoved(Protocol):
    """Who wants to know that a consumer was outside its queue."""

    def __call__(
        self, group: str, topic: str, queue_id: int, *, requested: int, moved_to: int
    ) -> None:
        """A pull was answered with PULL_OFFSET_MOVED."""
        ...


class PullMessage:
    """Request codes 11 and 361."""

    def __init__(
        self,
        source: MessageSource,
        polls: LongPolls,
        *,
        planner: PullPlanner,
        offsets: OffsetTable,
        counters: Counters,
        on_offset_moved: OffsetMoved,
    ) -> None:
        self._source = source
        self._polls = polls
        self.planner = planner
        self._offsets = offsets
        self._counters = counters
        self._on_offset_moved = on_offset_moved
        self._live = planner.live
        self._identity = planner.identity

    def __call__(
        self, request: Command, connection: Connection
    ) -> Command | Awaitable[Command | None] | None:
        """Answer at once, or when messages are back from the disk, or hold the pull (None)."""
        header = PullMessageRequest.from_fields(request.fields)
        plan = self.planner.plan(request, header, connection)
        loading = self._find_loading(header, plan)
        if loading is not None:
            return self._serve_loaded(loading, request, header, connection=connection)
        return self._serve(request, header, plan, connection=connection)

    def _find_loading(
        self, header: PullMessageRequest, plan: PullPlan
    ) -> asyncio.Future[None] | None:
        return self._source.loading(
            header.topic,
            header.queue_id,
            header.queue_offset,
            count=header.max_msg_nums,
            matcher=plan.matcher,
        )

    async def _serve_loaded(
        self,
        loading: asyncio.Future[None],
        request: Command,
        header: PullMessageRequest,
        *,
        connection: Connection,
    ) -> Command | None:
        now = asyncio.get_running_loop().time
        began = now()
        for _ in range(LOADS_MAX):
            await asyncio.shield(loading)  # others may wait for it too
            plan = self.planner.plan(request, header, connection)
            following = self._find_loading(header, plan)
            if following is None:
                break
            loading = following
        self._counters.waited(
            header.consumer_group,
            header.topic,
            header.queue_id,
            milliseconds=round((now() - began) * 1000),
        )
        return self._serve(request, header, plan, connection=connection)

    def _serve(
        self,
        request: Command,
        header: PullMessageRequest,
        plan: PullPlan,
        *,
        connection: Connection,
    ) -> Command | None:
        answer = self._find_reset(request, header, plan)
        if answer is None:
            result = self._get(header, header.queue_offset, plan)
            code = code_of(result.status, header.queue_offset)
            may_wait = header.sys_flag & SUSPEND_FLAG and header.suspend_timeout_millis > 0
            if code != ResponseCode.PULL_NOT_FOUND or not may_wait:
                answer = self._answer(request, header, plan, result=result)
        if header.sys_flag & COMMIT_FLAG and header.commit_offset >= 0 and self._identity.is_master:
            self._offsets.commit(
                header.consumer_group, header.topic, header.queue_id, offset=header.commit_offset
            )
        if answer is None:
            self._hold(request, header, connection)
        return answer

    def _get(self, header: PullMessageRequest, offset: int, plan: PullPlan) -> GetResult:
        return self._source.get(
            header.topic,
            header.queue_id,
            offset,
            count=header.max_msg_nums,
            matcher=plan.matcher,
        )

    def _get_shared(self, header: PullMessageRequest, offset: int, plan: PullPlan) -> GetResult:
        """The same for all pulls of one callback that wait for the same."""
        matcher = plan.matcher
        wanted = matcher if matcher is None or matcher.record_matters else matcher.tag_codes
        key = (header.topic, header.queue_id, offset, header.max_msg_nums, wanted)
        memo = self._polls.memo
        result: GetResult | None = memo.get(key)
        if result is None:
            result = memo[key] = self._get(header, offset, plan)
        return result

    def _find_reset(
        self, request: Command, header: PullMessageRequest, plan: PullPlan
    ) -> Command | None:
        """An administrator has moved this group: it is told so once."""
        mark = self._offsets.take_mark(header.consumer_group, header.topic, header.queue_id)
        if mark is None:
            return None
        bounds = self._get(header, mark, plan)
        bounds.next_offset = mark
        return self._reply(
            request, plan, bounds, code=ResponseCode.PULL_OFFSET_MOVED, remark="OFFSET_RESET"
        )

    def _answer(
        self, request: Command, header: PullMessageRequest, plan: PullPlan, *, result: GetResult
    ) -> Command:
        code = code_of(result.status, header.queue_offset)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        if code != ResponseCode.SUCCESS:
            self._counters.got_missed += 1
        if code == ResponseCode.SUCCESS:
            self._counters.got(group, topic, queue_id, count=result.count, size=len(result.records))
            self._offsets.note_pull(group, topic, queue_id, offset=result.next_offset)
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            self._on_offset_moved(
                group, topic, queue_id, requested=header.queue_offset, moved_to=result.next_offset
            )
        return self._reply(request, plan, result, code=code, remark=result.status.value)

    def _reply(
        self, request: Command, plan: PullPlan, result: GetResult, *, code: int, remark: str
    ) -> Command:
        suggested = 0
        if self._live.now.slave_read:
            group = plan.group
            slow = result.suggest_slave
            suggested = group.which_broker_when_consume_slowly if slow else group.broker_id
        answer = pull_answer(request, plan, result, suggested=suggested)
        answer.code, answer.remark = int(code), remark
        return answer

    def _hold(self, request: Command, header: PullMessageRequest, connection: Connection) -> None:
        settings = self._live.now
        self._counters.got_missed += 1
        wait_ms = header.suspend_timeout_millis
        if not settings.long_polling:
            wait_ms = settings.short_polling_ms
        held = _HeldPull(self, request, header, connection=connection)
        waiter = Waiter(
            (header.topic, header.queue_id), connection, retry=held.retry, expire=held.expire
        )
        self._polls.hold(waiter, timeout_s=min(wait_ms / 1000, SUSPEND_MAX_S))


class _HeldPull:
    """A pull that waits: how to try it again, and how to end it."""

    __slots__ = ("_connection", "_header", "_offset", "_owner", "_request")

    def __init__(
        self,
        owner: PullMessage,
        request: Command,
        header: PullMessageRequest,
        *,
        connection: Connection,
    ) -> None:
        self._owner = owner
        self._request = request
        self._header = header
        self._connection = connection
        self._offset = header.queue_offset

    def retry(self) -> bool:
        """Look at what is new; True when that answered the pull."""
        answer = self._run(self._offset, is_last=False)
        if answer is None:
            return False
        self._connection.reply(answer)
        return True

    def expire(self) -> None:
        """Answer now, with whatever there is."""
        answer = self._run(self._header.queue_offset, is_last=True)
        assert answer is not None
        self._connection.reply(answer)

    def _run(self, offset: int, *, is_last: bool) -> Command | None:
        owner, request, header = self._owner, self._request, self._header
        try:
            plan = owner.planner.plan(request, header, self._connection)
            answer = owner._find_reset(request, header, plan)
            if answer is not None:
                return answer
            get = owner._get if is_last else owner._get_shared
            result = get(header, offset, plan)
        except BrokerError as error:
            return request.refuse(error.code, error.remark)
        if not is_last:
            while result.status in _RETRY_AT_ONCE and offset < result.next_offset:
                # Nothing of it matched: look on from there, and keep waiting at the end.
                offset = self._offset = result.next_offset
                result = get(header, offset, plan)
            if code_of(result.status, offset) == ResponseCode.PULL_NOT_FOUND:
                return None
        return owner._answer(request, header, plan, result=result)


def pull_answer(request: Command, plan: PullPlan, result: GetResult, *, suggested: int) -> Command:
    """Return the answer to a pull from offset 0; the outcome of others may have another code."""
    return request.reply(
        body=result.records,
        code=code_of(result.status, 0),
        remark=result.status.value,
        fields={
            "suggestWhichBrokerId": str(suggested),
            "nextBeginOffset": str(result.next_offset),
            "minOffset": str(result.min_offset),
            "maxOffset": str(result.max_offset),
            "topicSysFlag": str(plan.topic.topic_sys_flag),
            "groupSysFlag": str(plan.group.group_sys_flag),
        },
    )


def code_of(status: GetStatus, offset: int) -> ResponseCode:
    """What a read's outcome means to a consumer."""
    if status is GetStatus.FOUND:
        return ResponseCode.SUCCESS
    if status in _RETRY_AT_ONCE:
        return ResponseCode.PULL_RETRY_IMMEDIATELY
    if status in _NO_QUEUE:
        return ResponseCode.PULL_OFFSET_MOVED if offset != 0 else ResponseCode.PULL_NOT_FOUND
    if status in _NOT_FOUND:
        return ResponseCode.PULL_NOT_FOUND
    return ResponseCode.PULL_OFFSET_MOVED
