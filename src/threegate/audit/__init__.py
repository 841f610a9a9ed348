"""What happened: a hash-chained log, checkpoints of it, and its verification.

    chain.py       which line may come next (pure)
    plan.py        a batch of events as bytes (pure)
    merkle.py      RFC 6962 tree and proofs (pure)
    checkpoint.py  the three lines to sign and keep elsewhere (pure)
    log.py         AuditLog: append, refresh, entries
    writer.py      bytes onto the disk, or nothing
    verify.py      the whole log, from the first line to the last

`prev` of each line is the SHA-256 of the line before: an edit, insertion, deletion or
swap breaks the chain where it happened.  What the chain cannot show, that the end was
cut off or everything rewritten, a checkpoint kept on another machine shows.
"""

from threegate.audit.checkpoint import Checkpoint, emit_checkpoint, parse_checkpoint
from threegate.audit.entry import Entry, LogBroken, LogFault, LogHead
from threegate.audit.log import AuditLog
from threegate.audit.verify import LogProblem, LogReport, verify_log

__all__ = [
    "AuditLog",
    "Checkpoint",
    "Entry",
    "LogBroken",
    "LogFault",
    "LogHead",
    "LogProblem",
    "LogReport",
    "emit_checkpoint",
    "parse_checkpoint",
    "verify_log",
]
