"""The broker's configuration as administrators see it: one table of keys, changed while it runs.

One update is all or nothing: every key is judged before any is used.  Keys that need a restart are
refused, unless they keep their value; keys RocketMQ has and we do not use are remembered, shown
and said to mean nothing.  With a configuration file (``-c``) the change is written there too: the
lines of the changed keys are replaced, everything else of the file stays, the old content is
``.bak``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from contrailmq.broker.config.known_keys import KNOWN_KEYS
from contrailmq.broker.config.live_settings import LiveSettings
from contrailmq.broker.config.settings import BrokerSettings
from contrailmq.broker.tables.versions import VersionCounter
from contrailmq.errors import ConfigError, NoPermission
from contrailmq.ha.settings import HaSettings
from contrailmq.metrics.settings import MetricsSettings
from contrailmq.net.settings import ClientNetSettings, ServerSettings
from contrailmq.settings import (
    BLANKS,
    as_properties,
    is_guarded,
    keys_of,
    natural_lines,
    parse_properties,
    property_line,
    update,
    value_fault,
)
from contrailmq.store.settings import StoreSettings

BLACK_LIST: Final = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
REMEMBERED_MAX: Final = 1000
# What is so here and cannot be otherwise; exportConfigs of mqadmin asks for some of it.
FIXED: Final = {
    "coldDataFlowControlEnable": "false",
    "filterServerNums": "0",
    "useTLS": "false",
}
_COMPONENTS: Final[tuple[type[Any], ...]] = (
    BrokerSettings,
    StoreSettings,
    HaSettings,
    ServerSettings,
    ClientNetSettings,
    MetricsSettings,
)


class LiveStore(Protocol):
    """What this module needs of the store."""

    settings: StoreSettings

    def update(self, settings: StoreSettings) -> None:
        """Use other settings from now on."""
        ...


class Configuration:
    """All settings of a running broker. Owned by the loop."""

    def __init__(
        self,
        live: LiveSettings,
        store: LiveStore,
        *,
        ha: HaSettings,
        server: ServerSettings,
        client: ClientNetSettings,
        metrics: MetricsSettings | None = None,
        version: VersionCounter,
        path: str | None = None,
    ) -> None:
        self._live = live
        self._store = store
        self._ha = ha
        self._server = server
        self._client = client
        self._metrics = metrics or MetricsSettings()
        self._remembered: dict[str, str] = {}
        self.version = version
        self.path = path
        self.on_store: Callable[[StoreSettings], None] = lambda settings: None

    def properties(self) -> dict[str, str]:
        """Everything that is used, and what was set without being used, by key."""
        merged = self._remembered | FIXED
        for settings in (
            self._metrics,
            self._client,
            self._server,
            self._ha,
            self._store.settings,
            self._live.now,
        ):
            merged.update(as_properties(settings))
        return dict(sorted(merged.items()))

    def text(self) -> bytes:
        """The same as lines ``key=value``, from which every value is read as it is."""
        return "".join(property_line(*pair) for pair in self.properties().items()).encode()

    def update(self, properties: Mapping[str, str]) -> list[str]:
        """Change keys; returns those that mean nothing here. A refusal changes none."""
        if not BLACK_LIST.isdisjoint(properties):
            raise NoPermission("Can not update config in black list.")
        now = self.properties()
        changed = {
            name: value.strip(BLANKS)
            for name, value in properties.items()
            if now.get(name) != value.strip(BLANKS)
        }
        _check_changes(changed)
        fixed = sorted(name for name in changed if name in FIXED)
        if fixed:
            raise ConfigError(f"{', '.join(fixed)} cannot be changed: it is not served here")
        used = {name for component in _COMPONENTS for name in keys_of(component)}
        unknown = sorted(name for name in changed if name not in used and name not in KNOWN_KEYS)
        if unknown:
            raise ConfigError(f"unknown key {', '.join(unknown)}; is it spelled right?")
        ignored = sorted(name for name in properties if name not in used and name not in FIXED)
        if len(self._remembered) + len(ignored) > REMEMBERED_MAX:
            raise ConfigError(f"more than {REMEMBERED_MAX} keys without effect")
        for settings in (self._metrics, self._client, self._server, self._ha, self._live.now):
            update(settings, changed, live_only=True)  # all are judged before any is used
        store = update(self._store.settings, changed, live_only=True)
        if store != self._store.settings:
            self._store.update(store)
            self.on_store(store)
        if any(name in changed for name in keys_of(BrokerSettings)):
            self._live.apply(changed)
        self._remembered.update((name, changed[name]) for name in ignored if name in changed)
        if changed:
            self.version.bump()
        return ignored


def _check_changes(changed: Mapping[str, str]) -> None:
    guarded = sorted(name for name in changed if is_guarded(name))
    if guarded:
        raise NoPermission(
            f"{', '.join(guarded)} cannot be changed over the wire: paths, addresses, ports, "
            "classes and security are changed in the configuration file, with a restart"
        )
    for name, value in changed.items():
        fault = value_fault(name, value)
        if fault is not None:
            raise ConfigError(fault)


def rewritten(text: str, changes: Mapping[str, str]) -> str:
    """A properties text with other values for some keys; comments and order stay."""
    left = dict(changes)
    lines: list[str] = []
    for entry in _entries(text):
        name = next(iter(parse_properties(entry)), None)
        if name in changes:
            if name in left:
                lines.append(property_line(name, left.pop(name)).removesuffix("\n"))
        else:
            lines.append(entry)
    lines += [property_line(*pair).removesuffix("\n") for pair in left.items()]
    return "\n".join(lines) + "\n"


def _entries(text: str) -> Iterator[str]:
    """The lines of a text; one that goes on in the next stays together with it."""
    pending: list[str] = []
    for line in natural_lines(text):
        pending.append(line)
        is_comment = len(pending) == 1 and line.lstrip()[:1] in ("#", "!")
        if is_comment or (len(line) - len(line.rstrip("\\"))) % 2 == 0:
            yield "\n".join(pending)
            pending = []
    if pending:
        yield "\n".join(pending)
