"""Headers of access control: ACL 1.0 (4.9 to 5.2) and users and policies (5.3 on)."""

from __future__ import annotations

from contrailmq.protocol.header import Header, wire


class CreateAccessConfigRequest(Header, frozen=True, kw_only=True):
    """RequestCode 50: create or change an account; the perms are lists with commas."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequest(Header, frozen=True, kw_only=True):
    """RequestCode 51: remove an account."""

    access_key: str


class UpdateGlobalWhiteAddrsConfigRequest(Header, frozen=True, kw_only=True):
    """RequestCode 53: addresses that need no account."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class GetBrokerAclConfigResponse(Header, frozen=True, kw_only=True):
    """RequestCode 52's answer; both versions are JSON text."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UserRequest(Header, frozen=True, kw_only=True):
    """RequestCodes 3001 to 3004: create, change, delete, get a user."""

    username: str


class ListUsersRequest(Header, frozen=True, kw_only=True):
    """RequestCode 3005: users whose names contain ``filter``."""

    name_filter: str | None = wire("filter", default=None)


class AclRequest(Header, frozen=True, kw_only=True):
    """RequestCodes 3006, 3007 and 3009: create, change, get the policies of a subject."""

    subject: str


class DeleteAclRequest(Header, frozen=True, kw_only=True):
    """RequestCode 3008: remove policies of a subject, all or of one resource."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequest(Header, frozen=True, kw_only=True):
    """RequestCode 3010: policies by parts of subject and resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None
