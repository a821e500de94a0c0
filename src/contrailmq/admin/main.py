"""``contrail admin <name>``: the commands of mqadmin for fingers and scripts that know them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from contrailmq.admin.mqadmin import (
    accounts,
    brokers,
    controllers,
    exports,
    groups,
    messages,
    topics,
    users,
)
from contrailmq.admin.mqadmin.command import AdminCommand
from contrailmq.admin.options import connection_options, new_parser, with_admin

COMMANDS: Final[dict[str, AdminCommand]] = {
    **topics.COMMANDS,
    **groups.COMMANDS,
    **messages.COMMANDS,
    **brokers.COMMANDS,
    **exports.COMMANDS,
    **accounts.COMMANDS,
    **users.COMMANDS,
    **controllers.COMMANDS,
}
_EPILOG: Final = """\
examples:
  contrail admin topicList
  contrail admin updateTopic -c DefaultCluster -t orders -r 8 -w 8
  contrail admin consumerProgress -g billing
  contrail admin help                          the list of commands
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    stream = sys.stdout if out is None else out
    words = list(argv)
    if words[:1] == ["help"]:
        words = [words[1], "--help"] if len(words) > 1 else []
    if not words:
        stream.write(listing())
        return 0
    options = parser().parse_args(words)
    command = COMMANDS[options.command]

    async def run(admin: object) -> int:
        return await command.act(admin, options, stream) or 0  # type: ignore[arg-type]

    return with_admin(options, run)


def listing() -> str:
    """All commands with what they do, as mqadmin lists its own."""
    width = max(map(len, COMMANDS))
    lines = [f"   {name:<{width}}  {command.summary}" for name, command in sorted(COMMANDS.items())]
    return "The commands of mqadmin that are served here:\n" + "\n".join(lines) + "\n"


def parser() -> argparse.ArgumentParser:
    """The command's options: those of mqadmin, by letter and by name."""
    top = new_parser("admin", "The commands of mqadmin under their own names.", _EPILOG)
    commands = top.add_subparsers(required=True, metavar="NAME", dest="command")
    connection = connection_options("--namesrvAddr")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name, help=command.summary, description=command.summary, parents=[connection]
        )
        for option in command.options:
            if option.switch:
                sub.add_argument(
                    f"-{option.letter}", f"--{option.name}",
                    dest=option.name, action="store_true", help=option.help,
                )  # fmt: skip
                continue
            sub.add_argument(
                f"-{option.letter}", f"--{option.name}", dest=option.name,
                required=option.required, default=option.default, metavar="ARG", help=option.help,
                type=option.kind or str,
            )  # fmt: skip
    return top


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
