"""Bounds of the artifact formats, unit in the name.  Raising one widens a capability."""

from typing import Final

from threegate.base.limits import KIB, MIB

MAX_PACKET_BYTES: Final = 2 * MIB
MAX_RESULT_BYTES: Final = 4 * MIB
MAX_ANALYSIS_BYTES: Final = 4 * MIB
MAX_FRONT_MATTER_CHARS: Final = 512 * KIB

MAX_TITLE_CHARS: Final = 1000
MAX_AUTHORS: Final = 1000
MAX_ALSO: Final = 16
MAX_NOTICES: Final = 64
MAX_EXCERPTS: Final = 256
MAX_EXCERPT_CHARS: Final = 20_000
MAX_DERIVED_FROM: Final = 2000
MAX_REFERENCES: Final = 256
MAX_PURPOSE_CHARS: Final = 4000
MAX_CODE_CHARS: Final = 256 * KIB
MAX_ARGUMENTS: Final = 256
MAX_ARGUMENT_CHARS: Final = 4096
MAX_OUTPUTS: Final = 256
MAX_GATEWAY_HOSTS: Final = 32
MAX_CAPTURE_CHARS: Final = 1 * MIB
MAX_CLAIMS: Final = 500
MAX_CLAIM_CHARS: Final = 4000
MAX_CITES_PER_CLAIM: Final = 20
MAX_QUOTE_CHARS: Final = 4000
MAX_ANSWER_CHARS: Final = 64 * KIB
MAX_USES: Final = 1000
