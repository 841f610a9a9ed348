"""Passages that look like a secret: private keys, tokens of known forms, assigned random values.

A count is a hint that a packet should not travel far; no count is no statement at all.  Known
secrets have a form of their own.  Others are recognised by the name they are assigned to and by
a value that looks random.

SECURITY
    Reads foreign text.  Time is linear: no repetition in an expression is without a bound.
    If this module is wrong, a secret is stored at a lower level of confidentiality.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

_FORMS: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS
    r"|\bgh[pousr]_[A-Za-z0-9]{36,251}\b|\bgithub_pat_[A-Za-z0-9_]{50,250}\b"
    r"|\bglpat-[A-Za-z0-9_-]{20,64}\b"  # GitLab
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"  # Slack
    r"|\bAIza[A-Za-z0-9_-]{35}\b"  # Google
    r"|\bsk_live_[A-Za-z0-9]{16,250}\b"  # Stripe
    r"|\bnpm_[A-Za-z0-9]{36}\b|\bpypi-AgEI[A-Za-z0-9_-]{50,250}"
)
_ASSIGNED: Final = re.compile(
    r"(?i)(?:secret|passw(?:or)?d|token|api_?key|access_?key|private_?key|credential)[a-z0-9_.-]{0,30}"
    r"[\"']?\s{0,4}(?::=|=>|[:=])\s{0,4}[\"']?([A-Za-z0-9+/=_~.$!@%^&*-]{16,200})"
)
_LEAST_BITS: Final = 3.5  # of entropy per character; words and paths have less at this length
_NO_SECRET: Final = re.compile(r"(?i)\A[a-z_.$/-]+\Z|example|placeholder|changeme|xxxx|\.\.\.")


def count_secrets(texts: Iterable[str]) -> int:
    """Return how many passages look like a secret."""
    return sum(_count(text) for text in texts)


def _count(text: str) -> int:
    known = sum(1 for _ in _FORMS.finditer(text))
    return known + sum(_looks_random(found.group(1)) for found in _ASSIGNED.finditer(text))


def _looks_random(value: str) -> bool:
    if _NO_SECRET.search(value) or _FORMS.match(value):
        return False
    has_both = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    counts = Counter(value).values()
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
    return has_both and bits >= _LEAST_BITS
