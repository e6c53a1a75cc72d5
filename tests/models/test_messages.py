"""The Messages wire: the contract of every wire, and what exactly it sends."""

from __future__ import annotations

from tests.models.apis import MESSAGES, ApiContract


class TestContract(ApiContract):
    """Over the Messages API."""

    api = MESSAGES
