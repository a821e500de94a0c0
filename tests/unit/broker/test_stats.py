"""Windows over running sums."""

from __future__ import annotations

from contrailmq.broker.services.stats import SAMPLE_INTERVAL_MS, Stats
from contrailmq.broker.tables.counters import Counters


def _stats() -> tuple[Counters, Stats]:
    counters = Counters()
    stats = Stats(counters, cluster="C")
    stats.sample(0)
    return counters, stats


def test_the_minute_holds_six_intervals() -> None:
    counters, stats = _stats()
    for tick in range(1, 13):
        counters.put("T", 0, count=10, size=1000)
        stats.sample(tick * SAMPLE_INTERVAL_MS)
    windows = stats.find("TOPIC_PUT_NUMS", "T")
    assert windows is not None
    assert windows.minute.sum == 60
    assert windows.minute.tps == 1.0
    size = stats.find("TOPIC_PUT_SIZE", "T")
    assert size is not None
    assert size.minute.average == 100.0


def test_a_burst_leaves_the_minute_and_stays_in_the_hour_and_the_day() -> None:
    counters, stats = _stats()
    counters.put("T", 1, count=500, size=5000)
    for tick in range(1, 361):
        stats.sample(tick * SAMPLE_INTERVAL_MS)
    windows = stats.find("QUEUE_PUT_NUMS", "T@1")
    assert windows is not None
    assert (windows.minute.sum, windows.hour.sum, windows.day.sum) == (0, 500, 500)
    for tick in range(361, 8642):
        stats.sample(tick * SAMPLE_INTERVAL_MS)
    assert stats.find("QUEUE_PUT_NUMS", "T@1") is not None
    after = stats.find("QUEUE_PUT_NUMS", "T@1")
    assert after is not None
    assert (after.hour.sum, after.day.sum) == (0, 500)


def test_reads_and_send_backs_are_counted_by_group() -> None:
    counters, stats = _stats()
    counters.got("G", "T", 2, count=32, size=3200)
    counters.sent_back("G", "T")
    stats.sample(SAMPLE_INTERVAL_MS)
    assert stats.tps("GROUP_GET_NUMS", "T@G") == 3.2
    back = stats.find("SNDBCK_PUT_NUMS", "T@G")
    assert back is not None
    assert back.minute.sum == 1


def test_the_latency_of_reads_is_what_they_waited_for_the_disk() -> None:
    counters, stats = _stats()
    counters.got("G", "T", 2, count=32, size=3200)
    for _ in range(4):  # two of them wait for the disk, two find all in memory
        counters.got("H", "T", 2, count=32, size=3200)
    counters.waited("H", "T", 2, milliseconds=30)
    counters.waited("H", "T", 2, milliseconds=10)
    stats.sample(SAMPLE_INTERVAL_MS)
    memory, disk = (stats.find("GROUP_GET_LATENCY", f"2@T@{group}") for group in "GH")
    assert memory is not None
    assert memory.minute.sum == 0
    assert disk is not None
    assert (disk.minute.sum, disk.minute.average) == (40, 10.0)
    given = stats.find("GROUP_GET_NUMS", "T@H")
    assert given is not None
    assert (given.minute.sum, given.minute.average) == (128, 32.0)  # of one pull
    assert counters.wait_ms_max == 30
    assert stats.find("GROUP_GET_LATENCY", "1@T@G") is None
    counters.forget_group("H")
    counters.forget_topic("T")
    assert counters.waited_by_queue() == {}


def test_the_brokers_own_topics_can_be_left_out() -> None:
    counters, stats = _stats()
    counters.put("T", 0, count=5, size=500)
    counters.put("SCHEDULE_TOPIC_XXXX", 3, count=7, size=700)
    counters.got("G", "T", 0, count=4, size=400)
    counters.got("G", "rmq_sys_TRACE", 0, count=2, size=200)
    stats.sample(SAMPLE_INTERVAL_MS)
    sums = {}
    for kind in ("PUT", "GET"):
        for name in (f"BROKER_{kind}_NUMS", f"BROKER_{kind}_NUMS_WITHOUT_SYSTEM_TOPIC"):
            found = stats.find(name, "C")
            assert found is not None, name
            sums[name] = found.minute.sum
    assert list(sums.values()) == [12, 5, 6, 4]
    counters.forget_topic("T")
    assert counters.of_users() == (5, 4), "totals do not go back"


def test_dead_letters_are_counted_however_they_came() -> None:
    counters, stats = _stats()
    counters.put("%DLQ%G", 0, count=3, size=300)
    counters.put("T", 0, count=5, size=500)
    stats.sample(SAMPLE_INTERVAL_MS)
    dead = stats.find("DLQ_PUT_NUMS", "%DLQ%G@G")
    assert dead is not None
    assert (dead.minute.sum, dead.minute.tps) == (3, 0.3)
    assert stats.find("DLQ_PUT_NUMS", "T@T") is None


def test_what_was_never_counted_is_none() -> None:
    _, stats = _stats()
    assert stats.find("TOPIC_PUT_NUMS", "unknown") is None
    assert stats.find("NO_SUCH_NAME", "C") is None
    assert stats.find("BROKER_PUT_NUMS", "C") is not None


def test_a_deleted_topic_leaves_nothing_behind_once_its_windows_have_passed() -> None:
    counters, stats = _stats()
    counters.put("T", 0, count=1, size=1)
    stats.sample(SAMPLE_INTERVAL_MS)
    counters.forget_topic("T")
    stats.sample(2 * SAMPLE_INTERVAL_MS)
    assert stats.find("TOPIC_PUT_NUMS", "T") is None


def test_the_rate_of_a_new_figure_counts_from_its_first_interval() -> None:
    counters, stats = _stats()
    for tick in range(1, 7):
        stats.sample(tick * SAMPLE_INTERVAL_MS)
    counters.put("T", 0, count=30, size=1)
    stats.sample(7 * SAMPLE_INTERVAL_MS)
    assert stats.tps("TOPIC_PUT_NUMS", "T") == 3.0
    stats.sample(8 * SAMPLE_INTERVAL_MS)
    assert stats.tps("TOPIC_PUT_NUMS", "T") == 1.5
