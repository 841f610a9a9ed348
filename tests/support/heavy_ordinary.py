"""One job in the heavy lane, in a process of its own that an ordinary user started."""

import json
import os
import sys
from pathlib import Path

from tests.support.heavy import ENGINE, Lab, Task, backend_for, runsc_for
from threegate.base.errors import GateUnavailable
from threegate.host.images.store import Images
from threegate.host.run.heavy.runsc import RUNSC

JOB = Task("print(open('/in/a').read())", inputs={"a": b"hello"})


def main() -> None:
    cache, digest = Path(sys.argv[1]), sys.argv[2]
    kept = Images(cache / "images").find(digest)
    make = runsc_for if ENGINE == RUNSC else backend_for
    lane = Lab(make(kept, cache_home=cache))
    try:
        lane.backend.prepare(lane.want(JOB))
    except GateUnavailable as exc:
        print(json.dumps([exc.code, exc.message]))
        return
    ran = lane.run(JOB)
    gate, engine, *_ = ran.evidence
    said = [ran.outcome.exit, ran.outcome.stdout.decode(), os.getuid(), engine.own_uid]
    print(json.dumps([*said, gate.profile]))
