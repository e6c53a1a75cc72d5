"""The process's surroundings as they were when the settings were read: places, and variables by name.

Nothing here asks the operating system: it is handed the variables once, by `session/settings/settings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

_NETWORK = frozenset({"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"})


class Environment(msgspec.Struct, frozen=True):
    """Where things are, and the variables that hold keys. Its repr shows no variable's value."""

    user_home: Path
    home: Path
    """Our data: `$TERTULIA_HOME`. The directory may not exist yet."""
    config_file: Path
    """The user's own settings. It need not exist."""
    variables: Mapping[str, str]
    """A copy that does not change. Keys are looked up in it when they are needed, and kept nowhere else."""

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> Environment:
        """The places that these variables name, or else the usual ones."""
        user_home = Path(variables.get("HOME") or Path.home())
        data = _xdg(variables, "XDG_DATA_HOME") or user_home / ".local" / "share"
        config = _xdg(variables, "XDG_CONFIG_HOME") or user_home / ".config"
        return cls(
            user_home=user_home,
            home=Path(variables.get("TERTULIA_HOME") or data / "tertulia").absolute(),
            config_file=config / "tertulia" / "config.toml",
            variables=MappingProxyType(dict(variables)),
        )

    @property
    def keys_file(self) -> Path:
        """The file in which `tertulia login` keeps keys. It need not exist."""
        return self.home / "keys.json"

    @property
    def names_network(self) -> bool:
        """Whether a variable says how other hosts are reached, see `network.py`."""
        return any(name.upper() in _NETWORK for name in self.variables)

    @property
    def merges(self) -> Path:
        """The journals of merges; there only while one writes, or after a process was killed over one."""
        return self.home / "worktrees" / "merging"

    def __repr__(self) -> str:
        return f"Environment(home={str(self.home)!r}, {len(self.variables)} variables)"


def _xdg(variables: Mapping[str, str], name: str) -> Path | None:
    # The specification wants relative paths ignored.
    value = Path(variables.get(name, ""))
    return value if value.is_absolute() else None
