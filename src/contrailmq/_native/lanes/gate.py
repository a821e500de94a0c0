"""The gate before the lanes of a broker with access control: signed frames keep the fast path.

Theory of operation.  The first request of an account on a connection always goes the ordinary way.
When that let it in, the host notes the account in the connection's ``Visitor``.  From then on the
gate checks the frames of that account by itself: it writes the values of all ext fields in the
order of their names, computes the signature over them and the body from the account's kept states
(``mac``), and asks the host once for each account and topic, or consumer, whether it is allowed.

The gate has no opinion about anything else.  A name that is not plain ASCII, a name that occurs
twice, a value that is no text, a wrong signature, a verdict that is no: the frame is left to the
ordinary path, which can also explain.  What the gate knows holds until the broker's revision moves
(``forget``): changed accounts end it with the next read.
"""

from __future__ import annotations

from typing import Any

from contrailmq._native import mac, raw, text
from contrailmq._native.hosts import GateHost, LanePeer
from contrailmq._native.lanes.decided import LanePlan, LaneTopic
from contrailmq._native.net.request import RequestScan

_FIELDS_MAX = 32
_HEAD_SIZE = 65536  # of the signed values of one header
_SIGNATURE_ROOM = 176  # a signature whose every byte is escaped


class Allowance:
    """What an account may still send before it is asked to wait; the host fills it again."""

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size


class LaneAccount:
    """An account as the gate knows it: states of its secrets, and what was decided about it.

    ``is_free``: its requests are not checked on this connection; no secrets: it showed a
    certificate instead.  ``owner`` is what the host calls it.
    """

    def __init__(
        self,
        name: bytes,
        secrets: tuple[bytes, ...],
        owner: Any,
        *,
        is_free: bool = False,
        allowance: Allowance | None = None,
    ) -> None:
        self.name = name
        self.owner = owner
        self.is_free = is_free
        self.key_count = len(secrets)
        self._first = mac.states(secrets[0]) if self.key_count > 0 else bytes(1)
        self._second = mac.states(secrets[1]) if self.key_count > 1 else bytes(1)
        self._name_view = name or bytes(1)
        self._first_view = self._first
        self._second_view = self._second
        self.name_address = raw.at_address(self._name_view)
        self.name_size = len(name)
        self.first_address = raw.at_address(self._first_view)
        self.second_address = raw.at_address(self._second_view)
        self.allowance = allowance
        self.sends: dict[LaneTopic, bool] = {}
        self.pulls: dict[LanePlan, bool] = {}
        self.last_topic: LaneTopic | None = None
        self.last_plan: LanePlan | None = None


class Visitor:
    """What the gate knows of one connection: the accounts that were let in on it.

    ``free`` stands for every account on a connection that is not checked at all.
    """

    def __init__(self, epoch: int, free: LaneAccount | None) -> None:
        self.epoch = epoch
        self.free = free
        self.accounts: dict[bytes, LaneAccount] = {}
        self.last: LaneAccount | None = None


class Gate:
    """Checks the frames the lanes would take; ``checked`` counts the signatures it has made."""

    def __init__(self, host: GateHost, takes_tokens: bool) -> None:
        self.host = host
        self.takes_tokens = takes_tokens
        self.epoch = 0
        self.checked = 0
        self._visitor: Visitor | None = None
        self._order = memoryview(bytearray(8 * _FIELDS_MAX)).cast("q")
        self._head = bytearray(_HEAD_SIZE)
        self._head_address = raw.at_address(self._head)
        self._given = bytearray(_SIGNATURE_ROOM)
        self._given_address = raw.at_address(self._given)
        self._key = -1
        self._token = -1
        self._signature = -1

    def forget(self) -> None:
        """Drop all that is known: accounts or tables have changed."""
        self.epoch += 1
        self._visitor = None

    def enter(self, peer: LanePeer) -> None:
        """The frames that follow are of this connection."""
        found = peer.visitor
        if found is not None:
            visitor: Visitor = found
            self._visitor = visitor if visitor.epoch == self.epoch else None
        else:
            self._visitor = None

    def admits_send(self, scan: RequestScan, data: Any, entry: LaneTopic, is_batch: bool) -> bool:
        """Whether the sender of a frame may put it into a topic; False: not for the lane."""
        account = self._account(scan, data)
        if account is None:
            return False
        if account.is_free:
            return True
        if account.last_topic is not entry:
            found = account.sends.get(entry)
            if found is None:
                found = self.host.may_send(account, entry)
                account.sends[entry] = found
            if not found:
                return False
            account.last_topic = entry
        allowance = account.allowance
        if allowance is not None:
            size = scan.frame_end - scan.body_at
            if is_batch or allowance.messages < 1 or allowance.size < size:
                return False
            if not self._is_signed(scan, data, account):
                return False
            allowance.messages -= 1
            allowance.size -= size
            return True
        return self._is_signed(scan, data, account)

    def admits_pull(self, scan: RequestScan, data: Any, plan: LanePlan) -> bool:
        """Whether the sender of a pull may read what its plan reads; False: not for the lane."""
        account = self._account(scan, data)
        if account is None:
            return False
        if account.is_free:
            return True
        if account.allowance is not None:
            return False
        if account.last_plan is not plan:
            found = account.pulls.get(plan)
            if found is None:
                found = self.host.may_pull(account, plan)
                account.pulls[plan] = found
            if not found:
                return False
            account.last_plan = plan
        return self._is_signed(scan, data, account)

    def _account(self, scan: RequestScan, data: Any) -> LaneAccount | None:
        """Return the account a frame names, if it was let in on this connection before."""
        visitor = self._visitor
        if visitor is None or visitor.free is not None:
            return None if visitor is None else visitor.free
        self._key = self._token = self._signature = -1
        for number in range(scan.field_count):
            at = scan.key_at[number]
            size = scan.key_size[number]
            if text.is_word(data, at, size, b"AccessKey"):
                self._key = number
            elif text.is_word(data, at, size, b"Signature"):
                self._signature = number
            elif text.is_word(data, at, size, b"SecurityToken"):
                self._token = number
        if self._token >= 0 and self.takes_tokens:
            return None
        at = size = 0
        if self._key >= 0:
            if scan.escaped[self._key]:
                return None
            at = scan.value_at[self._key]
            size = scan.value_size[self._key]
        last = visitor.last
        if last is not None and size == last.name_size:
            if raw.same_bytes(data, at, last.name_address, 0, size):
                return last
        found = visitor.accounts.get(raw.copy_of(data, at, size))
        if found is not None:
            visitor.last = found
        return found

    def _is_signed(self, scan: RequestScan, data: Any, account: LaneAccount) -> bool:
        if account.key_count == 0:
            return account.name_size == 0  # a certificate stands for it
        if self._signature < 0 or self._key < 0:
            return False
        size = self._gather(scan, data)
        if size < 0 or not self._read_signature(scan, data):
            return False
        self.checked += 1
        body = scan.frame_end - scan.body_at
        if mac.matches(
            account.first_address, self._head_address, size, data, scan.body_at, body,
            self._given_address,
        ):  # fmt: skip
            return True
        return account.key_count > 1 and mac.matches(
            account.second_address, self._head_address, size, data, scan.body_at, body,
            self._given_address,
        )  # fmt: skip

    def _read_signature(self, scan: RequestScan, data: Any) -> bool:
        """Copy the signature out of the frame, without the escapes some writers of JSON make."""
        at = scan.value_at[self._signature]
        size = scan.value_size[self._signature]
        if size > _SIGNATURE_ROOM:
            return False
        if scan.escaped[self._signature]:
            size = scan.unescape_at(data, at, at + size, self._given_address, 0)
        else:
            raw.copy_bytes(self._given_address, 0, data, at, size)
        is_whole: bool = size == mac.SIGNATURE_SIZE
        return is_whole

    def _gather(self, scan: RequestScan, data: Any) -> int:
        """Write the signed values in the order of their names; returns their size, or -1."""
        count = 0
        for number in range(scan.field_count):
            if number == self._signature:
                continue
            if not self._is_plain(scan, data, number):
                return -1
            place = count
            while place > 0:
                order = compare(scan, data, self._order[place - 1], number)
                if order == 0:
                    return -1
                if order < 0:
                    break
                self._order[place] = self._order[place - 1]
                place -= 1
            self._order[place] = number
            count += 1
        size = 0
        for place in range(count):
            number = self._order[place]
            at = scan.value_at[number]
            more = scan.value_size[number]
            if more > _HEAD_SIZE - size:
                return -1
            if scan.escaped[number]:
                size = scan.unescape_at(data, at, at + more, self._head_address, size)
                if size < 0:
                    return -1
            else:
                raw.copy_bytes(self._head_address, size, data, at, more)
                size += more
        return size

    def _is_plain(self, scan: RequestScan, data: Any, number: int) -> bool:
        """Whether a field has a name whose order bytes tell, and a text as its value."""
        at = scan.key_at[number]
        end = at + scan.key_size[number]
        if text.is_word(data, at, end - at, b"_UNIQUE_KEY_QUERY"):
            return False  # signed or not, by the version of the client
        while at < end:
            if data[at] & text.HIGH_BIT or data[at] == ord("\\"):
                return False
            at += 1
        return scan.is_binary or data[scan.value_at[number] - 1] == ord('"')


def compare(scan: RequestScan, data: Any, left: int, right: int) -> int:
    """Compare the names of two fields: below 0, 0 or above."""
    left_at = scan.key_at[left]
    right_at = scan.key_at[right]
    left_size = scan.key_size[left]
    right_size = scan.key_size[right]
    size = left_size if left_size < right_size else right_size
    for place in range(size):
        difference: int = data[left_at + place] - data[right_at + place]
        if difference != 0:
            return difference
    return left_size - right_size
