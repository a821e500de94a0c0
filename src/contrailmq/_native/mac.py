"""HMAC-SHA1 from states that are kept per secret, and its comparison with a signature in base64.

This module is never compiled.  Compiled modules take the inline C functions of ``mac.pxd`` under
the same names; the plain build takes these.  What ``states`` returns is for ``matches`` of the same
build alone: in C the two states after the padded secret, here the secret itself.
"""

from __future__ import annotations

import base64
import hmac
from typing import Any

SIGNATURE_SIZE = 28  # of a digest in base64
STATES_SIZE = 40


def states(secret: bytes) -> bytes:
    """Return what is kept of a secret; as secret as the secret itself."""
    return secret


def matches(
    kept: Any, head: Any, head_size: int, data: Any, at: int, size: int, given: Any
) -> bool:
    """Whether ``given`` signs a head and a stretch of data; takes as long whatever differs."""
    content = bytes(head[:head_size]) + bytes(data[at : at + size])
    made = base64.b64encode(hmac.digest(bytes(kept), content, "sha1"))
    return hmac.compare_digest(made, bytes(given[:SIGNATURE_SIZE]))
