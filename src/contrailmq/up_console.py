"""The console that ``contrail up`` opens beside its cluster, where the extra is installed."""

from __future__ import annotations

import argparse
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from contrailmq.client.access import Tls
from contrailmq.client.settings import ClientSettings
from contrailmq.console.serving import is_installed, serving
from contrailmq.console.settings import DEFAULT_PORT, ConsoleSettings
from contrailmq.errors import ConfigError
from contrailmq.net.tls_settings import TlsSettings, own_calls
from contrailmq.usage import port

log = logging.getLogger(__name__)

OPTION: Final = "--console-port"


def add_console_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``contrail up`` about its console."""
    parser.add_argument(
        OPTION,
        type=port,
        metavar="PORT",
        help=f"the console's port on 127.0.0.1, {DEFAULT_PORT} where contrailmq[console] is "
        "installed; 0 takes a free one (with --namesrv-port 0 there is none unless this is given)",
    )
    parser.add_argument("--no-console", action="store_true", help="open no console")


@asynccontextmanager
async def console_beside(
    options: argparse.Namespace, told: str, *, tls: TlsSettings, acl: bool
) -> AsyncIterator[str]:
    """Open the console for the length of a block; gives a line about it, or "".

    ``told`` begins with the address of the name server, ``name server 127.0.0.1:9876, …``.
    The default port may be taken: that is said once, and the cluster runs without a console. A
    port that was asked for and is taken is an error.
    """
    namesrv = told.split(",", maxsplit=1)[0].removeprefix("name server ")
    is_asked = options.console_port is not None
    is_wanted = is_asked or (options.namesrv_port != 0 and is_installed())
    if options.no_console or not is_wanted:
        yield ""
        return
    settings = ConsoleSettings(
        port=options.console_port if is_asked else DEFAULT_PORT, login=True if acl else None
    )
    async with AsyncExitStack() as stack:
        line = ""
        try:
            client = ClientSettings(tls=_client_tls(tls))
            address = await stack.enter_async_context(serving(namesrv, settings, client=client))
            line = f"console: {address}\n"
        except ConfigError as error:
            if is_asked:
                raise
            log.warning("no console: %s; choose another port with %s", error, OPTION)
        yield line


def _client_tls(settings: TlsSettings) -> Tls | None:
    """How the console speaks to its cluster: as the broker does to its name server."""
    own = own_calls(settings)
    if not own.enable:
        return None
    is_checked = bool(own.auth_server or own.client_trust) and not own.test_mode
    return Tls(
        ca=own.client_trust or None,
        cert=own.client_cert or None,
        key=own.client_key or None,
        key_password=own.client_key_password or None,
        verify="none" if not is_checked else "full" if own.verify_host else "chain",
    )
