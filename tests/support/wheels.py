"""Small packages that carry a part of a model, for pulls that need no network."""

import hashlib
import zipfile
from pathlib import Path

from threegate.host.models.catalogue import Model, ModelFile, ModelPart, Piece

VERSION = "1.0"


def wheel(directory: Path, package: str, members: dict[str, bytes]) -> ModelPart:
    """Write a package with these files; return it as a catalogue pins it."""
    name = package.replace("-", "_")
    info = f"{name}-{VERSION}.dist-info"
    path = directory / f"{name}-{VERSION}-py3-none-any.whl"
    about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {VERSION}\n"
    extra = {
        f"{info}/METADATA": about.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
        # What runs the moment somebody imports it.
        f"{name}/__init__.py": f"open({str(directory / 'imported')!r}, 'w')\n".encode(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in {**members, **extra}.items():
            archive.writestr(member, data)
    data = path.read_bytes()
    return ModelPart(package, VERSION, hashlib.sha256(data).hexdigest(), len(data))


def cut_up(directory: Path, whole: bytes, count: int = 3) -> Model:
    """Return a model whose one file is carried by that many packages in `directory`."""
    size = -(-len(whole) // count)
    pieces = []
    for number in range(count):
        data = whole[number * size : (number + 1) * size]
        package, member = f"tiny-model-part{number + 1}", f"tiny_model_part{number + 1}/part.bin"
        pieces.append(Piece(wheel(directory, package, {member: data}), member))
    return model_of(whole, tuple(pieces))


def model_of(whole: bytes, pieces: tuple[Piece, ...] = ()) -> Model:
    """Return a model of one file with these bytes."""
    digest = hashlib.sha256(whole).hexdigest()
    return Model("tiny", "chat", "none", "", (ModelFile(digest, len(whole), ".gguf", pieces),))
