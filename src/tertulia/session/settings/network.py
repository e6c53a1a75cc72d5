"""The way of a session to models and MCP servers: what its settings say, or else the variables of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from msgspec.structs import replace

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import ModelProvider, provider_access
from tertulia.protocol.network.access import OutboundNetwork, access_from_table, proxy_table
from tertulia.protocol.network.certificates import check_ca_dir, check_ca_file, tls_context
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import Settings

_CA_VARIABLES = {"ca_file": "SSL_CERT_FILE", "ca_dir": "SSL_CERT_DIR"}


def proxies(settings: Settings, environment: Environment) -> OutboundNetwork:
    """The proxies alone. InvalidParams names the setting or the variable that cannot be used."""
    if settings.proxy is not None:
        return access_from_table(settings.proxy)
    table: dict[str, str] = {}
    for variable, entry, value in proxy_table(environment.variables):
        table[entry] = value
        try:
            access_from_table({entry: value})
        except InvalidParamsError as error:
            raise InvalidParamsError(f"environment {variable}: {error.message}") from None
    return access_from_table(table)


def network_access(settings: Settings, environment: Environment) -> OutboundNetwork:
    """All of it, with certificates that were read once. InvalidParams says what cannot be used, and where it stands."""
    access = proxies(settings, environment)
    for name, variable in _CA_VARIABLES.items():
        value: str | None = getattr(settings, name)
        source = settings.sources.get(name)
        if value is None and (value := environment.variables.get(variable) or None) is not None:
            source = f"environment {variable}"
        if value is None:
            continue
        try:
            _check_certificates(name, value, whole=source != f"environment {variable}")
        except InvalidParamsError as error:
            raise InvalidParamsError(f"{source}: {error.message}" if source else error.message) from None
        access = replace(access, **{name: value})
    return access


def _check_certificates(name: str, value: str, *, whole: bool) -> None:
    # A variable may be set for all programs: then the library that reads certificates waits for the first connection.
    if name == "ca_dir":
        check_ca_dir(value)
    elif whole:
        tls_context(value)
    else:
        check_ca_file(value)


def check_network(settings: Settings, environment: Environment) -> None:
    """Raise InvalidParams where a proxy or a file of certificates cannot be used, also that of a provider."""
    access = network_access(settings, environment)
    for name, provider in cast("Mapping[str, ModelProvider]", settings.model_providers).items():
        provider_access(name, provider, access)
