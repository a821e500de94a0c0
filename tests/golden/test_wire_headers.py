"""The typed headers know every ext field that clients and servers of both lines send."""

from __future__ import annotations

from collections import Counter

import pytest

from contrailmq.errors import RemoteProtocolError
from contrailmq.protocol.command import Command, decode
from contrailmq.protocol.frame import LENGTH_SIZE
from contrailmq.protocol.header import Header
from contrailmq.protocol.headers import (
    acl,
    admin,
    client,
    group,
    kv,
    offset,
    pop,
    pull,
    query,
    route,
    send,
    topic,
    transaction,
)
from testkit.golden import VERSIONS, exchanges, wire_files

# Fields that belong to no header: the account, and a mark of streaming clients.
ANYWHERE = {"AccessKey", "Signature", "SecurityToken", "ReqT"}

REQUESTS: dict[int, type[Header]] = {
    10: send.SendMessageRequest,
    11: pull.PullMessageRequest,
    12: query.QueryMessageRequest,
    14: offset.QueryConsumerOffsetRequest,
    15: offset.UpdateConsumerOffsetRequest,
    17: topic.CreateTopicRequest,
    29: offset.SearchOffsetRequest,
    30: offset.GetMaxOffsetRequest,
    31: offset.GetMinOffsetRequest,
    32: offset.GetEarliestMsgStoretimeRequest,
    33: query.ViewMessageRequest,
    35: client.UnregisterClientRequest,
    36: send.ConsumerSendMsgBackRequest,
    37: transaction.EndTransactionRequest,
    38: group.GetConsumerListByGroupRequest,
    39: transaction.CheckTransactionStateRequest,
    40: client.NotifyConsumerIdsChangedRequest,
    50: acl.CreateAccessConfigRequest,
    51: acl.DeleteAccessConfigRequest,
    53: acl.UpdateGlobalWhiteAddrsConfigRequest,
    100: kv.PutKVConfigRequest,
    101: kv.GetKVConfigRequest,
    102: kv.DeleteKVConfigRequest,
    103: route.RegisterBrokerRequest,
    104: route.UnregisterBrokerRequest,
    105: route.GetRouteInfoRequest,
    202: topic.GetTopicStatsInfoRequest,
    203: admin.GetConsumerConnectionListRequest,
    204: admin.GetProducerConnectionListRequest,
    205: route.WipeWritePermOfBrokerRequest,
    207: group.DeleteSubscriptionGroupRequest,
    208: admin.GetConsumeStatsRequest,
    215: topic.DeleteTopicRequest,
    216: route.DeleteTopicFromNamesrvRequest,
    219: kv.GetKVListByNamespaceRequest,
    220: offset.ResetOffsetRequest,
    221: offset.GetConsumerStatusRequest,
    222: offset.ResetOffsetRequest,
    223: offset.GetConsumerStatusRequest,
    224: route.GetTopicsByClusterRequest,
    300: query.QueryTopicConsumeByWhoRequest,
    303: query.QueryConsumeTimeSpanRequest,
    307: client.GetConsumerRunningInfoRequest,
    308: offset.QueryCorrectionOffsetRequest,
    309: client.ConsumeMessageDirectlyRequest,
    310: send.SendMessageRequestV2,
    314: offset.CloneGroupOffsetRequest,
    315: admin.ViewBrokerStatsRequest,
    317: admin.GetBrokerConsumeStatsRequest,
    320: send.SendMessageRequestV2,
    321: query.QueryConsumeQueueRequest,
    322: route.QueryDataVersionRequest,
    323: transaction.ResumeCheckHalfMessageRequest,
    325: send.SendMessageRequestV2,
    326: send.ReplyMessageRequest,
    327: route.AddWritePermOfBrokerRequest,
    343: query.QueryTopicsByConsumerRequest,
    345: query.QuerySubscriptionByConsumerRequest,
    351: topic.GetTopicConfigRequest,
    352: group.GetSubscriptionGroupConfigRequest,
    353: group.UpdateGroupForbiddenRequest,
    361: pull.PullMessageRequest,
    901: route.GetBrokerMemberGroupRequest,
    904: route.BrokerHeartbeatRequest,
    2004: admin.SetCommitLogReadModeRequest,
    200050: pop.PopMessageRequest,
    200051: pop.AckMessageRequest,
    200052: pop.PeekMessageRequest,
    200053: pop.ChangeInvisibleTimeRequest,
    200054: pop.NotificationRequest,
    200055: pop.PollingInfoRequest,
}

RESPONSES: dict[int, type[Header]] = {
    10: send.SendMessageResponse,
    11: pull.PullMessageResponse,
    12: query.QueryMessageResponse,
    14: offset.QueryConsumerOffsetResponse,
    26: admin.GetBrokerConfigResponse,
    29: offset.SearchOffsetResponse,
    30: offset.GetMaxOffsetResponse,
    31: offset.GetMinOffsetResponse,
    32: offset.GetEarliestMsgStoretimeResponse,
    34: client.HeartbeatResponse,
    52: acl.GetBrokerAclConfigResponse,
    101: kv.GetKVConfigResponse,
    103: route.RegisterBrokerResponse,
    205: route.WipeWritePermOfBrokerResponse,
    310: send.SendMessageResponse,
    320: send.SendMessageResponse,
    322: route.QueryDataVersionResponse,
    325: send.SendMessageResponse,
    327: route.AddWritePermOfBrokerResponse,
    361: pull.PullMessageResponse,
    906: admin.ExchangeHAResponse,
    200050: pop.PopMessageResponse,
    200052: pop.PopMessageResponse,
    200053: pop.ChangeInvisibleTimeResponse,
    200054: pop.NotificationResponse,
    200055: pop.PollingInfoResponse,
}

# Codes that answer with the whole header although they are not SUCCESS.
FULL_ANSWERS = {0, 10, 11, 12, 19, 20, 21, 210}


def check_header(kind: type[Header] | None, command: Command, what: str) -> None:
    """The class names every field, and gives back what it was given."""
    if kind is None:
        assert not command.fields.keys() - ANYWHERE, (what, command.fields)
        return
    unknown = command.fields.keys() - set(kind.wire_names()) - ANYWHERE
    assert not unknown, (what, unknown)
    back = kind.from_fields(command.fields).to_fields()
    assert {name: back[name] for name in command.fields.keys() - ANYWHERE} == {
        name: value for name, value in command.fields.items() if name not in ANYWHERE
    }, what


@pytest.mark.parametrize("version", VERSIONS)
def test_request_and_response_headers(version: str) -> None:
    seen: Counter[str] = Counter()
    for path in wire_files(version):
        for request, response in exchanges(path):
            asked = decode(request.frame[LENGTH_SIZE:])
            where = f"{path.stem} code {request.code}"
            answered = decode(response.frame[LENGTH_SIZE:]) if response else None
            try:
                check_header(REQUESTS.get(request.code), asked, where)
                seen["request"] += 1
            except RemoteProtocolError:
                # A request that was broken on purpose: Java fails on it, too.
                assert answered is not None and answered.code == 1, where
                seen["broken"] += 1
            if answered is None:
                continue
            kind = RESPONSES.get(request.code)
            if answered.code in FULL_ANSWERS and (kind is None or answered.fields):
                check_header(kind, answered, f"{where} answer")
                seen["response"] += 1
            elif kind is not None:
                unknown = answered.fields.keys() - set(kind.wire_names())
                assert not unknown, (where, unknown)
    assert seen["request"] > 1000
    assert seen["response"] > 800
    assert 0 < seen["broken"] < 10


def test_the_short_send_header_is_the_long_one() -> None:
    seen = 0
    for path in wire_files():
        for request, _ in exchanges(path):
            command = decode(request.frame[LENGTH_SIZE:])
            if request.code != 310 or "e" not in command.fields:
                continue
            short = send.SendMessageRequestV2.from_fields(command.fields)
            assert send.SendMessageRequestV2.of(short.v1()) == short
            assert short.v1().topic == command.fields["b"]
            assert short.v1().max_reconsume_times == (
                int(command.fields["l"]) if "l" in command.fields else None
            )
            seen += 1
    assert seen > 100
