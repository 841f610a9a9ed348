"""The audit log: a hash-chained record of events, its checkpoints and its verification.

    chain.py       which line may come next (pure)
    plan.py        a batch of events as bytes (pure)
    merkle.py      RFC 6962 tree and proofs (pure)
    checkpoint.py  the three lines to sign and keep elsewhere (pure)
    log.py         AuditLog: append, refresh, entries
    writer.py      bytes onto the disk, or nothing
    verify.py      the whole log, from the first line to the last

`prev` of each line is the SHA-256 of the line before: an edit, insertion, deletion or
swap breaks the chain where it happened.  The chain cannot show that its end was cut off or that
everything was rewritten; a checkpoint
kept on another machine can.
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
