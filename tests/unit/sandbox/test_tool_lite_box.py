"""What the tool-lite gate needs is there: its checks load and work behind its lock."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.support.boxes import said, start_with
from tests.support.policies import policy
from tests.support.sshlab import NOW, Forge, Key
from threegate.sandbox.machine import find_machine
from threegate.sandbox.profiles import TOOL_LITE
from threegate.sandbox.session import run_gate

# Verifies a signature by a signer of the bundle, behind the lock.
VERIFIER = """
import base64, json, sys
from threegate.base.errors import ThreeGateError
from threegate.keys import sshsig
from threegate.policy import approvals
from threegate.policy.bundle import parse_bundle
from threegate.gates.tool_exec.monty import lane
from threegate.base.untrusted import Untrusted
import threegate.gates.tool_exec.monty.messages

def main():
    before = set(sys.modules)
    told = json.loads(read_message(0, 2**22))
    bundle, message, signature = (base64.b64decode(told[k]) for k in ('bundle', 'message', 'sig'))
    try:
        signed = sshsig.verify(message, Untrusted(signature), namespace=approvals.NAMESPACE,
                               signers=parse_bundle(bundle).signers, at=told['at'])
        found = signed.principal
    except ThreeGateError as exc:
        found = exc.code
    natives = sorted(n for n in set(sys.modules) - before
                     if str(getattr(sys.modules[n], '__file__', '')).endswith('.so'))
    write_message(3, json.dumps({'found': found, 'yaml': 'yaml' in sys.modules,
                                 'native after the lock': natives}).encode())
"""


def verified(tmp_path: Path, message: bytes, signature: bytes) -> Any:
    parts = {"bundle": policy().bundle().bundle_bytes(), "message": message, "sig": signature}
    told = {name: base64.b64encode(data).decode("ascii") for name, data in parts.items()}
    start = start_with(tmp_path, VERIFIER, TOOL_LITE)
    answer = run_gate(find_machine(), start, json.dumps({**told, "at": NOW}).encode())
    assert answer.ended.why == "done", answer.ended.stderr.open_for_display()
    return json.loads(said(answer))


def test_the_gate_checks_signatures_behind_its_lock(tmp_path: Path) -> None:
    message = b"an approval"
    good = Forge(Key(b"\x01" * 32), message=message).armored()
    stranger = Forge(Key(b"\x02" * 32), message=message).armored()
    found = verified(tmp_path, message, good)
    assert found == {"found": "operator", "yaml": False, "native after the lock": []}
    assert verified(tmp_path, b"another", good)["found"] == "TG-KEY-002"
    assert verified(tmp_path, message, stranger)["found"] == "TG-KEY-003"
