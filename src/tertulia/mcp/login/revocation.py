"""Tells an authorization server that a login is over (RFC 7009)."""

from __future__ import annotations

import asyncio
import base64
from typing import Any
from urllib.parse import quote

import httpx2

from tertulia.mcp.login.addresses import address_problem
from tertulia.mcp.login.login_store import StoredLogin

_WITHIN_S = 10.0


async def revoke(login: StoredLogin, connections: httpx2.AsyncBaseTransport) -> bool:
    """Whether the server says that it is done. False as well where it names no place for that."""
    endpoint = (login.authorization_server or {}).get("revocation_endpoint")
    token = login.tokens.get("refresh_token") or login.tokens.get("access_token")
    if not isinstance(endpoint, str) or not token or address_problem(endpoint, login.url) is not None:
        return False
    data, headers = _client_fields(login.client)
    try:
        async with asyncio.timeout(_WITHIN_S), httpx2.AsyncClient(transport=connections, trust_env=False) as client:
            response = await client.post(endpoint, data={"token": token, **data}, headers=headers)
    except (TimeoutError, httpx2.TransportError):
        return False
    return response.is_success


def _client_fields(client: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Who we are, as fields of the form and as headers."""
    name, secret = str(client.get("client_id", "")), client.get("client_secret")
    if not isinstance(secret, str):
        return {"client_id": name}, {}
    if client.get("token_endpoint_auth_method") == "client_secret_post":
        return {"client_id": name, "client_secret": secret}, {}
    credentials = base64.b64encode(f"{quote(name, safe='')}:{quote(secret, safe='')}".encode()).decode()
    return {"client_id": name}, {"Authorization": f"Basic {credentials}"}
