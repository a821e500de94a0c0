"""A few pages over HTTP/1.1, served by the loop that does everything else.

For machines that ask a server how it does: Prometheus, probes of a container.  It knows GET and
HEAD, keeps connections open, packs with gzip where that is asked for, and nothing more.  What a
visitor can fill is bounded: ``VISITORS_MAX`` connections, ``HEAD_SIZE_MAX`` bytes of a request,
one request at a time, ``IDLE_S`` between two of them.
"""

from __future__ import annotations

import asyncio
import gzip
import http
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, cast

from contrailmq.lifecycle import Tasks
from contrailmq.net.network import Listener, Network

log = logging.getLogger(__name__)

VISITORS_MAX: Final = 64
HEAD_SIZE_MAX: Final = 16 * 1024
IDLE_S: Final = 150.0  # longer than most pauses between two scrapes
WORK_S: Final = 60.0
GZIP_LEVEL: Final = 1
GZIP_SIZE_MIN: Final = 1024
_END: Final = b"\r\n\r\n"


class Page(NamedTuple):
    """An answer."""

    body: bytes
    status: int = 200
    kind: str = "text/plain; charset=utf-8"


class Visit(NamedTuple):
    """A request: its path, and its headers by lower-case name."""

    path: str
    headers: Mapping[str, str]


Paint = Callable[[Visit], Awaitable[Page]]


class Pages:
    """Serves pages by path until closed."""

    def __init__(self, pages: Mapping[str, Paint], *, network: Network) -> None:
        self.pages = dict(pages)
        self._network = network
        self._listener: Listener | None = None
        self.visitors: dict[_Visitor, None] = {}
        self.tasks = Tasks()

    @property
    def port(self) -> int:
        """The port listened on."""
        assert self._listener is not None, "the pages are not served yet"
        return self._listener.port

    async def start(self, host: str, port: int) -> None:
        """Listen; raises OSError."""
        self._listener = await self._network.listen(lambda: _Visitor(self), host, port)

    async def aclose(self) -> None:
        """Stop listening, and hang up."""
        if self._listener is not None:
            self._listener.close()
        for visitor in list(self.visitors):
            visitor.close()
        await self.tasks.aclose()
        if self._listener is not None:
            await self._listener.wait_closed()

    async def paint(self, visit: Visit) -> Page:
        """The page of a request; an error of its painter is a 500."""
        painter = self.pages.get(visit.path)
        if painter is None:
            known = " ".join(sorted(self.pages))
            return Page(f"no page {visit.path[:200]!r}; there are {known}\n".encode(), 404)
        try:
            async with asyncio.timeout(WORK_S):
                return await painter(visit)
        except TimeoutError:
            return Page(f"the page took longer than {WORK_S:g} s\n".encode(), 503)
        except Exception:
            log.exception("page failed: path=%s", visit.path)
            return Page(b"the page failed; the log of the server says why\n", 500)


class _Visitor(asyncio.Protocol):
    """One connection."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._transport: asyncio.Transport | None = None
        self._kept = b""
        self._is_busy = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._pages.visitors) >= VISITORS_MAX:
            self._transport.abort()
            return
        self._pages.visitors[self] = None
        self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pages.visitors.pop(self, None)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._kept += data
        if len(self._kept) > HEAD_SIZE_MAX:
            self._refuse(431, f"a request of more than {HEAD_SIZE_MAX} bytes")
        elif not self._is_busy:
            self._take()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self.close)

    def _take(self) -> None:
        """Answer the next request, if all of its head has come."""
        head, end, rest = self._kept.partition(_END)
        if not end:
            return
        self._kept = rest
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip() or not name:
                self._refuse(400, "a line of the head is no header")
                return
            headers[name.lower()] = value.strip()
        if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
            self._refuse(400, "expected a request of HTTP/1.1")
        elif words[0] not in ("GET", "HEAD"):
            self._refuse(405, "expected GET or HEAD")
        elif headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._refuse(413, "expected a request without a body")
        else:
            self._is_busy = True
            visit = Visit(words[1].partition("?")[0], headers)
            wants = headers.get("connection", "").lower()
            keeps = wants == "keep-alive" if words[2] == "HTTP/1.0" else wants != "close"
            self._pages.tasks.start(
                self._answer(visit, is_head=words[0] == "HEAD", keeps=keeps), name="page"
            )

    async def _answer(self, visit: Visit, *, is_head: bool, keeps: bool) -> None:
        page = await self._pages.paint(visit)
        packs = len(page.body) >= GZIP_SIZE_MIN and "gzip" in visit.headers.get(
            "accept-encoding", ""
        )
        if packs:  # five megabytes take 30 ms: in a thread, where zlib leaves the loop alone
            packed = await asyncio.to_thread(gzip.compress, page.body, GZIP_LEVEL)
            page = page._replace(body=packed)
        self._is_busy = False
        self._write(page, packed=packs, keeps=keeps, is_head=is_head)
        if keeps and self._transport is not None:
            self._rest()
            self._take()

    def _refuse(self, status: int, reason: str) -> None:
        self._write(Page(f"{reason}\n".encode(), status), packed=False, keeps=False)

    def _write(self, page: Page, *, packed: bool, keeps: bool, is_head: bool = False) -> None:
        if self._transport is None:
            return
        phrase = http.HTTPStatus(page.status).phrase
        head = (
            f"HTTP/1.1 {page.status} {phrase}\r\n"
            f"Content-Type: {page.kind}\r\nContent-Length: {len(page.body)}\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            + ("Content-Encoding: gzip\r\n" if packed else "")
            + ("" if keeps else "Connection: close\r\n")
            + "\r\n"
        )
        self._transport.write(head.encode() + (b"" if is_head else page.body))
        if not keeps:
            self._transport.close()
