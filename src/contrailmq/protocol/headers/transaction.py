"""Headers of transactional messages."""

from __future__ import annotations

from contrailmq.protocol.header import Int32, RpcRequest, TopicRequest


class EndTransactionRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 37, mostly oneway: ``commit_or_rollback`` is 0 unknown, 8 commit, 12 rollback."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None


class CheckTransactionStateRequest(TopicRequest, frozen=True, kw_only=True):
    """RequestCode 39, broker to client, oneway: how did the transaction in the body end?"""

    topic: str | None = None
    tran_state_table_offset: int
    commit_log_offset: int
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None


class ResumeCheckHalfMessageRequest(RpcRequest, frozen=True, kw_only=True):
    """RequestCode 323: check a half message again that was given up."""

    topic: str | None = None
    msg_id: str
