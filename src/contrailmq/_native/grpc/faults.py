"""How HTTP/2 names what went wrong (RFC 9113, section 7)."""

from __future__ import annotations

from typing import Final

from contrailmq.errors import RemoteProtocolError

NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
INTERNAL_ERROR: Final = 2
FLOW_CONTROL_ERROR: Final = 3
STREAM_CLOSED: Final = 5
FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
COMPRESSION_ERROR: Final = 9
ENHANCE_YOUR_CALM: Final = 11


class Http2Fault(RemoteProtocolError):
    """The peer broke a rule of HTTP/2 or a bound of ours; its connection ends with ``code``."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
