"""What the official Codex SDK hands on to `exec`, in our own words.

For `--experimental-json` alone: anywhere else a setting of Codex's is a mistake, and is told as one.
"""

from __future__ import annotations

from msgspec.structs import replace

from tertulia.apps.global_flags import Given
from tertulia.models.catalog import BASE_URL_VARIABLES, DEFAULT_MODELS, PROVIDERS, provider_from_wire
from tertulia.session.settings.settings import LoadedSettings

_KEY = "CODEX_API_KEY"
"""Where the SDK puts its `apiKey`."""


def load_for_sdk(given: Given) -> LoadedSettings:
    """The settings, with what the SDK says of them. What is not known here is refused by its name."""
    said, given.overrides[:] = given.overrides[:], []
    base_url = None
    for override in said:
        key, _, value = override.partition("=")
        match key:
            case "sandbox_workspace_write.network_access":
                given.overrides.append(f"network={value}")
            case "web_search":
                given.overrides.append(f"tools_web_search_request={'false' if 'disabled' in value else 'true'}")
            case "openai_base_url":
                base_url = value.strip('"')
            case "model_reasoning_effort":
                # Not used, as by the stand-in for `codex app-server`.
                pass
            case _:
                given.overrides.append(override)
    model = given.flags.get("model")
    if model is not None and "/" not in model:
        given.flags["model"] = f"openai/{model}"
    return _with_openai(given.load(), base_url)


def _with_openai(loaded: LoadedSettings, base_url: str | None) -> LoadedSettings:
    """The provider that the SDK thinks of, at the address and with the key that it brings."""
    variables, settings = loaded.environment.variables, loaded.settings
    has_key = bool(variables.get(_KEY, "").strip())
    if base_url is None and not has_key:
        return loaded
    usual = PROVIDERS["openai"]
    usual = replace(usual, base_url=variables.get(BASE_URL_VARIABLES["openai"]) or usual.base_url)
    openai = provider_from_wire("openai", settings.model_providers.get("openai", usual))
    openai = replace(openai, base_url=base_url or openai.base_url, env_key=_KEY if has_key else openai.env_key)
    model = settings.model or (DEFAULT_MODELS[0][1] if has_key else None)
    providers = {**settings.model_providers, "openai": openai}
    return replace(loaded, settings=replace(settings, model=model, model_providers=providers))
