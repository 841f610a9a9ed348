"""Bounds of what is read out of a source's answer, unit in the name."""

from typing import Final

MAX_JSON_BYTES: Final = 8 * 2**20
MAX_JSON_DEPTH: Final = 64
MAX_JSON_BRACKETS: Final = 400_000  # each may become an object of a hundred bytes
MAX_MARKED_CHARS: Final = 200_000  # of one text, before its markup is taken away
MAX_TAG_CHARS: Final = 4096
MAX_NESTED_TAGS: Final = 64
MAX_ESCAPE_ROUNDS: Final = 3
MAX_AUTHOR_CHARS: Final = 300
MAX_LICENCE_CHARS: Final = 500
MAX_CONTAINER_CHARS: Final = 500
MAX_LABEL_CHARS: Final = 100
MAX_ABSTRACT_CHARS: Final = 100_000
MAX_ABSTRACTS: Final = 16
MAX_INVERTED_WORDS: Final = 20_000
MAX_IDENTIFIERS: Final = 64
MAX_IDENTIFIER_CHARS: Final = 200
MAX_LINKS: Final = 64
MAX_NOTICES: Final = 64
MAX_REMARKS: Final = 2_000  # notes and annotations of one work
MAX_ITEMS: Final = 20_000  # of any list that is walked
