"""`python -m threegate` is the `threegate` command."""

import sys

from threegate.host.cli import main

if __name__ == "__main__":
    sys.exit(main())
