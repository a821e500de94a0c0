"""The quick answer to one stored message has the bytes of the codec."""

from __future__ import annotations

import pytest

from contrailmq.grpc import messages as m
from contrailmq.grpc.backend import Sent
from contrailmq.grpc.calls_send import stored
from contrailmq.grpc.protobuf import codec_of


@pytest.mark.parametrize(
    "sent",
    [Sent(0, ""), Sent(7, ""), Sent(1 << 40, "id@1@2"), Sent(300, "", "handle " * 40)],
)
def test_the_quick_answer_is_the_codecs(sent: Sent) -> None:
    message_id = "01AABB" * 30
    entry = m.SendResultEntry(
        m.Status(20000, "OK"), message_id, sent.transaction_id or message_id,
        sent.queue_offset, sent.recall_handle,
    )  # fmt: skip
    answer = m.SendMessageResponse(m.Status(20000, "OK"), [entry])
    assert stored(message_id, sent) == codec_of(m.SendMessageResponse).encode(answer)
