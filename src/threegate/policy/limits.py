"""Bounds of policy files and bundles, checked before the bytes they bound are read."""

from typing import Final

from threegate.base.limits import KIB

MAX_FILE_BYTES: Final = 512 * KIB  # a thousand host rules with their prose are 300 KiB
MAX_DEPTH: Final = 8  # the deepest default rule stands at 5
MAX_NODES: Final = 50_000
MAX_SCALAR_CHARS: Final = 1_000

MAX_NUMBER_DIGITS: Final = 16  # what a JSON reader still holds exactly
MAX_HOST_CHARS: Final = 253
MAX_LABEL_CHARS: Final = 63
MAX_HOST_RULES: Final = 2_000
MAX_EXAMPLES: Final = 32
