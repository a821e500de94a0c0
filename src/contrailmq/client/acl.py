"""Signed requests: what a broker with an access control list wants to see.

The signature is over the values of all ext fields in the order of their names, then the body, so
it is computed last.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

from contrailmq.client.settings import Credentials
from contrailmq.protocol.command import Command

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"


def sign(command: Command, credentials: Credentials) -> None:
    """Add the account and the signature to a request; nothing may change after it."""
    fields = command.fields
    fields[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        fields[SECURITY_TOKEN] = credentials.security_token
    names = sorted((name for name in fields if name != SIGNATURE), key=_java_order)
    content = "".join(fields[name] for name in names).encode()
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1)
    digest.update(command.body)
    fields[SIGNATURE] = base64.b64encode(digest.digest()).decode()


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be")  # String.compareTo compares UTF-16 units
