"""Signed requests: what a broker checks, and the one field that no broker is to count."""

from __future__ import annotations

from contrailmq.client.access import Credentials
from contrailmq.client.acl import sign
from contrailmq.protocol.acl import SIGNATURE, UNIQUE_KEY_QUERY, is_signed_by, signature
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.headers.query import QueryMessageRequest

ACCOUNT = Credentials(access_key="rocketmq2", secret_key="12345678")


def test_a_request_carries_the_known_signature() -> None:
    command = Command(code=10, fields={"topic": "T"}, body=b"BODY")
    sign(command, ACCOUNT)
    assert command.fields["AccessKey"] == "rocketmq2"
    assert command.fields[SIGNATURE] == "4PGHhogVBYA68Mvinu4rMku2ufQ="


def test_a_question_for_a_unique_key_is_signed_as_all_brokers_check_it() -> None:
    header = QueryMessageRequest(
        topic="T", key="0A", max_num=32, begin_timestamp=0, end_timestamp=1, unique_key_query=True
    )
    command = Command.request(RequestCode.QUERY_MESSAGE, header)
    sign(command, ACCOUNT)
    assert command.fields[UNIQUE_KEY_QUERY] == "true"
    # 5.x decides by the version of the request, 4.9 never counts the field.
    assert is_signed_by(command.fields, command.body, "12345678", version=command.version)
    unsigned = (SIGNATURE, UNIQUE_KEY_QUERY)
    expected = signature(command.fields, command.body, "12345678", unsigned=unsigned)
    assert command.fields[SIGNATURE] == expected
