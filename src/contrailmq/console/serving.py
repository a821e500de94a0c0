"""A console on a port of this process, beside whatever else runs in its loop."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from contrailmq.client.settings import ClientSettings
from contrailmq.console.settings import ConsoleSettings
from contrailmq.errors import ConfigError, UsageError
from contrailmq.lifecycle import Tasks
from contrailmq.usage import listen_fault

log = logging.getLogger(__name__)

BACKLOG: Final = 128
STOP_S: Final = 2.0
EXTRA: Final = ("starlette", "uvicorn", "jinja2")


def is_installed() -> bool:
    """Whether the packages of the extra ``console`` are there."""
    return all(importlib.util.find_spec(name) is not None for name in EXTRA)


def listen(settings: ConsoleSettings) -> socket.socket:
    """A bound socket; ConfigError says why there is none."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((settings.host, settings.port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        option = "--console-port" if error.errno == errno.EADDRINUSE else "--host"
        fault = listen_fault(error, host=settings.host, port=settings.port, option=option)
        raise ConfigError(f"console: {fault}") from error
    return found


@asynccontextmanager
async def serving(
    name_servers: str, settings: ConsoleSettings, *, client: ClientSettings
) -> AsyncIterator[str]:
    """Serve a console for the length of a block; gives its address, ``http://…``."""
    if not is_installed():
        raise UsageError("the console needs more packages: pip install 'contrailmq[console]'")
    import uvicorn

    from contrailmq.console.app import Console

    class Server(uvicorn.Server):
        """Leaves signals to the process it is a part of."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    listener = listen(settings)
    port = listener.getsockname()[1]
    with contextlib.closing(listener):
        async with Console(name_servers, settings, client=client).open() as app:
            config = uvicorn.Config(
                app, lifespan="off", ws="none", http="h11", access_log=False, server_header=False,
                log_config=None, log_level="warning", timeout_graceful_shutdown=1,
                timeout_keep_alive=30, limit_concurrency=200,
            )  # fmt: skip
            server, tasks = Server(config), Tasks()
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            shown = "127.0.0.1" if host == "0.0.0.0" else host
            try:
                tasks.start(server.serve(sockets=[listener]), name="console server")
                yield f"http://{shown}:{port}"
            finally:
                server.should_exit = True
                await tasks.aclose(drain_s=STOP_S)
