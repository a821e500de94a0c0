"""``contrail consume``: be a member of a consumer group, and print what comes."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from contrailmq.admin.options import (
    administrator,
    broker_fault,
    client_settings,
    name_servers,
    new_parser,
    run_command,
)
from contrailmq.admin.output import Printer
from contrailmq.admin.reading import Show, expression_of, reading_options
from contrailmq.client.consumer.push import PushConsumer
from contrailmq.errors import ClientError, NoRoute
from contrailmq.usage import whole

_EPILOG: Final = """\
examples:
  contrail consume orders -g billing                     goes on until Ctrl-C
  contrail consume orders -g billing -c 10 --wait 5      ten messages, or what comes in time
  contrail consume orders -g big --sql 'amount > 100'    filtered by the broker
  contrail consume orders -g check --from first --json

What is printed is acknowledged: the group goes on behind it. To look without taking, use
contrail tail. Exit code 1: fewer than -c messages came within --wait.
"""


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run one command line."""
    options = parser().parse_args(argv)
    printer = Printer(out, as_json=options.style == "json")
    return run_command(options, lambda: _consume(options, printer))


async def _consume(options: argparse.Namespace, printer: Printer) -> int:
    show = Show(printer, options)
    await _say_if_absent(options)
    consumer = PushConsumer(
        options.group,
        topics={options.topic: expression_of(options)},
        name_servers=name_servers(options),
        start_from=options.start,
        ordered=options.ordered,
        broadcast=options.broadcast,
        client=client_settings(options),
    )
    async with consumer:
        messages = aiter(consumer)
        while options.count is None or show.count < options.count:
            try:
                async with asyncio.timeout(options.wait):
                    message = await anext(messages)
            except TimeoutError:
                break
            except StopAsyncIteration:
                break
            show(message)
    if options.count is not None and show.count < options.count:
        raise ClientError(
            f"{show.count} of {options.count} messages came; what {options.topic} has: "
            f"contrail tail {options.topic}"
        )
    return 0


async def _say_if_absent(options: argparse.Namespace) -> None:
    """A topic that is not there may come; who misspelled it would wait without a word."""
    async with administrator(options) as admin:
        try:
            await admin.route(options.topic)
        except NoRoute:
            told = await broker_fault(admin, options) or (
                f"there is no topic {options.topic} yet, waiting for it; contrail topic create "
                f"{options.topic} makes it, contrail topic list shows what there is"
            )
            sys.stderr.write(f"contrail: {told}\n")


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    top = new_parser("consume", "Consume messages as a group.", _EPILOG, connects=True)
    top.add_argument("topic")
    top.add_argument("-g", "--group", required=True, help="the consumer group to join")
    top.add_argument("-c", "--count", type=whole(1), help="stop after so many")
    top.add_argument("--ordered", action="store_true", help="one message of a queue at a time")
    top.add_argument("--broadcast", action="store_true", help="every member gets everything")
    reading_options(top, start="last")
    return top
