"""The accounts of a running server: the table in force, and how it follows its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from contrailmq.clock import Clock
from contrailmq.errors import ConfigError
from contrailmq.security.account import Account
from contrailmq.security.files import AccountFiles, AccountTable

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
OPEN_MODES: Final = 0o077


class Accounts:
    """The table in force; ``on_change`` is called after it was replaced. Owned by the loop."""

    def __init__(self, files: AccountFiles, *, clock: Clock) -> None:
        self.files = files
        self.table = AccountTable()
        self.on_change: list[Callable[[], None]] = []
        self.on_look: list[Callable[[], None]] = []
        self._clock = clock
        self._refused: object = None

    def start(self) -> None:
        """Read the files for the first time; a bad one is a ConfigError, a missing one is made."""
        if not self.files.main.exists():
            self.files.write(self.files.main, {"accounts": []}, self._clock.now_ms())
            log.warning(
                "there is no account yet, every request is refused: make one with "
                "contrail account add NAME --admin --file %s", self.files.main,
            )  # fmt: skip
        self.reload()
        for path in self.files.paths():
            if path.stat().st_mode & OPEN_MODES:
                log.warning("other users can read the secrets: chmod 600 %s", path)
        if self.table.white.is_everybody:
            log.warning("globalWhiteRemoteAddresses has *: no request of any address is checked")

    def reload(self) -> None:
        """Read the files and use what they say; raises ConfigError and then changes nothing."""
        self.table = self.files.load(self._clock.now_ms())
        for told in self.on_change:
            told()

    def of_certificate(self, name: str) -> Account | None:
        """The account of a name in a certificate: listed by one, or the account's own name."""
        return self.table.by_certificate.get(name) or self.table.accounts.get(name)

    async def run(self) -> None:
        """Follow the files until cancelled; a state that cannot be used is said once."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Read the files again if they have changed; ``on_look`` are those that look, too."""
        for look in self.on_look:
            look()
        stamp = self.files.stamp()
        is_over = 0 < self.table.ends_ms <= self._clock.now_ms()  # an old secret has ended
        if not is_over and stamp in (self.table.stamp, self._refused):
            return
        try:
            self.reload()
        except ConfigError as error:
            self._refused = stamp
            log.warning("accounts stay as they were: %s", error)
            return
        self._refused = None
        log.info("accounts read again: count=%s", len(self.table.accounts))


def account_path(
    config_path: str | None, home: str | None, store_root: str, *, given: str = ""
) -> Path:
    """Where ``plain_acl.yml`` is: beside broker.conf, below ROCKETMQ_HOME, or with the store."""
    if given:
        return Path(given).absolute()
    beside = Path(config_path).absolute().parent / "plain_acl.yml" if config_path else None
    below = Path(home) / "conf" / "plain_acl.yml" if home else None
    for path in (beside, below):
        if path is not None and path.exists():
            return path
    return beside or below or Path(store_root) / "config" / "plain_acl.yml"
