"""The audit: who was refused, who did what an administrator does, which handshakes failed.

Each entry is one JSON object: a line of a file, and a message of the topic ``rmq_sys_audit``. No
entry holds a secret, a signature or a body. At most ``PER_SECOND`` entries are kept of a second;
one more says how many there were beyond.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from contrailmq.clock import Clock
from contrailmq.protocol.acl import ACCESS_KEY
from contrailmq.protocol.codes import RequestCode, ResponseCode
from contrailmq.protocol.command import Command
from contrailmq.security.account import Account
from contrailmq.security.guard import Guard, Peer
from contrailmq.security.needs import ADMIN_CODES

log = logging.getLogger(__name__)

PER_SECOND: Final = 1000
LOGGED_PER_SECOND: Final = 10
FLUSH_S: Final = 0.2
FILE_SIZE_MAX: Final = 64 * 1024 * 1024
TEXT_SIZE_MAX: Final = 300
_NAMED: Final = ("topic", "b", "group", "consumerGroup", "accessKey", "username", "subject")


class Audit:
    """Collects entries and writes them; ``on_entry`` gets each as bytes. Owned by the loop."""

    def __init__(self, path: Path | None, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lines: list[str] = []
        self._second = 0
        self._count = 0
        self.on_entry: Callable[[bytes], None] = lambda entry: None

    def watch(self, guard: Guard) -> None:
        """Hear of a guard's refusals, and of what it lets administrators do."""
        guard.on_refusal = self.refused
        guard.on_pass = self.passed

    def refused(self, request: Command, peer: Peer, account: str, reason: str) -> None:
        """A request was refused."""
        self._note("refused", request, peer.peer, account=account, reason=reason)
        if self._count <= LOGGED_PER_SECOND:
            log.warning(
                "request refused: peer=%s code=%s account=%s reason=%s",
                peer.peer,
                request.code,
                account[:TEXT_SIZE_MAX],
                reason,
            )

    def passed(self, request: Command, peer: Peer, account: Account) -> None:
        """A request was let in; noted when only an administrator may send it."""
        if request.code in ADMIN_CODES:
            self._note("allowed", request, peer.peer, account=account.name, reason="")

    def ended(self, request: Command, peer: str, *, answer: int, reason: str) -> None:
        """An administrator's request was carried out, or failed with this answer."""
        try:
            name = ResponseCode(answer).name
        except ValueError:
            name = str(answer)
        account = request.fields.get(ACCESS_KEY, "")
        verdict = "done" if answer == ResponseCode.SUCCESS else "failed"
        self._note(verdict, request, peer, account=account, reason=reason, result=name)

    def handshake_failed(self, peer: str, reason: str) -> None:
        """A connection did not become one."""
        self._write({"event": "handshake", "verdict": "failed", "peer": peer, "reason": reason})

    def _note(
        self, verdict: str, request: Command, peer: str, *,
        account: str, reason: str, result: str = "",
    ) -> None:  # fmt: skip
        fields = request.fields
        names = {n: fields[n][:TEXT_SIZE_MAX] for n in _NAMED if n in fields}
        try:
            name = RequestCode(request.code).name
        except ValueError:
            name = "UNKNOWN"
        entry = {
            "event": "result" if result else "request",
            "verdict": verdict,
            "peer": peer,
            "account": account[:TEXT_SIZE_MAX],
            "code": request.code,
            "name": name,
            "resource": names,
            "reason": reason[:TEXT_SIZE_MAX],
        }
        self._write(entry | ({"result": result} if result else {}))

    def _write(self, entry: dict[str, Any]) -> None:
        now_ms = self._clock.now_ms()
        if now_ms // 1000 != self._second:
            beyond = self._count - PER_SECOND
            self._second, self._count = now_ms // 1000, 0
            if beyond > 0:
                self._write({"event": "beyond", "verdict": "not kept", "count": beyond})
        self._count += 1
        if self._count > PER_SECOND:
            return
        line = json.dumps({"time_ms": now_ms, **entry}, ensure_ascii=False)
        self._lines.append(line)
        self.on_entry(line.encode())

    async def run(self) -> None:
        """Write the file until cancelled, and what is left then."""
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                self.flush()
        finally:
            self.flush()

    def flush(self) -> None:
        """Append what was collected; a full file becomes ``.1``."""
        lines, self._lines = self._lines, []
        if not lines or self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > FILE_SIZE_MAX:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8") as out:
                out.write("\n".join(lines) + "\n")
        except OSError as error:
            log.warning("audit lines are lost: count=%s error=%s", len(lines), error)
