"""`python -m tertulia`."""

import sys

from tertulia.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
