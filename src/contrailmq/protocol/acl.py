"""The signature of a request under ACL 1.0 and the authentication of 5.3.

Signed are the values of all ext fields in the order of their names (as Java orders text, by UTF-16
units), but for the signature itself, and then the body.  So it is made last, when nothing of the
request changes any more.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Final

from contrailmq.protocol.versions import V4_9_3

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


def signature(
    fields: Mapping[str, str],
    body: bytes | bytearray | memoryview,
    secret_key: str,
    *,
    unsigned: Collection[str] = (SIGNATURE,),
) -> str:
    """The signature over ``fields`` (the access key among them) and ``body``, as base64."""
    names = sorted((name for name in fields if name not in unsigned), key=_java_order)
    content = "".join(fields[name] for name in names).encode("utf-8", "replace")
    digest = hmac.new(secret_key.encode("utf-8", "replace"), content, hashlib.sha1)
    digest.update(body)
    return base64.b64encode(digest.digest()).decode("ascii")


def signed(
    fields: Mapping[str, str],
    body: bytes | bytearray | memoryview,
    *,
    access_key: str,
    secret_key: str,
    security_token: str | None = None,
) -> dict[str, str]:
    """``fields`` with the account and the signature."""
    out = {name: value for name, value in fields.items() if name != SIGNATURE}
    out[ACCESS_KEY] = access_key
    if security_token is not None:
        out[SECURITY_TOKEN] = security_token
    out[SIGNATURE] = signature(out, body, secret_key)
    return out


def is_signed_by(
    fields: Mapping[str, str],
    body: bytes | bytearray | memoryview,
    secret_key: str,
    *,
    version: int,
) -> bool:
    """Whether a received request carries the signature of the holder of ``secret_key``.

    Clients up to 4.9.3 add one field after signing; either way of counting it is taken.
    """
    given = fields.get(SIGNATURE)
    if given is None:
        return False
    sent = given.encode("utf-8", "replace")
    with_field, without = [SIGNATURE], [SIGNATURE, UNIQUE_KEY_QUERY]
    ways = [with_field]
    if UNIQUE_KEY_QUERY in fields:  # brokers of 4.9 never count it, those of 5.x after 4.9.3
        ways = [without, with_field] if version <= V4_9_3 else [with_field, without]
    return any(
        hmac.compare_digest(signature(fields, body, secret_key, unsigned=way).encode(), sent)
        for way in ways
    )


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
