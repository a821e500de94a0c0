"""``replay``: a span of time of a topic again, elsewhere, at its own pace times N.

A message stored ``d`` after the beginning of the span is sent ``d / speed`` after the beginning of
the replay.  The span is cut into slices of a few seconds of replay; a slice is one Spark job, whose
tasks have the queues divided among them, in order, and wait for the moment of each message.  The
clocks of driver and executors should agree.

What is done is in a small file (``state``), with the end of the slice that is under way.  A second
run begins with that slice and asks the brokers, up to its end and whatever its own slices are,
which messages they have (see ``courier``).  A task that Spark runs a second time notices so by its
first messages and asks for all of its others too.  At the end the file is removed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from contrailmq.bulk.options import sink_options
from contrailmq.clock import Clock, SystemClock
from contrailmq.errors import ConfigError
from contrailmq.pipelines.courier import origin_key
from contrailmq.pipelines.places import Cluster, Place, read_messages
from contrailmq.pipelines.progress import Progress, Stop
from contrailmq.pipelines.report import Report
from contrailmq.pipelines.resend import COLUMNS, RESULT, Resend, in_time, nothing

SLICE_S: Final = 5.0
FIRST_LEAD_MAX_S: Final = 10.0
WARM_UP_ROWS: Final = 100
LEAD_S: Final = 0.5  # a slice's job is started so long before its first message is due


@dataclass(slots=True, kw_only=True)
class _State:
    """How far a replay is: done to before ``at_ms``; to before ``doubt_ms`` some may be sent."""

    identity: int
    topic: str
    to: str
    since_ms: int
    until_ms: int
    at_ms: int
    doubt_ms: int = 0


def run(
    spark: SparkSession,
    source: Place,
    target: Cluster,
    *,
    topic: str,
    to: str,
    state: Path,
    since_ms: int | None = None,
    until_ms: int | None = None,
    speed: float = 1.0,
    where: str | None = None,
    slice_s: float = SLICE_S,
    again: bool = False,
    progress: Progress | None = None,
    stop: Stop | None = None,
    clock: Clock | None = None,
) -> Report:
    """Replay what was stored from ``since_ms`` to before ``until_ms``; see the module.

    ``state`` of an unfinished replay wins over the span given; ``again`` begins anew.
    """
    if speed <= 0:
        raise ConfigError(f"speed {speed}: expected a number above 0")
    if to == topic and str(source) == str(target):
        raise ConfigError("a topic cannot be replayed into itself: it would never end")
    clock = clock or SystemClock()
    progress, stop = progress or Progress("replay"), stop or Stop()
    kept = None if again else _kept(state, topic, to)
    found = kept or _begin(spark, source, topic, to=to, span=(since_ms, until_ms), clock=clock)
    report = Report(pipeline="replay")
    if found is None:
        report.facts = {"from": topic, "into": to, "found": "nothing in that time"}
        return report
    _keep(state, found)
    player = _Player(spark, source, target, where=where, speed=speed)
    step_ms = max(1, int(slice_s * 1000 * speed))
    left, lead_s = _get_ready(player, found, clock)
    base_ms, wall_ms = found.at_ms, clock.now_ms() + int(lead_s * 1000)  # here the pace begins
    progress.add(0, lag=left)
    late_ms, there = 0, 0
    while found.at_ms < found.until_ms and not stop.is_requested:
        due_s = (wall_ms + (found.at_ms - base_ms) / speed - clock.now_ms()) / 1000
        if stop.wait(max(0.0, due_s - lead_s)):
            break
        lead_s = LEAD_S
        end_ms = min(found.at_ms + step_ms, found.until_ms)
        is_doubtful = found.at_ms < found.doubt_ms
        if end_ms > found.doubt_ms:
            found.doubt_ms = end_ms
            _keep(state, found)
        outcome = player.play(found, end_ms, pace=(base_ms, wall_ms), check=is_doubtful)
        found.at_ms = end_ms
        _keep(state, found)
        sent, known, size, late = outcome
        there += known
        late_ms = max(late_ms, late)
        left = max(left - sent - known, 0)
        progress.add(sent, size, lag=left)
    report.is_stopped = found.at_ms < found.until_ms
    if not report.is_stopped:
        state.unlink(missing_ok=True)
    progress.finish()
    report.rows, report.size, report.seconds = progress.rows, progress.size, progress.seconds
    report.facts = {
        "from": topic, "into": to, "speed": speed, "there_before": there, "latest_ms": late_ms,
    }  # fmt: skip
    return report


def _get_ready(player: _Player, state: _State, clock: Clock) -> tuple[int, float]:
    """How many messages are left, and how long before its first message the first slice starts.

    Its job takes about as long to start as Spark needs for getting ready.
    """
    begun_ms = clock.monotonic_ms()
    left = player.count(state)
    player.warm_up()
    taken_s = (clock.monotonic_ms() - begun_ms) / 1000
    return left, min(max(LEAD_S, taken_s), FIRST_LEAD_MAX_S)


class _Player:
    """Plays slices."""

    def __init__(
        self, spark: SparkSession, source: Place, target: Cluster, *, where: str | None,
        speed: float,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._source = source
        self._where = where
        self._speed = speed
        self._options = sink_options({**target.options(), "group": "replay"})

    def count(self, state: _State) -> int:
        """How many messages are left."""
        return int(self._frame(state, state.until_ms).count())

    def warm_up(self) -> None:
        """Let Spark start what sends: seconds the first time, by which all would be late."""
        self._spark.range(WARM_UP_ROWS).mapInArrow(nothing, RESULT).collect()

    def play(
        self, state: _State, end_ms: int, *, pace: tuple[int, int], check: bool
    ) -> tuple[int, int, int, int]:
        """Send a slice at its pace: how many, how many were there, bytes, how late at most."""
        frame = self._frame(state, end_ms).withColumn(
            "unique_key", origin_key(f"replay/{state.identity}/{state.to}")
        )
        context = getattr(self._spark, "sparkContext", None)  # a remote session has none
        ordered = in_time(frame, None if context is None else max(1, context.defaultParallelism))
        base_ms, wall_ms = pace
        send = Resend(
            options=self._options, topic=state.to, speed=self._speed, base_ms=base_ms,
            wall_ms=wall_ms, check=check,
        )  # fmt: skip
        rows = ordered.mapInArrow(send, RESULT).collect()
        return (
            sum(row.sent for row in rows),
            sum(row.there for row in rows),
            sum(row["size"] for row in rows),
            max((row.late_ms for row in rows), default=0),
        )

    def _frame(self, state: _State, end_ms: int) -> Any:
        frame = read_messages(
            self._spark, self._source, topics=[state.topic], columns=COLUMNS,
            since_ms=state.at_ms, until_ms=end_ms,
        )  # fmt: skip
        return frame.where(self._where) if self._where else frame


def _begin(
    spark: SparkSession, source: Place, topic: str, *, to: str,
    span: tuple[int | None, int | None], clock: Clock,
) -> _State | None:  # fmt: skip
    """Look what there is in a span; None when there is nothing."""
    until_ms = span[1] if span[1] is not None else clock.now_ms()
    frame = read_messages(
        spark, source, topics=[topic], columns=["store_time"], since_ms=span[0], until_ms=until_ms
    )
    row = frame.select(F.unix_millis(F.min("store_time")), F.unix_millis(F.max("store_time")))
    first_ms, last_ms = row.collect()[0]
    if first_ms is None:
        return None
    return _State(
        identity=clock.now_ms(), topic=topic, to=to, since_ms=first_ms, until_ms=last_ms + 1,
        at_ms=first_ms,
    )  # fmt: skip


def _kept(path: Path, topic: str, to: str) -> _State | None:
    try:
        state = _State(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise ConfigError(
            f"{path} is not the state of a replay; remove it, or name another"
        ) from None
    if (state.topic, state.to) != (topic, to):
        raise ConfigError(
            f"{path} is about {state.topic} into {state.to}, which is not finished;"
            " name another file, or start from the beginning (--again)"
        )
    return state


def _keep(path: Path, state: _State) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(asdict(state)))
    beside.replace(path)
