"""Bodies of users and policies (5.3 on)."""

from __future__ import annotations

from contrailmq.protocol.bodies.body import Body


class UserInfo(Body):
    """A user; ``user_type`` is Super or Normal, ``user_status`` enable or disable."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None


class PolicyEntry(Body):
    """What may or may not be done with one resource."""

    actions: list[str] | None = None
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | None = None


class Policy(Body):
    """Entries of one kind, Custom or Default."""

    entries: list[PolicyEntry] | None = None
    policy_type: str | None = None


class AclInfo(Body):
    """The policies of one subject, such as ``User:name``."""

    policies: list[Policy] | None = None
    subject: str | None = None
