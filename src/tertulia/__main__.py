"""The program: `tertulia`, and `python -m tertulia`."""

import os
import sys

from tertulia.version import __version__


def main() -> int:
    """Run the command line; its exit code. The version alone is printed without loading the verbs."""
    if sys.argv[1:] == ["--version"] and _is_written(f"tertulia {__version__}\n"):
        return 0
    from tertulia.cli.main import main as run

    return run()


def _is_written(text: str) -> bool:
    """Whether standard output took it; if not, the command line says why."""
    try:
        os.write(1, text.encode())
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
