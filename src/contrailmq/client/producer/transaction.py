"""Transactional messages: sent as halves, made visible or withdrawn when the local work ends.

``Transaction`` is the block form: entering sends the half, leaving commits it, leaving by an
exception rolls it back.  If the decision does not reach the broker, the broker asks later
(request 39) and the producer's check callback answers: ``Checker`` does that.
"""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final

from contrailmq.client.message import (
    Message,
    Origin,
    Receipt,
    ReceivedMessage,
    SendStatus,
    open_messages,
)
from contrailmq.client.names import unwrap
from contrailmq.client.producer.outgoing import Packer
from contrailmq.client.producer.sender import Sender
from contrailmq.client.session import Session
from contrailmq.errors import ClientError, ContrailError
from contrailmq.net.connection import Connection
from contrailmq.protocol import properties as names
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.transaction import (
    CheckTransactionStateRequest,
    EndTransactionRequest,
)
from contrailmq.protocol.ids import parse_offset_message_id
from contrailmq.protocol.queue import MessageQueue
from contrailmq.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK

log = logging.getLogger(__name__)

_END_TIMEOUT_S: Final = 3.0


class TransactionState(enum.IntEnum):
    """How a transaction ended; the numbers are the wire's."""

    UNKNOWN = TRANSACTION_NONE
    COMMIT = TRANSACTION_COMMIT
    ROLLBACK = TRANSACTION_ROLLBACK


Verdict = TransactionState | bool | None
Check = Callable[[ReceivedMessage], Verdict | Awaitable[Verdict]]
"""Asked how the local work of a half message ended: True, False, or None for not known yet."""
OnEnd = Callable[[ReceivedMessage | Message, Receipt | None, TransactionState, bool], None]


class Transaction:
    """One half message and its end; made by ``Producer.transaction``."""

    def __init__(
        self, message: Message, *, group: str, session: Session, sender: Sender, packer: Packer
    ) -> None:
        self._message = message
        self._group = group
        self._session = session
        self._sender = sender
        self._packer = packer
        self._receipt: Receipt | None = None
        self._choice: TransactionState | None = None
        self.on_end: OnEnd | None = None

    def __repr__(self) -> str:
        state = "not begun" if self._receipt is None else f"id={self._receipt.message_id}"
        choice = "open" if self._choice is None else self._choice.name.lower()
        return f"<Transaction topic={self._message.topic} group={self._group} {state} {choice}>"

    @property
    def receipt(self) -> Receipt:
        """Where the half message is."""
        if self._receipt is None:
            raise ClientError("the transaction has not begun; use `async with`")
        return self._receipt

    @property
    def transaction_id(self) -> str:
        """The id under which a check will ask for it: the message's own."""
        return self.receipt.message_id

    def commit(self) -> None:
        """Make the message visible when the block ends (as it does without any call)."""
        self._choice = TransactionState.COMMIT

    def rollback(self) -> None:
        """Withdraw the message when the block ends."""
        self._choice = TransactionState.ROLLBACK

    def unknown(self) -> None:
        """Leave the decision to the check callback, which the broker asks later."""
        self._choice = TransactionState.UNKNOWN

    async def __aenter__(self) -> Transaction:
        if self._message.is_delayed:
            raise ClientError("a transactional message cannot be delayed")
        extra = {
            names.PROPERTY_TRANSACTION_PREPARED: "true",
            names.PROPERTY_PRODUCER_GROUP: self._group,
        }
        outgoing = self._packer.pack(self._message, extra=extra)
        self._receipt = await self._sender.send(outgoing)
        if self._receipt.status is not SendStatus.SEND_OK:
            # DefaultMQProducerImpl: the half may not survive, so the local work must not run.
            await self._end(TransactionState.ROLLBACK)
            raise ClientError(
                f"the half message was stored with {self._receipt.status.value} and is withdrawn;"
                " the transaction did not begin, try again"
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        state = self._choice
        if error is not None:
            state = TransactionState.ROLLBACK if state is None else state
        await self._end(TransactionState.COMMIT if state is None else state)

    async def _end(self, state: TransactionState) -> None:
        receipt = self.receipt
        _, offset = parse_offset_message_id(receipt.offset_message_id)
        header = EndTransactionRequest(
            topic=receipt.queue.topic,
            producer_group=self._group,
            tran_state_table_offset=receipt.offset,
            commit_log_offset=offset,
            commit_or_rollback=int(state),
            from_transaction_check=False,
            msg_id=receipt.message_id,
            transaction_id=receipt.transaction_id or receipt.message_id,
            broker_name=receipt.queue.broker_name,
        )
        try:
            address = self._session.writer(receipt.queue.broker_name)
            request = Command.request(RequestCode.END_TRANSACTION, header)
            if state is TransactionState.UNKNOWN:
                await self._session.oneway(address, request)  # a broker does not answer this one
            else:
                await self._session.ask(address, request, timeout_s=_END_TIMEOUT_S)
        except ContrailError as error:
            log.warning(
                "end of transaction not confirmed, the broker will ask id=%s state=%s error=%s",
                receipt.message_id, state.name, error,
            )  # fmt: skip
        if self.on_end is not None:
            self.on_end(self._message, receipt, state, False)


class Checker:
    """Answers the broker's question how a transaction ended (request 39)."""

    def __init__(self, session: Session, group: str, check: Check | None) -> None:
        self._session = session
        self.group = self._group = group
        self._check = check
        self._is_told = False
        self.on_end: OnEnd | None = None

    def begun(self, transaction: Transaction) -> Transaction:
        """The transaction, whose end is told to ``on_end``, too.

        Says once if nobody answers for one whose end does not reach the broker.
        """
        transaction.on_end = self.on_end
        if self._check is None and not self._is_told:
            self._is_told = True
            log.warning(
                "transactions without a check: the broker will ask how one ended whose end it did "
                "not hear, and drop its message; give check= to Producer group=%s", self._group
            )  # fmt: skip
        return transaction

    async def __call__(self, request: Command, connection: Connection) -> Command | None:
        """Ask the callback and send the verdict back on the same connection."""
        header = CheckTransactionStateRequest.from_fields(request.fields)
        origin = Origin(
            MessageQueue(header.topic or "", header.broker_name or "", 0),
            self._group,
            self._session.settings.namespace,
        )
        (message,) = open_messages(bytes(request.body), origin)
        group = message.properties.get(names.PROPERTY_PRODUCER_GROUP)
        if group != self._group:
            log.warning("check for a group that is not ours group=%s ours=%s", group, self._group)
            return None
        state = await self._verdict(message)
        answer = EndTransactionRequest(
            topic=header.topic,
            producer_group=self._group,
            tran_state_table_offset=header.tran_state_table_offset,
            commit_log_offset=header.commit_log_offset,
            commit_or_rollback=int(state),
            from_transaction_check=True,
            msg_id=message.message_id,
            transaction_id=header.transaction_id or message.message_id,
            broker_name=header.broker_name,
        )
        self._session.oneway_on(connection, Command.request(RequestCode.END_TRANSACTION, answer))
        if self.on_end is not None:
            self.on_end(message, None, state, True)
        return None

    async def _verdict(self, message: ReceivedMessage) -> TransactionState:
        if self._check is None:
            log.warning(
                "no check callback, the transaction stays open topic=%s id=%s:"
                " give Producer(check=...)",
                unwrap(self._session.settings.namespace, message.topic), message.message_id,
            )  # fmt: skip
            return TransactionState.UNKNOWN
        try:
            verdict = self._check(message)
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except Exception:
            log.exception("check callback failed id=%s", message.message_id)
            return TransactionState.UNKNOWN
        if verdict is None:
            return TransactionState.UNKNOWN
        if isinstance(verdict, TransactionState):
            return verdict
        return TransactionState.COMMIT if verdict else TransactionState.ROLLBACK
