"""Commands: replies, bounds, and the headers other clients write."""

from __future__ import annotations

import pytest

from contrailmq.errors import LocalProtocolError, RemoteProtocolError
from contrailmq.protocol.command import Command, Serialization, decode
from contrailmq.protocol.frame import FRAME_SIZE_MAX, LENGTH_SIZE
from contrailmq.protocol.headers.route import GetRouteInfoRequest


def json_frame(header: str, body: bytes = b"") -> bytes:
    """A frame without its length, with this JSON header."""
    raw = header.encode()
    return len(raw).to_bytes(4, "big") + raw + body


def test_the_frames_of_the_specification() -> None:
    request = Command.request(105, GetRouteInfoRequest(topic="T"))
    request.opaque, request.version = 3, 409
    text = (
        '{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":3,'
        '"serializeTypeCurrentRPC":"JSON","version":409}'
    )
    assert request.encode() == bytes.fromhex("000000810000007d") + text.encode()
    request.serialization = Serialization.ROCKETMQ
    assert request.encode().hex() == (
        "0000002501000021" + "0069030199" + "00000003" + "00000000" + "00000000"
        "0000000c" + "0005746f706963" + "0000000154"
    )
    empty = Command(0, serialization=Serialization.ROCKETMQ)
    assert len(empty.encode_head()) == 8 + 21


@pytest.mark.parametrize("serialization", Serialization)
def test_a_reply_answers_in_the_form_of_its_request(serialization: Serialization) -> None:
    request = Command(14, opaque=77, serialization=serialization)
    reply = request.reply(GetRouteInfoRequest(topic="T"), body=b"x", fields={"more": "1"})
    assert reply.is_response and not reply.is_oneway
    assert (reply.opaque, reply.code, reply.serialization) == (77, 0, serialization)
    assert reply.fields == {"topic": "T", "more": "1"}
    refusal = request.refuse(3, "no")
    assert (refusal.code, refusal.remark, refusal.opaque) == (3, "no", 77)
    assert Command.request(15, oneway=True).is_oneway


def test_numbers_and_booleans_among_the_ext_fields_become_text() -> None:
    # The C++ client and ali-ons write such headers; the first ends in a newline.
    command = decode(
        json_frame(
            '{"code":10,"extFields":{"queueId":0,"defaultTopicQueueNums":4,"k":false,'
            '"bornTimestamp":"1794","score":1.5,"gone":null,"deep":{"a":[1]}},"flag":0,'
            '"language":"CPP","opaque":5,"version":"63"}\n',
            b"body",
        )
    )
    assert command.fields == {
        "queueId": "0",
        "defaultTopicQueueNums": "4",
        "k": "false",
        "bornTimestamp": "1794",
        "score": "1.5",
        "deep": '{"a":[1]}',
    }
    assert (command.version, command.language, command.body) == (63, "CPP", b"body")


@pytest.mark.parametrize(
    ("written", "remark"), [('"remark":null,', None), ('"remark":"",', ""), ("", None)]
)
def test_remarks_that_say_nothing(written: str, remark: str | None) -> None:
    command = decode(json_frame(f'{{{written}"code":1,"language":"RUST"}}'))
    assert command.remark == remark
    assert (command.opaque, command.flag, command.version, command.fields) == (0, 0, 0, {})


def test_a_header_in_the_dialect() -> None:
    command = decode(json_frame("{code:11,'extFields':{topic:'T',0:1,},opaque:-5,/*x*/}"))
    assert (command.code, command.opaque, command.fields) == (11, -5, {"topic": "T", "0": "1"})


def test_an_unknown_language_is_kept_in_json_and_other_in_binary() -> None:
    command = decode(json_frame('{"code":1,"language":"KLINGON"}'))
    assert command.language == "KLINGON"
    assert decode(command.encode()[LENGTH_SIZE:]).language == "KLINGON"
    command.serialization = Serialization.ROCKETMQ
    assert decode(command.encode()[LENGTH_SIZE:]).language == "OTHER"
    frame = bytearray(command.encode()[LENGTH_SIZE:])
    frame[6] = 200
    assert decode(bytes(frame)).language == ""


def test_a_large_code_is_cut_in_a_binary_header() -> None:
    command = Command(200050, serialization=Serialization.ROCKETMQ)
    assert decode(command.encode()[LENGTH_SIZE:]).code == 3442


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "",
        "{",
        '"text"',
        '{"code":1,"extFields":[]}',
        '{"code":1,"extFields":5}',
        '{"code":"x"}',
        '{"opaque":2147483648}',
        '{"opaque":1.5}',
        '{"flag":99999999999999999999999}',
        '{"code":true,"x":}',
        '{"extFields":{"a":{"$ref":"$"}}}',
    ],
)
def test_headers_that_are_refused(header: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(json_frame(header))


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\2\0\0\0", b"\xff\0\0\1x"])
def test_frames_that_are_refused(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(frame)


def test_bodies_are_copies_or_views() -> None:
    frame = bytearray(Command(1, body=b"body").encode()[LENGTH_SIZE:])
    copied, viewed = decode(frame), decode(frame, copy_body=False)
    frame[-1:] = b"X"
    assert copied.body == b"body"
    assert isinstance(viewed.body, memoryview) and viewed.body == b"bodX"


def test_what_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="at most"):
        Command(1, body=bytes(FRAME_SIZE_MAX)).encode()
    binary = Serialization.ROCKETMQ
    for command in (
        Command(1, opaque=1 << 40, serialization=binary),
        Command(1, version=1 << 20, serialization=binary),
        Command(1, fields={"k" * 40_000: "v"}, serialization=binary),
        Command(1, fields={"k": 5}, serialization=binary),  # type: ignore[dict-item]
    ):
        with pytest.raises(LocalProtocolError, match="has no header"):
            command.encode()


@pytest.mark.parametrize("serialization", Serialization)
def test_half_a_surrogate_pair_is_a_question_mark(serialization: Serialization) -> None:
    command = Command(
        1, fields={"k\ud800": "v\udfff"}, remark="\ud83d", serialization=serialization
    )
    found = decode(command.encode()[LENGTH_SIZE:])
    assert found.fields == {"k?": "v?"}
    assert found.remark == "?"


def test_repr_names_what_a_log_needs() -> None:
    text = repr(Command(14, fields={"topic": "T"}, remark="r", flag=1, opaque=9))
    assert "response" in text and "code=14" in text and "opaque=9" in text and "'r'" in text
    assert Command(1) != 1
