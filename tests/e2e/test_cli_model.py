"""`threegate model` as a user calls it, with a cache of its own."""

import os
from pathlib import Path

import pytest

from tests.support import models
from tests.support.cli import Cli, made


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return made(tmp_path)


def test_a_model_comes_from_a_file_and_goes_again(cli: Cli, tmp_path: Path) -> None:
    listed = cli("model", "list", "--json").json["models"]
    assert [model["here"] for model in listed] == [False] * 4, "control: the cache is its own"
    own = models.smallest()
    brought = cli("model", "pull", models.NAME, "--from", own)
    assert brought.out == f"{models.NAME}  brought, and its digest is right\n"
    assert f"threegate: pulling {models.NAME}, 93 MB\n" in brought.err
    kept = tmp_path / ".cache/threegate/models" / f"{models.SHA256}.gguf"
    assert kept.stat().st_size == own.stat().st_size
    again = cli("model", "pull", models.NAME)
    assert again.out == f"{models.NAME}  was here, and is intact\n"
    table = cli("model", "list").out
    assert f"yes   chat       98 MB     Apache-2.0  {models.NAME} (smoke test only" in table
    removed = cli("model", "remove", models.NAME)
    assert removed.out == f"{models.NAME}  98 MB removed\n"
    assert not kept.exists()


def test_another_file_is_not_the_model(cli: Cli, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF" + bytes(1000))
    refused = cli("model", "pull", models.NAME, "--from", wrong, code=os.EX_UNAVAILABLE)
    assert "does not hold smollm2-135m-instruct-q4_1" in refused.err
    assert "[TG-MDL-041]" in refused.err
    assert not list((tmp_path / ".cache/threegate/models").glob("*.gguf"))


def test_the_status_names_the_policys_models_and_fails_without_them(
    cli: Cli, tmp_path: Path
) -> None:
    told = cli("model", "status", "--json", code=os.EX_UNAVAILABLE)
    found = told.json["models"]
    assert [(item["use"], item["name"], item["state"]) for item in found] == [
        ("answers (embedded)", "qwen2.5-coder-1.5b-instruct-q4_k_m", "missing"),
        ("vectors", "all-minilm-l6-v2", "missing"),
    ]
    assert "[TG-MDL-021]" in told.err
    cli("model", "pull", "all-minilm-l6-v2", "--from", models.minilm()[0].parent)
    place = tmp_path / ".cache/threegate/models"
    damaged = place / f"{found[0]['sha256']}.gguf"
    damaged.write_bytes(b"GGUF")
    shown = cli("model", "status", code=os.EX_UNAVAILABLE)
    assert "damaged  qwen2.5-coder-1.5b-instruct-q4_k_m" in shown.out
    assert "here     all-minilm-l6-v2" in shown.out


def test_a_model_nobody_knows_is_a_mistake(cli: Cli) -> None:
    told = cli("model", "pull", "gpt-\x1b[31m", code=2)
    assert "is neither a known model" in told.err
    assert "\x1b" not in told.err
    assert cli("model", "remove", "../../etc/passwd", code=2).out == ""
