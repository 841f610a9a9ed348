"""Which lock and which image count."""

import hashlib
from pathlib import Path

import pytest

import threegate
from threegate.base.errors import ArtifactRejected, GateUnavailable, UsageError
from threegate.host.images.choice import SHARED, Sources, current, initramfs_archive
from threegate.host.images.lock import LOCK_FILE, SHIPPED, choose_lock, parse_lock, write_lock
from threegate.host.images.manifest import ImagePart, Manifest, agent_digest, layer_file
from threegate.host.images.store import Image, Images

KERNEL = f"kernel linux-image-6.1.0-1-cloud-amd64 6.1.1-1 amd64 10 {'a' * 64}\n"
OWN = parse_lock(f"image-lock/1\n{KERNEL}".encode())
AGENT = {"__main__.py": b"print()\n", "more/part.py": b""}
OURS = Path(threegate.__file__).parent
SHARED_PARTS = {f"threegate/{name}": (OURS / name).read_bytes() for name in SHARED}


def test_the_lock_that_is_named_comes_before_ones_own_and_that_before_the_shipped(
    tmp_path: Path,
) -> None:
    assert choose_lock(None, tmp_path).path == SHIPPED
    write_lock(OWN, tmp_path / "config" / LOCK_FILE)
    assert choose_lock(None, tmp_path / "config").lock == OWN
    assert choose_lock(SHIPPED, tmp_path / "config").path == SHIPPED
    (tmp_path / LOCK_FILE).write_text("image-lock/1\nnonsense\n", "ascii")
    with pytest.raises(ArtifactRejected, match="line 2"):
        choose_lock(None, tmp_path)  # never the shipped one instead of a broken one of one's own
    with pytest.raises(UsageError, match="cannot read"):
        choose_lock(tmp_path / "none", tmp_path)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    """Make this program one with a known agent."""
    found = Sources(tmp_path / "init", tmp_path / "agent")
    found.init.write_bytes(b"\x7fELF")
    for name, data in AGENT.items():
        (found.agent / name).parent.mkdir(parents=True, exist_ok=True)
        (found.agent / name).write_bytes(data)
    monkeypatch.setattr(Sources, "usual", lambda: found)
    write_lock(OWN, tmp_path / LOCK_FILE)
    return found


def made(
    root: Path, *layers: str, lock: str = OWN.digest, agent: str = "", data: bytes = b"x"
) -> Image:
    names = ["kernel", "initramfs", *map(layer_file, layers)]
    part = ImagePart(hashlib.sha256(data).hexdigest(), len(data))
    digest = agent or agent_digest(AGENT | SHARED_PARTS)
    manifest = Manifest(dict.fromkeys(names, part), layers, "6.1.0", lock, digest)
    images = Images(root)
    with images.making() as work:
        (work / "made").mkdir()
        for name in names:
            (work / "made" / name).write_bytes(data)
        return images.keep(work / "made", manifest)


@pytest.mark.usefixtures("sources")
def test_the_image_of_this_lock_and_this_agent_counts(tmp_path: Path) -> None:
    root = tmp_path / "images"
    made(root, "base", "agent", lock="0" * 64)
    made(root, "base", "agent", agent="0" * 64)
    with pytest.raises(GateUnavailable, match="not on this machine") as caught:
        current(Images(root), tmp_path)
    assert caught.value.code == "TG-IMG-014"
    assert "`threegate image build`" in caught.value.hint
    small = made(root, "base", "agent")
    assert current(Images(root), tmp_path) == small
    with pytest.raises(GateUnavailable, match="not on this machine"):
        current(Images(root), tmp_path, layers=("base", "science"))
    large = made(root, "base", "science", "agent")
    assert current(Images(root), tmp_path, layers=("base", "science")) == large
    assert current(Images(root), tmp_path) == large
    large.kernel.unlink()  # a damaged one does not count
    assert current(Images(root), tmp_path) == small


@pytest.mark.usefixtures("sources")
def test_an_imported_image_with_a_layer_of_its_own_does_not_displace_ours(tmp_path: Path) -> None:
    root = tmp_path / "images"
    made(root, "base", "science", "more", "agent")  # of our lock and agent, as it says
    made(root, "base", "science")  # without the layer an agent would be in
    with pytest.raises(GateUnavailable, match="not on this machine"):
        current(Images(root), tmp_path)
    ours = made(root, "base", "agent")
    assert current(Images(root), tmp_path) == ours


@pytest.mark.usefixtures("sources")
def test_of_two_images_that_fit_equally_none_is_taken(tmp_path: Path) -> None:
    root = tmp_path / "images"
    ours = made(root, "base", "agent")
    assert current(Images(root), tmp_path) == ours, "control"
    other = made(root, "base", "agent", data=b"other")
    with pytest.raises(GateUnavailable, match="2 images call themselves") as caught:
        current(Images(root), tmp_path)
    assert caught.value.code == "TG-IMG-015"
    assert ours.digest[:12] in caught.value.message
    assert other.digest[:12] in caught.value.message
    assert "`threegate image remove DIGEST`" in caught.value.hint
    large = made(root, "base", "science", "agent")
    assert current(Images(root), tmp_path) == large, "one with more of the known layers"


def test_of_two_images_the_one_with_the_init_of_this_program_counts(
    sources: Sources, tmp_path: Path
) -> None:
    root = tmp_path / "images"
    made(root, "base", "agent", data=initramfs_archive(b"\x7fELF of an older compiler", [b"ext"]))
    ours = made(root, "base", "agent", data=initramfs_archive(sources.read().init, [b"ext"]))
    assert current(Images(root), tmp_path) == ours
    made(root, "base", "agent", data=initramfs_archive(sources.read().init, [b"other"]))
    with pytest.raises(GateUnavailable, match="3 images call themselves"):
        current(Images(root), tmp_path)


def test_without_init_or_agent_the_refusal_says_which(sources: Sources) -> None:
    assert sources.read().agent == AGENT | SHARED_PARTS, "control"
    sources.init.unlink()
    with pytest.raises(GateUnavailable, match="init is not compiled"):
        sources.read()
    (sources.agent / "__main__.py").unlink()
    with pytest.raises(GateUnavailable, match="no guest agent"):
        sources.read()
