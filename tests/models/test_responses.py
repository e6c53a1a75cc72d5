"""The Responses wire: the contract of every wire, and what exactly it sends."""

from __future__ import annotations

from tests.models.apis import RESPONSES, ApiContract


class TestContract(ApiContract):
    """Over the Responses API."""

    api = RESPONSES
