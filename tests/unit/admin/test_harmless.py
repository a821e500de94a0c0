"""What a stranger wrote into a message does nothing to the terminal that shows it."""

from __future__ import annotations

import asyncio
import io

import pytest

from contrailmq.admin.client import AdminClient
from contrailmq.admin.mqadmin.command import moment_text
from contrailmq.admin.output import Printer, cell_text, harmless, when
from contrailmq.errors import ClientError
from contrailmq.protocol.hosts import parse_host
from contrailmq.protocol.ids import offset_message_id
from contrailmq.testing.cluster import LocalCluster

ESCAPE = "a\x1b[2Jb\x07\x9b31m\u202ec"


@pytest.mark.parametrize("text", [ESCAPE, "tab\tline\nend", "plain"])
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    out = io.StringIO()
    printer = Printer(out)
    printer.say(text)
    printer.value({}, text)
    printer.pairs({"name": text})
    printer.rows([{"name": text, "list": [text]}])
    shown = out.getvalue()
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    assert harmless(ESCAPE) == "a\\x1b[2Jb\\x07\\x9b31m\\u202ec"
    assert cell_text([ESCAPE]) == harmless(ESCAPE)


@pytest.mark.parametrize("moment", [1 << 62, 253_402_300_800_000, (1 << 63) - 1])
def test_a_time_beyond_the_calendar_is_shown_as_a_number(moment: int) -> None:
    assert str(moment) in when(moment)
    assert str(moment) in moment_text(moment)


def test_a_message_id_is_no_order_to_connect_somewhere() -> None:
    async def main() -> None:
        async with LocalCluster() as cluster, AdminClient(cluster.name_servers) as admin:
            await asyncio.sleep(0)
            elsewhere = offset_message_id(parse_host("127.0.0.1:9"), 0)
            with pytest.raises(ClientError, match="no broker is registered"):
                await admin.messages.view(elsewhere)

    asyncio.run(main())
