"""How far behind a streaming query is, from what Spark reports of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from contrailmq.pipelines.streams import lag_of

pytestmark = pytest.mark.spark


def _progress(latest: Any, end: Any) -> dict[str, Any]:
    return {"sources": [{"latestOffset": latest, "endOffset": end}]}


def _offset(*offsets: int) -> str:
    queues = {str(number): offset for number, offset in enumerate(offsets)}
    return json.dumps({"v": 1, "to": {"orders": {"broker-a": queues}}})


def test_lag_is_what_the_queues_have_beyond_what_was_read() -> None:
    assert lag_of(_progress(_offset(10, 20), _offset(4, 20))) == 6
    assert lag_of(_progress(_offset(10, 20), json.dumps({"v": 1, "start": "earliest"}))) == 30


@pytest.mark.parametrize("unknown", [None, "null", "", "no JSON"])
def test_where_spark_knows_nothing_there_is_no_lag(unknown: Any) -> None:
    assert lag_of(_progress(unknown, _offset(1))) is None
    assert lag_of(_progress(_offset(1), unknown)) is None
    assert lag_of({"sources": []}) is None
