"""Who calls: what the metadata of a call says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contrailmq.grpc.call import Call
from contrailmq.grpc.codes import Code, Refusal

CLIENT_ID: Final = "x-mq-client-id"
LANGUAGE: Final = "x-mq-language"
VERSION: Final = "x-mq-client-version"
CLIENT_ID_LENGTH_MAX: Final = 1024


@dataclass(slots=True)
class Caller:
    """One call and the client that made it."""

    call: Call
    client_id: str

    @property
    def peer(self) -> str:
        """The client's address, ``ip:port``."""
        return self.call.peer

    @property
    def language(self) -> str:
        """What the client is written in; any name is taken."""
        return self.call.metadata.get(LANGUAGE, "")

    @property
    def version(self) -> str:
        """The version of its SDK."""
        return self.call.metadata.get(VERSION, "")


def caller_of(call: Call) -> Caller:
    """The caller of a call; refuses one without a client id."""
    client_id = call.metadata.get(CLIENT_ID, "")
    if not client_id.strip():
        raise Refusal(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
    if len(client_id) > CLIENT_ID_LENGTH_MAX:
        raise Refusal(
            Code.BAD_REQUEST,
            f"client id of {len(client_id)} characters, at most {CLIENT_ID_LENGTH_MAX}",
        )
    return Caller(call, client_id)
