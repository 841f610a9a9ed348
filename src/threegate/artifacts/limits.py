"""Bounds of the artifact formats, unit in the name.  Raising one widens a capability."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

MAX_PACKET_BYTES: Final = 2 * MIB
MAX_REQUEST_BYTES: Final = 1 * MIB
MAX_APPROVAL_BYTES: Final = 64 * KIB
MAX_RESULT_BYTES: Final = 4 * MIB
MAX_ANALYSIS_BYTES: Final = 4 * MIB
MAX_FRONT_MATTER_CHARS: Final = 512 * KIB

MAX_LINE_CHARS: Final = 500
MAX_URL_CHARS: Final = 2048
MAX_TITLE_CHARS: Final = 1000
MAX_AUTHORS: Final = 1000
MAX_HOPS: Final = 10
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
MAX_INPUTS: Final = 64
MAX_OUTPUTS: Final = 256
MAX_GATEWAY_HOSTS: Final = 32
MAX_CAPTURE_CHARS: Final = 1 * MIB
MAX_CLAIMS: Final = 500
MAX_CLAIM_CHARS: Final = 4000
MAX_CITES_PER_CLAIM: Final = 20
MAX_QUOTE_CHARS: Final = 4000
MAX_ANSWER_CHARS: Final = 64 * KIB
MAX_COUNT: Final = 2**53 - 1  # what every JSON reader holds exactly
MAX_USES: Final = 1000
