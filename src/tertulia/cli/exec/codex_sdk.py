"""Settings of a run that the Codex SDK for TypeScript starts: its overrides, its address, its key, its directory."""

from __future__ import annotations

import os.path

from msgspec.structs import replace

from tertulia.cli.global_flags import GlobalFlags
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import BASE_URL_VARIABLES, DEFAULT_MODELS, PROVIDERS, provider_from_wire
from tertulia.models.provider_spelling import with_provider
from tertulia.protocol.inputs import InputItem, LocalImageInput, TextInput
from tertulia.session.settings.codex_overrides import translate_overrides
from tertulia.session.settings.settings import LoadedSettings

_CODEX_KEY = "CODEX_API_KEY"
"""Where the SDK puts its `apiKey`."""


def load_codex_sdk_settings(flags: GlobalFlags) -> LoadedSettings:
    """Load the settings, with the overrides of the Codex SDK translated; what was ignored of them is a warning."""
    translated = translate_overrides(flags.overrides)
    flags.overrides[:] = translated.overrides
    warnings = [*translated.warnings, *_leave_out_missing(flags)]
    loaded = _with_openai(flags.load(), translated.base_url)
    settings = loaded.settings
    if isinstance(settings.model, str):
        settings = replace(settings, model=with_provider(settings.model, settings.model_provider or "openai"))
    return replace(loaded, settings=settings, warnings=[*loaded.warnings, *warnings])


def _leave_out_missing(flags: GlobalFlags) -> list[str]:
    """Codex takes directories that do not exist; here they are left out, with a sentence for each."""
    missing = flags.missing_roots()
    if missing:
        flags.values["writable_roots"] = [root for root in flags.values["writable_roots"] if root not in missing]
    return [f"--add-dir: {root!r:.200} does not exist, and was left out" for root in missing]


def picture_or_note(path: str) -> InputItem:
    """A picture of the SDK; where the file is none, a text that says so: Codex does not refuse it either."""
    picture = LocalImageInput(path)
    try:
        to_user_message(None, [picture], cwd="/")
    except InvalidParamsError as error:
        return TextInput(f"(a picture that cannot be shown: {error.message})")
    return picture


def _with_openai(loaded: LoadedSettings, base_url: str | None) -> LoadedSettings:
    """The provider `openai`, at the address and with the key that the SDK gives."""
    variables, settings = loaded.environment.variables, loaded.settings
    has_key = bool(variables.get(_CODEX_KEY, "").strip())
    if base_url is None and not has_key:
        return loaded
    usual = PROVIDERS["openai"]
    usual = replace(usual, base_url=variables.get(BASE_URL_VARIABLES["openai"]) or usual.base_url)
    openai = provider_from_wire("openai", settings.model_providers.get("openai", usual))
    openai = replace(openai, base_url=base_url or openai.base_url, env_key=_CODEX_KEY if has_key else openai.env_key)
    model = settings.model or (DEFAULT_MODELS[0][1] if has_key else None)
    providers = {**settings.model_providers, "openai": openai}
    return replace(loaded, settings=replace(settings, model=model, model_providers=providers))


def require_repository(settings_cwd: str) -> None:
    """Raise InvalidParams outside of a git repository: the SDK runs there only with `skipGitRepoCheck`."""
    folder = os.path.realpath(settings_cwd)
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            raise InvalidParamsError(
                f"Not inside a trusted directory: {settings_cwd} lies in no git repository; set skipGitRepoCheck to "
                "work there (--skip-git-repo-check)"
            )
        folder = above
