"""The typed administration client: every call an operator's tool makes, in one object.

``async with AdminClient("127.0.0.1:9876") as admin: print(await admin.topics())``.  The calls
are in families, one module each; a family builds on those before it: name servers, topics, groups,
offsets, messages, brokers.
"""

from __future__ import annotations

from contrailmq.admin.broker_calls import BrokerCalls


class AdminClient(BrokerCalls):
    """All calls of administration; see the families for what there is."""
