"""The small HTTP server: what it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from contrailmq.net.network import AsyncioNetwork
from contrailmq.net.pages import HEAD_SIZE_MAX, Page, Pages, Visit


async def _large(visit: Visit) -> Page:
    return Page(b"x" * 5000)


async def _broken(visit: Visit) -> Page:
    raise ValueError("no")


@asynccontextmanager
async def _served() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    pages = Pages({"/large": _large, "/broken": _broken}, network=AsyncioNetwork())
    await pages.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", pages.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await pages.aclose()


async def _answer(reader: asyncio.StreamReader, *, is_head: bool = False) -> tuple[str, bytes]:
    async with asyncio.timeout(10):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = int(head.lower().partition("content-length: ")[2].partition("\r")[0])
        return head, b"" if is_head else await reader.readexactly(size)


def _ask(request: bytes) -> tuple[str, bytes]:
    async def scenario() -> tuple[str, bytes]:
        async with _served() as (reader, writer):
            writer.write(request)
            return await _answer(reader, is_head=request.startswith(b"HEAD"))

    return asyncio.run(scenario())


def test_requests_of_one_connection_are_answered_in_order() -> None:
    async def scenario() -> None:
        async with _served() as (reader, writer):
            writer.write(b"GET /large?x=1 HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\n\r\n")
            assert (await _answer(reader))[1] == b"x" * 5000
            head, body = await _answer(reader)
            assert head.startswith("HTTP/1.1 404 ")
            assert b"/large" in body

    asyncio.run(scenario())


def test_a_large_page_is_packed_for_those_who_want_it() -> None:
    head, body = _ask(b"GET /large HTTP/1.1\r\nAccept-Encoding: deflate, gzip\r\n\r\n")
    assert "Content-Encoding: gzip" in head
    assert gzip.decompress(body) == b"x" * 5000


def test_head_has_no_body() -> None:
    head, _ = _ask(b"HEAD /large HTTP/1.1\r\n\r\n")
    assert "Content-Length: 5000" in head


def test_an_error_of_a_page_is_told_without_its_text() -> None:
    head, body = _ask(b"GET /broken HTTP/1.1\r\n\r\n")
    assert head.startswith("HTTP/1.1 500 ")
    assert b"ValueError" not in body


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /large HTTP/1.1\r\n\r\n", 405),
        (b"GET /large HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 413),
        (b"GET /large SPDY/3\r\n\r\n", 400),
        (b"GET /large HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET /" + b"x" * HEAD_SIZE_MAX, 431),
        (b"\x00\x00\x00\x10garbage\r\n\r\n", 400),
    ],
)
def test_what_is_no_plain_request_is_refused(request_bytes: bytes, status: int) -> None:
    head, _ = _ask(request_bytes)
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert "Connection: close" in head
