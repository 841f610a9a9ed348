"""Write the vector files of the artifact formats: `python -m tests.support.make_vectors`.

A vector that is there is never rewritten: other implementations hold copies of it.
"""

import sys
from collections.abc import Iterator

from tests.support.vector_accept import accepted
from tests.support.vector_drafts import drafts_accepted, drafts_rejected
from tests.support.vector_reject import rejected
from tests.support.vector_rules import rules_rejected
from tests.support.vectors import ROOT, Vector
from threegate.artifacts.ids import make_id
from threegate.artifacts.registry import emit, format_of
from threegate.base.errors import ArtifactRejected
from threegate.base.untrusted import Untrusted


def _accept() -> Iterator[Vector]:
    for name, data in accepted().items():
        expect = make_id(format_of(Untrusted(data)).prefix, data)
        yield Vector(f"accept/{name}.md", expect, data)
    for name, data in drafts_accepted().items():
        vector = Vector(f"accept/draft-{name}.md", "", data, is_draft=True)
        spelled = emit(vector.parse())
        expect = make_id(format_of(Untrusted(spelled)).prefix, spelled)
        yield Vector(vector.name, expect, data, is_draft=True)


def _reject() -> Iterator[Vector]:
    for is_draft, group in (
        (False, rejected()),
        (False, rules_rejected()),
        (True, drafts_rejected()),
    ):
        for name, data in group.items():
            number = name[:3]
            yield Vector(f"reject/{name}.md", f"TG-ART-{number}", data, is_draft=is_draft)


def _problem(vector: Vector) -> str | None:
    try:
        spelled = emit(vector.parse())
    except ArtifactRejected as exc:
        return None if exc.code == vector.expect else f"{exc.code} {exc.message}"
    if vector.name.startswith("reject/"):
        return "accepted"
    return None if vector.is_draft or spelled == vector.data else "another spelling"


def main() -> int:
    wrong = 0
    for vector in (*_accept(), *_reject()):
        problem = _problem(vector)
        if problem is not None:
            wrong += 1
            print(f"{vector.name}: expected {vector.expect}, got {problem}")
            continue
        path = ROOT / vector.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(vector.dump())
            print(f"{vector.name}: written")
        elif path.read_bytes() != vector.dump():
            wrong += 1
            print(f"{vector.name}: the file there is another one")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
