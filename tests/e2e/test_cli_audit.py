"""audit: verification, checkpoints that others can check, provenance."""

import subprocess
from pathlib import Path

import pytest

from tests.support.cli import Cli, made, write
from tests.support.samples import packet
from threegate.artifacts import registry
from threegate.artifacts.ids import short


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = made(tmp_path)
    cli("admit", write(tmp_path / "packet.md", registry.emit(packet())))
    return cli


def workspace(cli: Cli) -> Path:
    assert cli.workspace is not None
    return cli.workspace


def only_packet(cli: Cli) -> Path:
    (path,) = (workspace(cli) / "handoff/packets/accepted").iterdir()
    return path


def test_verify_counts_what_it_saw(cli: Cli) -> None:
    assert cli("audit", "verify").out == ("verified: 7 entries, 4 files, 1 policy, 0 checkpoints\n")
    found = cli("audit", "verify", "--json").json
    assert (found["ok"], found["findings"], found["strays"]) == (True, [], [])
    assert len(found["root"]) == 64


def test_verify_exits_76_and_names_each_difference(cli: Cli) -> None:
    path = only_packet(cli)
    path.chmod(0o644)
    path.write_bytes(b"x")
    done = cli("audit", "verify", code=76)
    assert f"differs: handoff/packets/accepted/{path.name}: " in done.out
    assert done.out.endswith("1 difference: 7 entries, 4 files, 1 policy, 0 checkpoints\n")
    found = cli("audit", "verify", "--json", code=76).json
    assert found["ok"] is False
    assert path.name in [finding["name"] for finding in found["findings"]]


def test_a_tampered_artifact_is_not_shown(cli: Cli) -> None:
    path = only_packet(cli)
    cli("packet", "show", path.stem)  # control
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b"\n")
    path.chmod(0o444)
    done = cli("packet", "show", path.stem, code=76)
    assert "[TG-HND-008]" in done.err
    assert done.out == ""


def test_a_broken_log_stops_everything_with_76(cli: Cli) -> None:
    segment = workspace(cli) / "audit/segment-00000000.jsonl"
    lines = segment.read_bytes().split(b"\n")
    segment.write_bytes(b"\n".join([*lines[:3], *lines[4:]]))
    for argv in (("status",), ("packet", "list"), ("admit", "packet.md")):
        assert "[TG-AUD-002]" in cli(*argv, code=76).err
    assert "differs: audit/log: entry 3 " in cli("audit", "verify", code=76).out


def test_stray_files_are_reported_and_no_tampering(cli: Cli) -> None:
    stray = workspace(cli) / "handoff/packets/accepted" / "notes\x1b[2J.txt"
    stray.write_text("mine", "utf-8")
    done = cli("audit", "verify")
    assert "stray: handoff/packets/accepted/notes\\u{1b}[2J.txt: is not a file of ours" in done.out
    assert "stray files  1" in cli("status").out
    assert cli("status", "--json").json["strays"] == ["handoff/packets/accepted/notes\x1b[2J.txt"]


def test_a_checkpoint_is_kept_and_shown(cli: Cli) -> None:
    assert cli("status", "--json").json["checkpoint"] is None
    done = cli("audit", "checkpoint", "--json").json
    assert done["size"] == 7
    assert all(Path(path).is_file() for path in done["files"])
    assert cli("status", "--json").json["checkpoint"] == 7
    assert cli("audit", "verify", "--json").json["checkpoints"] == 1


def test_an_exported_checkpoint_is_checked_by_ssh_keygen_alone(cli: Cli) -> None:
    cli("audit", "export", "elsewhere")
    directory = cli.base / "elsewhere"
    readme = (directory / "checkpoint-7.README").read_text("ascii")
    start = readme.index("ssh-keygen")
    command = readme[start : readme.index("\n\n", start)]
    run = ["bash", "-c", command]
    checked = subprocess.run(run, cwd=directory, capture_output=True, text=True, check=True)
    assert 'Good "threegate-checkpoint" signature for operator' in checked.stdout
    text = directory / "checkpoint-7.txt"
    text.chmod(0o644)
    text.write_bytes(text.read_bytes().replace(b"\n7\n", b"\n8\n"))
    assert subprocess.run(run, cwd=directory, capture_output=True, check=False).returncode != 0


# claim TG-C-41
def test_a_cut_log_is_found_with_the_exported_checkpoint(cli: Cli) -> None:
    cli("audit", "export", "elsewhere")
    checkpoint = cli.base / "elsewhere/checkpoint-7.txt"
    cli("audit", "verify", "--checkpoint", checkpoint)  # control
    segment = workspace(cli) / "audit/segment-00000000.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:5]))
    only_packet(cli).unlink()
    for kept in (workspace(cli) / "audit/checkpoints").iterdir():
        kept.unlink()
    assert cli("audit", "verify").out.startswith("verified: "), "nobody can tell from inside"
    done = cli("audit", "verify", "--checkpoint", checkpoint, code=76)
    assert "the log is shorter than the checkpoint" in done.out


def test_a_checkpoint_without_signature_is_said_to_have_none(cli: Cli) -> None:
    cli("audit", "export", "elsewhere")
    (cli.base / "elsewhere/checkpoint-7.txt.sig").unlink()
    done = cli("audit", "verify", "--checkpoint", cli.base / "elsewhere/checkpoint-7.txt")
    assert "has no signature" in done.err
    other = cli.base / "elsewhere/checkpoint-7.README"
    done = cli(
        "audit", "verify", "--checkpoint", cli.base / "elsewhere/checkpoint-7.txt",
        "--signature", other, code=76,
    )  # fmt: skip
    assert "not an armored SSH signature" in done.out


def test_an_export_into_the_workspace_or_over_another_is_refused(cli: Cli) -> None:
    done = cli("audit", "export", workspace(cli) / "audit", code=2)
    assert "proves nothing" in done.err
    cli("audit", "export", "/dev/null/nowhere", code=74)
    assert cli("status", "--json").json["checkpoint"] is None, "nothing was signed for it"
    write(cli.base / "elsewhere/checkpoint-7.README", b"mine")
    cli("audit", "export", "elsewhere", code=74)
    assert (cli.base / "elsewhere/checkpoint-7.README").read_bytes() == b"mine"


def test_show_prints_the_newest_entries_and_those_of_an_artifact(cli: Cli) -> None:
    found = cli("audit", "show", "--json", "--limit", "2").json
    assert [item["seq"] for item in found["items"]] == [5, 6]
    assert found["total"] == 7
    assert [
        item["seq"]
        for item in cli("audit", "show", "--json", "--limit", "2", "--page", "2").json["items"]
    ] == [3, 4]
    artifact_id = only_packet(cli).stem
    found = cli("audit", "show", short(artifact_id), "--json").json
    assert [item["data"]["op"] for item in found["items"]] == ["admit"]
    assert f"admit: put {artifact_id}.md" in cli("audit", "show").out


def test_graph_draws_in_every_format(cli: Cli) -> None:
    artifact_id = only_packet(cli).stem
    text = cli("audit", "graph", short(artifact_id)).out
    assert text.startswith(
        f"{short(artifact_id)} research-packet, accepted, BROUGHT, names https://"
    )
    assert cli("audit", "graph", artifact_id, "--format", "dot").out.startswith("digraph ")
    assert cli("audit", "graph", artifact_id, "--format", "svg").out.startswith("<svg ")
    found = cli("audit", "graph", artifact_id, "--format", "json").json
    assert [node["id"] for node in found["nodes"]] == [artifact_id]
    assert "no artifact" in cli("audit", "graph", "rp-" + "0" * 64, code=2).err
