"""The walk over protobuf bytes: both builds do the same with messages, cut ones and garbage."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from contrailmq.errors import RemoteProtocolError
from testkit.builds import BUILDS, native_module

MODULES = [native_module("grpc.protobuf", pure=build == "pure") for build in BUILDS]


class Made:
    """A message: whatever was found."""

    def __init__(self, **found: Any) -> None:
        vars(self).update(
            number=0,
            flag=False,
            text="",
            data=b"",
            part=None,
            parts=[],
            numbers=[],
            pairs={},
            x=0.0,
        )
        vars(self).update(found)

    def plain(self) -> Any:
        return {
            name: value.plain() if isinstance(value, Made)
            else [one.plain() if isinstance(one, Made) else one for one in value]
            if isinstance(value, list)
            else value
            for name, value in vars(self).items()
        }  # fmt: skip


def plan(module: ModuleType, depth: int = 2) -> Any:
    kinds = [
        ("number", 1, module.INT, False),
        ("flag", 2, module.BOOL, False),
        ("text", 3, module.TEXT, False),
        ("data", 4, module.BYTES, False),
        ("numbers", 7, module.INT, True),
        ("pairs", 20, module.MAP, False),
        ("x", 21, module.FLOAT, False),
    ]
    inner = plan(module, depth - 1) if depth else None
    if inner is not None:
        kinds += [("part", 5, module.MESSAGE, False), ("parts", 6, module.MESSAGE, True)]
    return module.Plan(
        Made,
        [
            module.FieldPlan(
                name, number, kind, is_list=is_list, has_presence=name == "part",
                codec=inner if kind == module.MESSAGE else None,
            )
            for name, number, kind, is_list in kinds
        ],
    )  # fmt: skip


def message(rng: random.Random, depth: int = 2) -> Made:
    made = Made(
        number=rng.choice((0, 1, 127, 128, 1 << 40, (1 << 63) - 1, -1, -(1 << 63))),
        flag=rng.random() < 0.5,
        text=rng.choice(("", "abc", "é中" * 100)),
        data=rng.randbytes(rng.choice((0, 3, 200))),
        numbers=[rng.randrange(-5, 1 << 35) for _ in range(rng.randrange(4))],
        pairs={f"k{n}": "v" * n for n in range(rng.randrange(4))},
        x=rng.choice((0.0, 1.5, -2.25)),
    )
    if depth and rng.random() < 0.7:
        made.part = message(rng, depth - 1)
        made.parts = [message(rng, depth - 1) for _ in range(rng.randrange(3))]
    return made


@pytest.mark.parametrize("seed", range(20))
def test_messages_come_back_and_both_builds_agree(seed: int) -> None:
    made = message(random.Random(seed))
    encoded = [plan(module).encode(made) for module in MODULES]
    assert len(set(encoded)) == 1
    for module in MODULES:
        assert plan(module).decode(encoded[0]).plain() == made.plain()
        assert plan(module).decode(bytearray(encoded[0])).plain() == made.plain()


def outcome(module: ModuleType, data: bytes) -> Any:
    try:
        return plan(module).decode(data).plain()
    except RemoteProtocolError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(5))
def test_cut_and_changed_bytes_are_a_message_or_an_error(seed: int) -> None:
    rng = random.Random(seed)
    whole = plan(MODULES[0]).encode(message(rng))[:300]
    cases = [whole[:size] for size in range(len(whole))]
    for _ in range(300):
        changed = bytearray(whole or b"\0")
        changed[rng.randrange(len(changed))] = rng.randrange(256)
        cases.append(bytes(changed))
    for data in cases:
        first, *others = (repr(outcome(module, data)) for module in MODULES)
        assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1a\x05abc", "5 bytes announced, 3 there"),
        (b"\x08" + b"\xff" * 11, "a number without an end"),
        (b"\x1a\x02\xff\xfe", "no UTF-8"),
        (b"\x0b", "wire type 3"),
        (b"\xad\x01\x00", "fixed number"),
        (b"\xa2\x01\x02\x08\x01", "wire type 0 in a map"),
        (b"\x3a\x91\x4e" + b"\x01" * 10_001, "10001 items, at most 10000"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, text: str) -> None:
    for module in MODULES:
        with pytest.raises(RemoteProtocolError, match=text):
            plan(module).decode(data)


def test_unknown_fields_are_skipped_and_large_numbers_wrap() -> None:
    unknown = b"\xf8\x07\x01\xf9\x07" + bytes(8) + b"\xfa\x07\x03abc\xfd\x07" + bytes(4)
    for module in MODULES:
        assert plan(module).decode(unknown + b"\x08\x05").number == 5
        assert plan(module).decode(b"\x08" + b"\xff" * 9 + b"\x7f").number == -1
