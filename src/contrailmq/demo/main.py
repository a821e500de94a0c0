"""``contrail demo``: a cluster, a shop, a lake and a summary, in a folder that is gone afterwards.

Everything but Spark's Java runs in this process.  Exit codes: 0 done, 1 something did not happen as
it should, 130 interrupted, 143 terminated; in every case the folder and all processes are gone.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TextIO

from contrailmq.client.consumer import settling
from contrailmq.demo.failover import FailoverFacts, kill_a_primary, why_no_failover
from contrailmq.demo.lake import Lake, LakeFacts, why_not
from contrailmq.demo.screen import Screen
from contrailmq.demo.shop import BIG, BILLING, ORDERS, PROPERTIES, TOTALS, Facts, Shop
from contrailmq.up import local_cluster
from contrailmq.usage import CommandParser, whole
from contrailmq.version import VERSION

ORDER_COUNT: Final = 20_000
ORDER_COUNT_MIN: Final = 100
TERMINATED: Final = 143


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run the tour."""
    options = parser().parse_args(argv)
    screen = Screen(out)
    quiet = logging.getLogger(settling.__name__)  # the tour's dead letter is on the screen
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with tempfile.TemporaryDirectory(prefix="contrail-demo-") as directory:
            asyncio.run(_tour(options, Path(directory), screen))
    except asyncio.CancelledError:
        return TERMINATED
    finally:
        quiet.setLevel(level)
    return 0


async def _tour(options: argparse.Namespace, directory: Path, screen: Screen) -> None:
    began_ms = screen.clock.monotonic_ms()
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    screen.title(f"ContrailMQ {VERSION}: a tour")
    async with local_cluster(str(directory), PROPERTIES) as cluster:
        took_ms = screen.clock.monotonic_ms() - began_ms
        screen.good(
            f"name server {cluster.namesrv_address} and broker {cluster.broker.address} "
            f"in this process, ready after {took_ms} ms"
        )
        shop = Shop(cluster.namesrv_address, screen, count=options.orders, seed=options.seed)
        async with shop:
            screen.title(f"{options.orders:,} orders")
            await shop.trade()
            await shop.bury()
            screen.title("delays and transactions")
            await shop.remind()
            await shop.transfer()
            lake = await _lake(
                options, shop, screen, name_servers=cluster.namesrv_address, directory=directory
            )
        failover = await _failover(directory, screen)
        took_s = (screen.clock.monotonic_ms() - began_ms) / 1000
        _summary(screen, shop.facts, lake, failover=failover, took_s=took_s)


async def _failover(directory: Path, screen: Screen) -> FailoverFacts | None:
    """The replicated half; None where it cannot run."""
    screen.title("kill -9 of a replicated primary")
    reason = why_no_failover()
    if reason is not None:
        screen.note(reason)
        return None
    screen.wait("starting a replicated cluster …")
    return await kill_a_primary(directory / "replicated", screen)


async def _lake(
    options: argparse.Namespace, shop: Shop, screen: Screen, *, name_servers: str, directory: Path
) -> LakeFacts | None:
    """The Spark half, where Spark can run; None when it cannot or shall not."""
    screen.title("the same topics in Spark")
    reason = "left out, as asked" if options.no_spark else await asyncio.to_thread(why_not)
    if reason is not None:
        screen.note(reason)
        return None
    lake, loop = Lake(name_servers, directory, screen), asyncio.get_running_loop()
    # One thread for all of Spark: a session is active in the thread that made it, and writers ask
    # the active session for their data source.
    with ThreadPoolExecutor(1, thread_name_prefix="spark") as thread:
        try:
            screen.wait("starting Spark …")
            took_s = await loop.run_in_executor(thread, lake.start)
            screen.good(f"Spark started in {took_s:.1f} s; its log is out of the way")
            redriven = await loop.run_in_executor(thread, lake.all_of_it, options.orders)
            await shop.until_billed(options.orders - shop.facts.dead + redriven)
            screen.good("the repaired order was billed like any other")
        finally:
            # Not in the one thread: that may be waiting for Spark, and this is what ends the wait.
            await asyncio.shield(asyncio.to_thread(lake.stop))
    return lake.facts


def _summary(
    screen: Screen,
    facts: Facts,
    lake: LakeFacts | None,
    *,
    failover: FailoverFacts | None,
    took_s: float,
) -> None:
    screen.title("what happened")
    big = f"{len(facts.big):,} of {facts.big_expected:,} through the SQL filter"
    rows = [
        ("orders sent", f"{facts.sent:,} in {facts.send_s:.2f} s, "
                        f"{facts.sent / facts.send_s:,.0f} a second"),
        ("orders billed", f"{len(facts.billed):,} by two members of {BILLING}; those that "
                          f"needed no retry within {facts.bill_s:.2f} s of the first send"),
        ("deliveries retried", f"{facts.retried:,}, a second apart"),
        ("dead letters", f"{facts.dead}"),
        (f"orders over {BIG:.0f}", big),
        ("delayed message", f"{facts.late_ms:+d} ms from its second"),
        ("transactions", f"{len(facts.committed)} committed, {len(facts.rolled_back)} rolled back"),
    ]  # fmt: skip
    if lake is not None:
        country, orders, total = lake.totals[0]
        rows += [
            ("rows in Parquet", f"{lake.rows:,} in {lake.batches} micro-batches and "
                                f"{lake.stream_s:.1f} s, Spark's first steps among them; "
                                f"the last ran at {lake.last_rate:,.0f} a second"),
            ("totals in a topic", f"{len(lake.totals)} messages in {TOTALS}; "
                                  f"first {country}: {orders:,} orders, {total:,.2f}"),
            ("dead letters re-driven", f"{lake.redriven} to {ORDERS}, and billed"),
        ]  # fmt: skip
    if failover is not None:
        text = f"{failover.acknowledged:,} acknowledged, {failover.lost} lost; sends went on after "
        rows.append(("kill of a primary", f"{text}{failover.again_s:.2f} s"))
    screen.table(rows)
    _next_steps(screen, took_s=took_s)


def _next_steps(screen: Screen, *, took_s: float) -> None:
    screen.title("where to look next")
    screen.table(
        [
            *_way_to_the_command(),
            ("contrail up", "a cluster of your own on 127.0.0.1:9876; --replicas 2: replicated"),
            ("contrail send orders hello", "the first message; contrail tail orders shows it"),
            ("contrail doctor", "finds what is wrong, and the remedy"),
            (
                "contrail sql",
                "Spark SQL over topics; contrail pipeline archives, re-drives, replays",
            ),
            ("examples/", "producers, consumers, transactions, tests"),
            ("docs/quickstart.md", "the same steps by hand"),
        ]
    )
    screen.gap()
    screen.note(f"{took_s:.0f} s; the folder and all processes of the tour are gone.")


def _way_to_the_command() -> list[tuple[str, str]]:
    """How to get at ``contrail``, for who came here by ``make demo`` and has no such command."""
    beside = Path(sys.executable).with_name("activate")
    if shutil.which("contrail") is not None or not beside.exists():
        return []
    return [(f". {os.path.relpath(beside)}", "first, in each terminal: then there is contrail")]


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    found = CommandParser(
        prog="contrail demo",
        description="A tour: cluster, clients and a Spark pipeline, in two minutes.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted",
    )
    found.add_argument(
        "--orders",
        type=whole(ORDER_COUNT_MIN),
        default=ORDER_COUNT,
        metavar="N",
        help=f"orders ({ORDER_COUNT})",
    )
    found.add_argument("--no-spark", action="store_true", help="leave the Spark part out")
    found.add_argument("--seed", type=whole(0), default=7, help="another story with another number")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
