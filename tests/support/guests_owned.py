"""Guests that are owned from the start: their agent, root inside, is the attacker.

Each is the real agent with one part changed, so that it boots, wakes up and takes its job
like any other; what it then does is whatever root in a guest can do.
"""

from tests.support.heavy import AGENT

RUN = "def run(port: Port, job: Message, executor: Interpreter | Commands) -> None:"


def owned(act: str) -> str:
    """Return an agent that does this in place of the job; `port` and `job` are at hand."""
    text = AGENT.read_text("utf-8").replace("import struct\n", "import socket\nimport struct\n", 1)
    assert RUN in text
    body = "\n".join(f"    {line}" for line in act.strip().splitlines())
    attack = f"{RUN}\n    port.hear()\n{body}\n\n\n{RUN.replace('run', 'not_used', 1)}"
    return text.replace(RUN, attack)


# What the job's code says to do: one image serves every attack that needs root in the guest.
ANY = owned("""
import traceback
kind, code = 0, job["argv"][1] if job["argv"] else ""
try:
    exec(CODE, globals() | {"port": port, "job": job})
except BaseException:
    port.say(STDERR, traceback.format_exc().encode())
    port.tell(EXIT, {"code": 1, "oom": False, "signal": 0})
""").replace("    port.hear()\n", "    CODE = port.hear()[1]\n")
