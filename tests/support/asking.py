"""The real `ask`, in real boxes, with a model server that the test plays."""

import json
import re
from pathlib import Path
from typing import Any

from tests.support import weights
from tests.support.cli import Cli, made, write
from tests.support.ownserver import NAME, Act, completion, says
from threegate.artifacts import registry
from threegate.artifacts.registry import Artifact

SENTENCE = re.compile(r"^\[([0-9]+)\] (.*)$", re.MULTILINE)


def asker(base: Path, *artifacts: Artifact, name: str = "ws") -> Cli:
    """Return a user whose workspace holds these artifacts."""
    cli = made(base, name=name)
    files = [
        write(base / "brought" / f"{number}.md", registry.emit(one))
        for number, one in enumerate(artifacts)
    ]
    cli("admit", *files)
    return cli


def use_model(cli: Cli, *, deadline: str = "60s", **rules: str) -> None:
    """Sign a policy that names another model."""
    assert cli.workspace is not None
    path = cli.workspace / "policy" / "core.policy.md"
    text = path.read_text("utf-8")
    for key, value in rules.items():
        text, count = re.subn(rf"(?m)^  {key}: .*$", f"  {key}: {value}", text, count=1)
        assert count == 1, key
    text = text.replace("deadline_seconds: 15m", f"deadline_seconds: {deadline}")
    path.write_text(text, "utf-8")
    cli("policy", "apply", "--yes")


def use_server(cli: Cli, port: int, **more: str) -> None:
    """Sign a policy that names a server of the test."""
    endpoint = f"127.0.0.1:{port}"
    use_model(cli, kind="bridge", name=NAME, sha256="none", endpoint=endpoint, **more)


def use_smallest(cli: Cli, **more: str) -> None:
    """Sign a policy that names the smallest real model, which is in the cache then."""
    weights.smallest()
    cli.environment["XDG_CACHE_HOME"] = str(weights.cache().parents[1])
    use_model(cli, name=weights.NAME, sha256=weights.SHA256, **more)


def asked_of(request: bytes) -> tuple[str, dict[int, str]]:
    """Return the last message of a request, and the numbered sentences that were quoted."""
    messages = json.loads(request.partition(b"\r\n\r\n")[2])["messages"]
    quoted = "\n".join(m["content"] for m in messages if "BEGIN DATA" in m["content"])
    return messages[-1]["content"], {int(n): text for n, text in SENTENCE.findall(quoted)}


def replies(*contents: Any) -> Act:
    """Return a server that gives these replies in turn, the last one for ever."""
    left = list(contents)

    def act(sock: Any, server: Any) -> None:
        content = left.pop(0) if len(left) > 1 else left[0]
        text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))
        says(completion(text))(sock, server)

    return act


def labels_of_model(found: dict[str, Any]) -> list[str]:
    """Return the labels of what the model claims, without the sentences that stand beside it."""
    return [one["label"] for one in found["claims"] if one["by"] == "model"]
