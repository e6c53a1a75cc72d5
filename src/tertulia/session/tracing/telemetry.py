"""The table `[telemetry]`: where traces of sessions are sent, and whether with texts. Without it nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint


class Telemetry(msgspec.Struct, frozen=True):
    """What of a session is traced, and for which collector."""

    endpoint: str | None = None
    """The address of an OTLP collector over HTTP, without `/v1/traces`."""
    content: bool = False
    """Whether texts of messages and calls become attributes, where every conversation is stored in full."""
    exporter: Any = None
    """A `SpanExporter` of the application instead of an address; from Python only."""


def telemetry_from_wire(table: Mapping[str, Any]) -> Telemetry:
    """Parse the table. InvalidParams names what cannot be used."""
    known = Telemetry.__struct_fields__
    for name in table:
        if name not in known:
            raise InvalidParamsError(f"telemetry: there is no setting {name[:64]!r}; {name_hint(name, known)}")
    content, exporter = table.get("content", False), table.get("exporter")
    if not isinstance(content, bool):
        raise InvalidParamsError(f"telemetry.content must be true or false, not {content!r:.80}")
    if exporter is not None and not callable(getattr(exporter, "export", None)):
        raise InvalidParamsError("telemetry.exporter must be a SpanExporter of opentelemetry-sdk: an object to call")
    return Telemetry(_address(table.get("endpoint")), content, exporter)


def _address(endpoint: object) -> str | None:
    if endpoint is None:
        return None
    try:
        parts = urlsplit(endpoint) if isinstance(endpoint, str) else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidParamsError(
            f"telemetry.endpoint must be the address of an OTLP collector such as http://127.0.0.1:4318, "
            f"not {endpoint!r:.80}"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidParamsError(
            "telemetry.endpoint must be an address alone; a key for the collector goes into OTEL_EXPORTER_OTLP_HEADERS"
        )
    return str(endpoint).rstrip("/")
