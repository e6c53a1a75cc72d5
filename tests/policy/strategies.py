"""Arbitrary rights. The pools are small on purpose: values that meet by chance are the interesting ones."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from tertulia.policy.approval_policy import ApprovalPolicy
from tertulia.policy.host_rules import HostRules
from tertulia.policy.limits import Limits
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import SANDBOX_MODES
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, Ttl
from tertulia.protocol.tool_spec import fqn

LONG = "a__" + "b" * 30
SERVERS = ["fs", "fs_", "a", "a__b", LONG]
TOOLS = ["read", "_read", "b__c", "c", "x y", "t" * 40]
"""Both halves may hold the separator, be changed to be legal, or be so long that they are cut."""

tool_patterns = st.builds(fqn, st.sampled_from(SERVERS), st.sampled_from(TOOLS)) | st.sampled_from(
    [f"{server}__*" for server in SERVERS]
)

paths = st.lists(st.sampled_from("abc"), max_size=3).map(lambda parts: "/" + "/".join(parts))
unclean_paths = st.lists(st.sampled_from(["a", "b", "..", ".", ""]), max_size=5).map(
    lambda parts: "/" + "/".join(parts)
)

approval_policies = st.builds(ApprovalPolicy, st.sampled_from(["trusted", "sandboxed"]), st.booleans(), st.booleans())
storage_policies = st.sampled_from([Full(), HeadersOnly(), NoStorage(), Ttl(1), Ttl(60), Ttl(60.0)])

_limit = st.sampled_from([None, 1, 2, 2.5])
# Three of them speak for all: they share one order, and more of them only make every proof slower.
limits = st.builds(Limits, mcp_concurrency=_limit, mcp_wait_s=_limit, task_timeout_s=_limit)

HOSTS = ["a.example", "*.example", "*.a.example", "*", "b.a.example", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "::1"]
host_patterns = st.builds(
    lambda host, port: f"[{host}]{port}" if ":" in host and port else f"{host}{port}",
    st.sampled_from(HOSTS),
    st.sampled_from(["", "", ":443", ":8443", ":*"]),
)
host_lists = st.lists(host_patterns, max_size=4).map(tuple)
networks = st.booleans() | st.builds(HostRules, host_lists, host_lists)

FIELDS = {
    "approval_policy": approval_policies,
    "sandbox": st.sampled_from(SANDBOX_MODES),
    "network": networks,
    "writable_roots": st.none() | st.lists(paths, max_size=4).map(tuple),
    "storage_policy": storage_policies,
    "mcp_tool_allowlist": st.none() | st.frozensets(tool_patterns, max_size=5),
    "include_plan_tool": st.booleans(),
    "include_apply_patch_tool": st.booleans(),
    "include_conv_tools": st.booleans(),
    "tools_web_search_request": st.booleans(),
    "include_fetch_tool": st.booleans(),
    "shell": st.booleans(),
    "visibility": st.sampled_from(["session", "subtree"]),
    "on_restart": st.sampled_from(["close", "continue"]),
    "limits": limits,
}

rights = st.builds(Rights, **FIELDS)

requests = st.fixed_dictionaries({}, optional=FIELDS)
"""What somebody may ask for: any of the fields, already parsed."""


def with_only(top: Rights, field: str, value: object) -> Rights:
    """Rights that differ from the top in one field at most."""
    return msgspec.structs.replace(top, **{field: value})
