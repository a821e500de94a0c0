"""Visitors: who they are, for how long, and the desk they use.

Without access control there is one session, everybody's.  With it a visitor logs in with an
account of the cluster; every request of theirs to the cluster is signed with that account, so
the console can do nothing that the account may not.  The secret is held in memory only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from contrailmq.client.access import Credentials
from contrailmq.clock import Clock
from contrailmq.console.desk import Desk, DeskMaker
from contrailmq.console.settings import SESSION_IDLE_S, SESSION_S, SESSIONS_MAX
from contrailmq.errors import ClientError, ContrailError, NoPermission
from contrailmq.lifecycle import Tasks

log = logging.getLogger(__name__)

COOKIE: Final = "contrail_console"
DESKS_MAX: Final = 16
FAILURES_MAX: Final = 5
FAILURE_PAUSE_S: Final = 2.0
FAILURES_KEPT: Final = 1000


@dataclass(slots=True, kw_only=True)
class Session:
    """One visitor; ``token`` has to come with everything that changes something."""

    id: str
    token: str
    account: str
    desk: Desk
    began_ms: int
    seen_ms: int


def new_secret() -> str:
    """256 bits nobody can guess."""
    return os.urandom(32).hex()


class Sessions:
    """All visitors. ``async with`` it: desks live inside."""

    def __init__(
        self, maker: DeskMaker, *, clock: Clock, secret: Callable[[], str] = new_secret
    ) -> None:
        self._maker = maker
        self._clock = clock
        self._secret = secret
        self._sessions: dict[str, Session] = {}
        self._desks: dict[str, Desk] = {}
        self._tasks = Tasks()
        self._failures: dict[str, int] = {}
        self._shared: Session | None = None
        self.needs_login = False

    @contextlib.asynccontextmanager
    async def open(self, *, login: bool | None) -> AsyncIterator[Sessions]:
        """Serve visitors for the length of a block; None finds out whether they must log in."""
        try:
            desk = self._open_desk("", None)
            self._shared = Session(
                id="", token=self._secret(), account="", desk=desk,
                began_ms=self._clock.now_ms(), seen_ms=self._clock.now_ms(),
            )  # fmt: skip
            self.needs_login = await self._demands_account(desk) if login is None else login
            yield self
        finally:
            await self._tasks.aclose()
            for desk in self._desks.values():
                await desk.admin.aclose()

    def _open_desk(self, mark: str, credentials: Credentials | None) -> Desk:
        desk = self._desks[mark] = self._maker.make(credentials)
        self._tasks.start(desk.keep(), name=f"console desk {len(self._desks)}")
        return desk

    async def _demands_account(self, desk: Desk) -> bool:
        try:
            for address in (await desk.admin.masters()).values():
                await desk.admin.brokers.runtime(address)
                await desk.admin.brokers.config(address)
        except NoPermission:
            return True
        except ContrailError as error:
            log.warning("the console does not reach the cluster yet: %s", error)
        return False

    def find(self, cookie: str | None) -> Session | None:
        """The session of a request's cookie, if it is alive."""
        if not self.needs_login:
            return self._shared
        session = self._sessions.get(cookie or "")
        if session is None:
            return None
        now = self._clock.now_ms()
        idle_s, age_s = (now - session.seen_ms) / 1000, (now - session.began_ms) / 1000
        if idle_s > SESSION_IDLE_S or age_s > SESSION_S:
            self.end(session)
            return None
        session.seen_ms = now
        return session

    async def log_in(self, account: str, secret: str, *, peer: str) -> Session:
        """A session of an account of the cluster; raises NoPermission if it does not let it in."""
        if self._failures.get(peer, 0) >= FAILURES_MAX:
            await asyncio.sleep(FAILURE_PAUSE_S)
        if not account or not secret:
            raise ClientError("an account and its secret are needed to log in")
        desk = self._maker.make(Credentials(access_key=account, secret_key=secret))
        try:
            async with desk.admin:
                for address in (await desk.admin.masters()).values():
                    await desk.admin.brokers.runtime(address)
        except NoPermission:
            self._failures[peer] = self._failures.get(peer, 0) + 1
            if len(self._failures) > FAILURES_KEPT:
                self._failures.pop(next(iter(self._failures)))
            log.warning("login refused: account=%s peer=%s", account[:80], peer)
            raise
        self._failures.pop(peer, None)
        return self._begin(account, secret)

    def _begin(self, account: str, secret: str) -> Session:
        mark = f"{account}\x00{secret}"
        desk = self._desks.get(mark)
        if desk is None:
            if len(self._desks) >= DESKS_MAX:
                raise ClientError(
                    f"{DESKS_MAX} accounts use this console already, the most it keeps; "
                    "log out with one of them, or restart it"
                )
            desk = self._open_desk(mark, Credentials(access_key=account, secret_key=secret))
        while len(self._sessions) >= SESSIONS_MAX:  # the one that came first goes
            self.end(next(iter(self._sessions.values())))
        now = self._clock.now_ms()
        session = Session(
            id=self._secret(), token=self._secret(), account=account, desk=desk,
            began_ms=now, seen_ms=now,
        )  # fmt: skip
        self._sessions[session.id] = session
        log.info("login: account=%s", account)
        return session

    def end(self, session: Session) -> None:
        """Forget a visitor."""
        self._sessions.pop(session.id, None)
