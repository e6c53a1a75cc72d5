"""The Chat wire: the contract of every wire, and what exactly it sends."""

from __future__ import annotations

from tests.models.apis import CHAT, ApiContract


class TestContract(ApiContract):
    """Over Chat Completions."""

    api = CHAT
