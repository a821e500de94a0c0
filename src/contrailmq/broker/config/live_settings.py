"""The broker's settings as they are now: read by many, changed by one live update."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contrailmq.broker.config.permission import BrokerPermission
from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.tables.revision import Revision
from contrailmq.settings import update


class LiveSettings:
    """Holds the current ``BrokerSettings``; ``apply`` replaces it and ends cached decisions."""

    def __init__(self, settings: BrokerSettings, revision: Revision) -> None:
        self.now = settings
        self.permission = BrokerPermission(settings.permission, revision)
        self.on_change: Callable[[BrokerSettings, BrokerSettings], None] = lambda old, new: None
        self._revision = revision

    def apply(self, properties: Mapping[str, str]) -> None:
        """Change what may be changed while running; anything else is a ConfigError."""
        old, new = self.now, update(self.now, properties, live_only=True)
        self.now = new
        if new.permission != old.permission:
            self.permission.change(new.permission)
        self._revision.bump()
        self.on_change(old, new)
