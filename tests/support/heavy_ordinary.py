"""One job in the heavy lane, in a process of its own that an ordinary user started."""

import json
import os
import sys
from pathlib import Path

from tests.support.heavy import Lab, Task, backend_for, runsc_for
from threegate.host.heavy.runsc import RUNSC
from threegate.images.keeping import Images


def main() -> None:
    cache, digest = Path(sys.argv[1]), sys.argv[2]
    kept = Images(cache / "images").find(digest)
    make = runsc_for if sys.argv[3] == RUNSC else backend_for
    lane = Lab(make(kept, cache_home=cache))
    ran = lane.run(Task("print(open('/in/a').read())", inputs={"a": b"hello"}))
    gate, engine, *_ = ran.evidence
    said = [ran.outcome.exit, ran.outcome.stdout.decode(), os.getuid(), engine.own_uid]
    print(json.dumps([*said, gate.profile]))
