"""Options that commands share: where the cluster is, who asks."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from contrailmq.admin.client import AdminClient
from contrailmq.client.access import NAME_SERVERS_VARIABLE, VERIFY_WORDS, Credentials, Tls
from contrailmq.client.settings import ClientSettings
from contrailmq.errors import ClientError, NetworkError, NoRoute, ServiceNotAvailable, UsageError
from contrailmq.net.loop import run
from contrailmq.usage import CommandParser, positive

DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"
HINT: Final = "(contrail up starts a cluster here; -n or NAMESRV_ADDR names another)"
EXIT_CODES: Final = "exit codes: 0 done, 1 failed or not found, 2 wrong usage, 130 interrupted"


def connection_options(*more_names: str) -> argparse.ArgumentParser:
    """A parent parser with what every command that asks a cluster takes."""
    parent = argparse.ArgumentParser(add_help=False)
    group = parent.add_argument_group("connection")
    group.add_argument(
        "-n", "--namesrv", *more_names, dest="namesrv", metavar="ADDR",
        help=f"name servers, a:9876;b:9876 (else NAMESRV_ADDR, else {DEFAULT_NAME_SERVER})",
    )  # fmt: skip
    group.add_argument("--access-key", metavar="KEY", help="account, where brokers demand one")
    group.add_argument(
        "--secret-key", metavar="KEY", help="its secret (else the variable CONTRAIL_SECRET_KEY)"
    )
    group.add_argument("--tls", action="store_true", help="speak TLS to all servers")
    group.add_argument(
        "--tls-ca", metavar="FILE",
        help="authorities to trust (else CONTRAIL_TLS_CA, else those of the system)",
    )  # fmt: skip
    group.add_argument("--tls-cert", metavar="FILE", help="the certificate to show")
    group.add_argument("--tls-key", metavar="FILE", help="its private key")
    group.add_argument(
        "--tls-verify", choices=VERIFY_WORDS,
        help="full (chain and host name), chain or none",
    )  # fmt: skip
    group.add_argument(
        "--timeout",
        type=positive,
        default=5.0,
        metavar="S",
        help="seconds to wait for an answer (5)",
    )
    return parent


def json_option(parser: argparse.ArgumentParser) -> None:
    """``--json``, the same words everywhere."""
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def name_servers(options: argparse.Namespace) -> str:
    """Where the cluster is: the option, the variable, this machine."""
    given: str | None = options.namesrv
    return given or os.environ.get(NAME_SERVERS_VARIABLE) or DEFAULT_NAME_SERVER


def client_settings(options: argparse.Namespace) -> ClientSettings:
    """How to present ourselves to brokers."""
    tls = tls_of(options)
    if options.access_key is None:
        return ClientSettings(tls=tls)
    secret = options.secret_key or os.environ.get("CONTRAIL_SECRET_KEY", "")
    if not secret:
        raise UsageError("--access-key needs --secret-key, or the variable CONTRAIL_SECRET_KEY")
    credentials = Credentials(access_key=options.access_key, secret_key=secret)
    return ClientSettings(credentials=credentials, tls=tls)


def tls_of(options: argparse.Namespace) -> Tls | None:
    """How connections are protected; None: they are not. Any of the options asks for TLS."""
    ca = options.tls_ca or os.environ.get("CONTRAIL_TLS_CA") or None
    given = (options.tls, ca, options.tls_cert, options.tls_key, options.tls_verify)
    if not any(given):
        return None
    return Tls(
        ca=ca, cert=options.tls_cert, key=options.tls_key, verify=options.tls_verify or "full"
    )


def administrator(options: argparse.Namespace) -> AdminClient:
    """The administration client a command line asks for."""
    return AdminClient(
        name_servers(options), settings=client_settings(options), timeout_s=options.timeout
    )


async def broker_fault(admin: AdminClient, options: argparse.Namespace) -> str | None:
    """What to say where no broker is; None when there is one."""
    if await admin.brokers.members():
        return None
    names = name_servers(options)
    return (
        f"no broker has registered with {names}; start one with contrail broker -n '{names}', "
        "or name another cluster's name servers with -n"
    )


def run_command(options: argparse.Namespace, work: Callable[[], Awaitable[int]]) -> int:
    """Run a command on a loop; a cluster that cannot be reached gets a hint."""

    async def guarded() -> int:
        try:
            return await work()
        except NoRoute as error:  # of no topic at all, where there is no broker
            async with administrator(options) as admin:
                told = await broker_fault(admin, options)
            if told is None:
                told = f"{error}; contrail topic list shows what there is"
            raise NoRoute(told) from error

    # What goes wrong is said once, by the command; the library's log is for programs.
    logging.getLogger("contrailmq").addHandler(logging.NullHandler())
    try:
        return run(guarded())
    except ServiceNotAvailable as error:
        raise ClientError(f"{error}; contrail doctor looks for the cause") from error
    except NetworkError as error:
        raise ClientError(f"{error} {HINT}") from error


def with_admin(options: argparse.Namespace, work: Callable[[AdminClient], Awaitable[int]]) -> int:
    """Run a command that needs the administration client."""

    async def connected() -> int:
        async with administrator(options) as admin:
            return await work(admin)

    return run_command(options, connected)


def new_parser(
    prog: str,
    description: str,
    epilog: str = "",
    *,
    connects: bool = False,
    rest: str | None = None,
) -> argparse.ArgumentParser:
    """A parser whose examples keep their lines; the exit codes come last.

    ``rest`` is the argument that words behind options belong to.
    """
    parser = CommandParser(
        parents=[connection_options()] if connects else [],
        prog=f"contrail {prog}",
        description=description,
        epilog=f"{epilog.rstrip()}\n\n{EXIT_CODES}".lstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.rest = rest
    return parser


def sub_command(
    commands: Any, name: str, act: Any, text: str, *, parents: list[argparse.ArgumentParser]
) -> argparse.ArgumentParser:
    """One sub-command; ``act`` becomes ``options.act``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text[:1].upper() + text[1:] + ".", parents=parents
    )
    parser.set_defaults(act=act)
    return parser


def confirmed(options: argparse.Namespace, question: str, *, stdin: Any) -> bool:
    """Whether ``--yes`` was given or a person at a terminal says so; raises without a terminal."""
    if options.yes:
        return True
    if not stdin.isatty():
        raise UsageError(f"{question} This is not a terminal; pass --yes to confirm.")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
