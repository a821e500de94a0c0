"""Signed requests: what a broker with an access control list wants to see.

The signature is over the values of all ext fields in the order of their names, then the body, so
it is computed last.

Brokers of 4.9 never count the field that asks for a unique key, those of 5.x do for requests after
4.9.3.  A request with it therefore says that it is of that version, and is signed without it.
"""

from __future__ import annotations

from contrailmq.client.access import Credentials
from contrailmq.protocol.acl import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    UNIQUE_KEY_QUERY,
    signature,
)
from contrailmq.protocol.codes import RequestCode
from contrailmq.protocol.command import Command
from contrailmq.protocol.versions import V4_9_3


def sign(command: Command, credentials: Credentials) -> None:
    """Add the account and the signature to a request; nothing may change after it."""
    fields = command.fields
    fields[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN] = credentials.security_token
    unsigned = [SIGNATURE]
    if command.code == RequestCode.QUERY_MESSAGE and UNIQUE_KEY_QUERY in fields:
        command.version = min(command.version, V4_9_3)
        unsigned.append(UNIQUE_KEY_QUERY)
    fields[SIGNATURE] = signature(fields, command.body, credentials.secret_key, unsigned=unsigned)
