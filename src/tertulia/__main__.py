"""Runs the program as `python -m tertulia`."""

import sys

from tertulia.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
