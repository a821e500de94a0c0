"""Bodies of accounts (ACL 1.0), and of users and policies (5.3 on)."""

from __future__ import annotations

from contrailmq.protocol.bodies.body import Body


class PlainAccessConfig(Body):
    """An account of ACL 1.0."""

    access_key: str | None = None
    admin: bool = False
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] = []
    secret_key: str | None = None
    topic_perms: list[str] = []
    white_remote_address: str | None = None


class ClusterAclConfig(Body):
    """Code 54's answer: all accounts of a broker (AclConfig)."""

    global_white_addrs: list[str] = []
    plain_access_configs: list[PlainAccessConfig] = []


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
