"""Sizes of the audit log.  Part of the format `log/1`: changing one is a new format."""

from typing import Final

FORMAT: Final = "log/1"

# Lines per segment, its header and its seal included, so that entry `seq` stands in
# segment `seq // SEGMENT_EVENTS` and a sealed segment is one complete Merkle subtree.
SEGMENT_EVENTS: Final = 1024

MAX_LINE_BYTES: Final = 64 * 1024  # newline included
MAX_SEGMENT_BYTES: Final = SEGMENT_EVENTS * MAX_LINE_BYTES

# What a crash can leave after the last whole line: part of a line, and blocks the file
# system had added but not filled.  More than this no crash of ours explains.
MAX_TORN_BYTES: Final = 4 * 1024 * 1024

MAX_CHECKPOINT_BYTES: Final = 256
MAX_TREE_SIZE: Final = 2**53 - 1  # the largest integer every JSON reader agrees on
