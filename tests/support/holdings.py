"""What a workspace holds in tests: packets about one field, results of runs, files and images."""

import io
import secrets
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from tests.support import samples
from tests.support.requests import approve_for, request_for
from tests.support.samples import approval, box, digest, packet, tool_request, tool_result
from tests.support.workspaces import keep_blob, take_in
from threegate.artifacts import registry
from threegate.artifacts.analysis import Cite, Claim
from threegate.artifacts.ids import sha256_hex
from threegate.artifacts.research_packet import Excerpt, Identifier, ResearchPacket
from threegate.artifacts.tool_result import OutputFile
from threegate.handoff import states
from threegate.handoff.journal import Put
from threegate.host.workspace.workspace import Workspace

ICE = (
    "Sea ice at -5 \u00b0C broke at 1.2 MPa. Fresh ice of the same age broke at 2.4 MPa.",
    "We cut 14 beams from the level ice of the bay. Salt makes ice weaker.",
)
SNOW = ("Snow of the first winter month had a density of 310 kg/m3. Wind packs it.",)
BIRDS = ("The arctic tern flies 70,900 km a year. Nobody knows how it sleeps.",)


def paper(number: int, *texts: str, title: str = "", **changes: Any) -> ResearchPacket:
    """Return a packet with its own DOI."""
    doi = f"10.5555/tg.{number}"
    named = {
        "reference": box(f"doi:{doi}"),
        "title": box(title or f"Work {number}"),
        "identifiers": (Identifier("doi", box(doi)),),
        "hazards": (),
        "gaps": (),
    }
    return packet(*texts, **{**named, **changes})


def found_by_search(*texts: str, label: str = "candidate {}", **changes: Any) -> ResearchPacket:
    """Return the packet of a search that found these."""
    places = tuple(
        Excerpt(box(label.format(n)), None, 0, len(text), sha256_hex(text.encode()))
        for n, text in enumerate(texts, 1)
    )
    named = {"reference": box("search:crossref:sea ice"), "title": box("Works about sea ice")}
    listed = {"texts": tuple(map(box, texts)), "excerpts": places, "hazards": (), "gaps": ()}
    return packet(**{**named, **listed, **changes})


def shelf() -> list[ResearchPacket]:
    """Return three papers; the first is about sea ice."""
    return [
        paper(1, *ICE, title="On the strength of sea ice"),
        paper(2, *SNOW, title="Density of snow"),
        paper(3, *BIRDS, title="Long ways of small birds"),
    ]


# -- Results of runs that never were, put into a workspace: their texts are what a test is about.


def put_results(ws: Workspace, texts: Sequence[str]) -> list[str]:
    """Put a result here for each text, which is its output; return their ids."""
    (request,) = take_in(ws, tool_request(inputs=(), nonce=secrets.token_hex(16)))
    ap = registry.emit(approval(request=request))
    approval_id = "ap-" + sha256_hex(ap)
    puts = [Put(states.directory_of("ap", "spent"), f"{approval_id}.md", ap)]
    for number, text in enumerate(texts):
        made = tool_result(str(number), text, request=request, approval=approval_id)
        data = registry.emit(made)
        puts.append(Put("handoff/results/accepted", f"res-{sha256_hex(data)}.md", data))
    with ws.store.locked() as journal:
        journal.run("finish", puts)
    return [put.name.removesuffix(".md") for put in puts[1:]]


# -- A workspace in which a run left files, and an answer was made from its result.


def answer_on(ws: Workspace, files: Mapping[str, bytes]) -> tuple[str, str]:
    """Store a result with these files and an analysis of it; return the ids of both."""
    for data in {sha256_hex(data): data for data in files.values()}.values():
        if not ws.store.has_blob(sha256_hex(data)):
            keep_blob(ws, data)
    request = request_for(ws, "1.2 + 1.2")
    (request_id,) = take_in(ws, request)
    approval = approve_for(ws, request)
    left = tuple(
        OutputFile(name, len(files[name]), sha256_hex(files[name])) for name in sorted(files)
    )
    result = samples.tool_result(
        "2.4", request=request_id, approval=approval, backend="era", exit_code=0, files=left
    )
    (result_id,) = take_in(ws, result)
    analysis = samples.analysis(
        selection=(result_id,),
        derived_from=(result_id,),
        confidentiality="internal",
        claims=(Claim("quote found", (Cite(result_id, 1, 0, 3, digest("2.4")),)),),
        claim_texts=(box("It is 2.4."),),
        quotes=(box("2.4"),),
    )
    return take_in(ws, analysis)[0], result_id


# -- Image files, ordinary and hostile, made chunk by chunk.

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SCRIPT = b"<script>alert(1)</script>"
SIDES = (60, 40)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def head(width: int, height: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))


def png(
    *between: bytes, width: int = SIDES[0], height: int = SIDES[1], behind: bytes = b""
) -> bytes:
    """Return a file whose points differ from place to place, with chunks before its points."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x % 256, y % 256, 7)) for x in range(width)) for y in range(height)
    )
    points = chunk(b"IDAT", zlib.compress(rows))
    return (
        SIGNATURE + head(width, height) + b"".join(between) + points + chunk(b"IEND", b"") + behind
    )


def points(width: int = SIDES[0], height: int = SIDES[1]) -> bytes:
    """Return what is to be seen in `png`."""
    return b"".join(bytes((x % 256, y % 256, 7)) for y in range(height) for x in range(width))


def huge(width: int, height: int) -> bytes:
    """Return a small file that says it is large."""
    return SIGNATURE + head(width, height) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))


def bomb() -> bytes:
    """Return a small file with a text of 128 MiB."""
    packer = zlib.compressobj(1)
    zeros = bytes(1 << 20)
    text = b"".join(packer.compress(zeros) for _ in range(128)) + packer.flush()
    return png(chunk(b"zTXt", b"Comment\0\0" + text))


def saved(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    """Return an image as a file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def jpeg(**options: Any) -> bytes:
    return saved(Image.frombytes("RGB", SIDES, points()), "JPEG", **options)


def animated() -> bytes:
    """Return a file with a first picture of the points above and a second one in red."""
    first, second = Image.frombytes("RGB", SIDES, points()), Image.new("RGB", SIDES, (255, 0, 0))
    return saved(first, save_all=True, append_images=[second], duration=10)


def chunks_of(data: bytes) -> list[bytes]:
    """Return the kinds of the chunks of a file, which must be nothing but chunks."""
    assert data.startswith(SIGNATURE)
    at, kinds = len(SIGNATURE), []
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kinds.append(data[at + 4 : at + 8])
        assert chunk(kinds[-1], data[at + 8 : at + 8 + length]) == data[at : at + 12 + length]
        at += 12 + length
    assert at == len(data), "nothing behind the end"
    return kinds
