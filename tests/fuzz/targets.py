"""What is fuzzed: for each parser, what it may do with any bytes, and seeds that reach deep."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import documents, images, office, pages, sshlab, tables, vectors
from tests.support.policies import policy
from threegate.artifacts import draft, registry
from threegate.artifacts.codec import decode
from threegate.artifacts.front_matter import FrontMatter
from threegate.artifacts.references import ENRICHERS, parse_reference, questions
from threegate.audit.checkpoint import Checkpoint, emit_checkpoint, parse_checkpoint
from threegate.audit.entry import emit_line, parse_data, what_is_wrong
from threegate.base import canonical
from threegate.base.errors import (
    ArtifactRejected,
    HandoffTampered,
    PolicyInvalid,
    ProtocolBroken,
    SignatureRefused,
)
from threegate.base.text import FORBIDDEN, quote, visible_lines
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.messages import (
    KeptAnswer,
    Miss,
    Normalize,
    RetrievalRecord,
    parse_normalize,
    parse_record,
)
from threegate.gates.fetch.normalize.readers import (
    delimited,
    docx,
    epub,
    html,
    json_data,
    latex,
    markdown,
    notebook,
    odt,
    pptx,
    xlsx,
    xml_text,
)
from threegate.gates.fetch.normalize.text import Read, Unread
from threegate.gates.fetch.retrieve import messages as retrieve
from threegate.gates.fetch.retrieve.hops import check_url, follow
from threegate.gates.fetch.retrieve.types import sniff
from threegate.gates.http_library.client import (
    ByteStream,
    ConnectionLost,
    Deadline,
    Exchange,
    NotRetrieved,
)
from threegate.gates.model.chat import messages as chat
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era.job import JobBounds, Over, Taken
from threegate.gates.tool_exec.era.messages import HeavyOutcome, parse_outcome
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.handoff.claims import Lease, parse_lease
from threegate.host.bibliography.formats import EntryUnreadable
from threegate.host.bibliography.reader import read_list
from threegate.host.images.kernel import LZ4_MAGIC, unpack_lz4
from threegate.host.images.lock import SHIPPED, parse_lock
from threegate.host.images.manifest import parse_manifest
from threegate.host.importing.types import detect
from threegate.keys import signers
from threegate.keys.public import parse_public_line
from threegate.keys.sshsig import parse_signature
from threegate.policy.bundle import Bundle, parse_bundle
from threegate.policy.compiler import default_files, read_source
from threegate.policy.hosts import parse_url
from threegate.policy.sections import SECTIONS
from threegate.sandbox.channel import ChannelBroken, MessageReader, frames

FRONT = FrontMatter(("a", "b", "c"))


@dataclass(frozen=True)
class Target:
    """A parser: `attempt` returns or raises one of `allowed`; anything else is a finding."""

    attempt: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]

    def __call__(self, data: bytes) -> None:
        try:
            self.attempt(data)
        except self.allowed:
            return


class Finding(Exception):
    """A parser accepted something it must not, or spelled it in another way."""


def same(spelled: bytes, data: bytes) -> None:
    if spelled != data:
        raise Finding("accepted, but spelled in another way")


def _format(prefix: str) -> Target:
    form = registry.FORMATS[prefix]
    start = f'---\nformat: "{form.name}"\n'.encode("ascii")

    def attempt(data: bytes) -> None:
        same(form.emit(form.parse(Untrusted(data))), data)

    def seeds() -> list[bytes]:
        sides = vectors.load("accept") + vectors.load("reject")
        return [v.data for v in sides if v.data.startswith(start) and len(v.data) < 8192]

    return Target(attempt, (ArtifactRejected,), seeds)


def _any_artifact(data: bytes) -> None:
    artifact = registry.parse(Untrusted(data))
    same(registry.emit(artifact), data)
    registry.labels_of(artifact)
    artifact.parents()


def _front_matter(data: bytes) -> None:
    text = decode(Untrusted(data), 1 << 20)
    values, body = FRONT.read(text)
    front = "\n".join(
        f"{key}: {json.dumps(v, ensure_ascii=False)}"
        for key, v in zip(FRONT.keys, values, strict=True)
    )
    # One key a line, each with the value that a stranger reads there.
    same(f"---\n{front}\n---\n\n{body}".encode(), data)


def _draft(data: bytes) -> None:
    draft.is_draft(Untrusted(data))
    made = draft.complete_draft(Untrusted(data), created=vectors.CREATED, nonce=vectors.NONCE)
    if registry.parse(Untrusted(registry.emit(made))) != made or made.origin != "operator":
        raise Finding("a draft became something else")


def _canonical(data: bytes) -> None:
    same(canonical.encode(canonical.decode(data)), data)


def _signers(data: bytes) -> None:
    found = signers.parse_signers(data)
    again = signers.emit(found)
    if signers.parse_signers(again) != found:
        raise Finding("signers read back are others")


def _signature(data: bytes) -> None:
    parse_signature(Untrusted(data))


def _public_key(data: bytes) -> None:
    parse_public_line(Untrusted(data))


def _checkpoint(data: bytes) -> None:
    same(emit_checkpoint(parse_checkpoint(Untrusted(data))), data)


def _bundle(data: bytes) -> None:
    same(parse_bundle(data).bundle_bytes(), data)


def _audit_line(data: bytes) -> None:
    what_is_wrong(data, seq=0)
    texts = data.split(b"\n")
    for text, value in zip(texts, parse_data(texts), strict=False):
        same(canonical.encode(value), text)


def _policy_page(data: bytes) -> None:
    read_source("page.md", data)


def _policy(data: bytes) -> None:
    section = SECTIONS[data[0] % len(SECTIONS) if data else 0]
    section.read_block(read_source(section.file, data[1:]))


def _lease(data: bytes) -> None:
    parse_lease(data)


def _page(data: bytes) -> None:
    found = html.read(Untrusted(data), pages.answer())
    if not found.parts or found != html.read(Untrusted(data), pages.answer()):
        raise Finding("a page is read in two ways, or as nothing")


def _document(reader: Read, *seeds: bytes) -> Target:
    def attempt(data: bytes) -> None:
        if reader(Untrusted(data), pages.answer()) != reader(Untrusted(data), pages.answer()):
            raise Finding("a document is read in two ways")

    return Target(attempt, (Unread,), lambda: list(seeds))


def _file_type(data: bytes) -> None:
    name, _, rest = data.partition(b"\n")
    assert "/" in detect(name.decode("latin-1"), rest)


def _page_seeds() -> list[bytes]:
    return [(head + inner).encode() for head, inner in pages.HIDDEN.values()]


def _shown(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    # What is left may be unprintable (unassigned, private use), but it is nothing that acts.
    if FORBIDDEN.search(quote(text)) or "\n" in quote(text):
        raise Finding("a quoted text can drive a terminal")
    if FORBIDDEN.search(visible_lines(text)):
        raise Finding("a shown text can drive a terminal")


def _from_vectors(kind: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        found = [sshlab.load(kind, side).values() for side in ("accept", "reject")]
        return [data for side in found for _, data in side]

    return seeds


def _policy_seeds() -> list[bytes]:
    whole = [default_files()[section.file] for section in SECTIONS]
    # Short pages, so that a page is read in a millisecond: the fence and what stands in it.
    pages = [b"# P\n\n" + page[page.index(b"```yaml") :] for page in whole]
    return [bytes([number]) + page for number, page in enumerate(pages)]


def _bundle_seeds() -> list[bytes]:
    compiled = policy()
    return [Bundle(compiled.sections, compiled.refs, 1, None).bundle_bytes()]


def _draft_seeds() -> list[bytes]:
    sides = vectors.load("accept") + vectors.load("reject")
    return [v.data for v in sides if v.is_draft and len(v.data) < 8192]


def _artifact_seeds() -> list[bytes]:
    return [v.data for v in vectors.load("accept") if not v.is_draft]


SIGNERS = sshlab.load("signers", "accept")["002-one-key"][1]
LEASE = Lease("boot", 1, 2).to_bytes()
_LINE = emit_line("x", {"a": 1}, prev="0" * 64, seq=0, time=vectors.CREATED)

_REFUSAL = tool_lite.RefusalFound("yield", 3, "no generators")
_ASKED = tool_lite.LiteJob("run", 1, b"request", b"approval", b"signature", (("rows", b"[1]"),))
_CHECK = tool_lite.CheckCode("x = 1", ("sha256_hex",), ("rows",), "pure")
_RAN = tool_lite.LiteOutcome("ok", b"1", b"out", b"err", calls=(("sha256_hex", 1),), cpu_ms=3)
_KEPT_OUT = tool_lite.LiteOutcome("refused:approval", code="TG-APR-007", message="expired")


def _lite_ask(data: bytes) -> None:
    same(tool_lite.parse_ask(Untrusted(data)).to_bytes(), data)


def _lite_outcome(data: bytes) -> None:
    same(tool_lite.parse_outcome(Untrusted(data)).to_bytes(), data)


def _lite_checked(data: bytes) -> None:
    same(tool_lite.parse_checked(Untrusted(data)).to_bytes(), data)


_HEAVY = HeavyOutcome(
    "error", exit_code=-9, stdout=b"out", files=(("a.csv", b"1"),), probes=("guest-cpus",)
)
_TOLD = [
    (guest.STDOUT, b"out"),
    (guest.FILE, b'{"bytes":2,"name":"a"}'),
    (guest.DATA, b"ab"),
    (guest.EXIT, b'{"code":0,"oom":false,"signal":0}'),
]
_FRAMES = b"".join(guest.HEADER.pack(kind, len(body)) + body for kind, body in _TOLD)


def _heavy_outcome(data: bytes) -> None:
    same(parse_outcome(Untrusted(data)).to_bytes(), data)


def _guest_frames(data: bytes) -> None:
    """Take frames as the gate does: nothing beyond the bounds may ever be held."""
    taken = Taken(JobBounds(wall_ms=1, output_bytes=16, disk_bytes=16, files={"a": 8, "b": 16}))
    size = guest.HEADER.size
    while len(data) >= size and taken.exit is None:
        kind, length = guest.parse_header(data[:size])
        taken.take(kind, Untrusted(data[size : size + length]))
        data = data[size + length :]
        assert len(taken.stdout) + len(taken.stderr) <= 16
        assert sum(map(len, taken.files.values())) <= 16


_ANSWER = KeptAnswer(
    source="crossref",
    role="metadata",
    reference="doi:10.5555/a",
    url="https://api.crossref.org/works/10.5555%2Fa",
    hops=(("https://api.crossref.org/", 301),),
    status=200,
    media_type="",
    read_as="application/json",
    retrieved=vectors.CREATED,
    sha256="0" * 64,
    bytes=2,
    trust_anchor="system",
)
_MISS = Miss("openalex", "doi:10.5555/a", "failed", "no")
_RECORD = RetrievalRecord(
    "doi:10.5555/a", "doi", "metadata", None, None, "public", (_ANSWER,), (_MISS,)
)
_ASK = Normalize(_RECORD.to_bytes(), (b"{}",))


def _retrieval_record(data: bytes) -> None:
    if data.startswith(b'{"fields"'):
        same(parse_normalize(Untrusted(data)).to_bytes(), data)
    else:
        same(parse_record(Untrusted(data)).to_bytes(), data)


def _reference(data: bytes) -> None:
    try:
        found = parse_reference(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        return
    if parse_reference(found.text) != found:
        raise Finding("a reference read back is another")
    # A URL is as it was given, and judged by policy alone.
    for question in questions(found, enrich=ENRICHERS) if found.scheme != "url" else ():
        parse_url(question.url)


_URL = "https://api.crossref.org/works/1"
_GOT = retrieve.Got(
    *(200, _URL, ((_URL, 302),), "text/xml", "application/xml", '"e"', None, 7),
    *({"x-ratelimit-limit": "50"}, "system", b"<a/>"),
)
_NOT_GOT = retrieve.NotGot("TG-FET-019", "failed", "too often", _URL, (), 30, 429)
_QUESTION = retrieve.FetchQuestion(
    *(_URL, "application/json", 1_000, 'W/"e"', None, "secret-key"),
    retrieve.Authority(b"request", b"approval", b"signature"),
)
_RESPONSE = b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: "e"\r\n\r\nhello'
_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nA: b\r\n\r\n"


def _retrieve_answer(data: bytes) -> None:
    same(retrieve.parse_answer(Untrusted(data)).to_bytes(), data)


def _retrieve_ask(data: bytes) -> None:
    same(retrieve.parse_question(Untrusted(data)).to_bytes(), data)


class _Said(ByteStream):
    """A server that says this and ends."""

    def __init__(self, data: bytes) -> None:
        self._data, self.received = data, 0

    has_more = False

    def receive(self, _: Deadline) -> bytes:
        data, self._data = self._data, b""
        return data


def _http_response(data: bytes) -> None:
    stream, deadline = _Said(data), Deadline(60)
    exchange = Exchange("GET", "/", [("Host", "x")], max_head_bytes=4096)
    head = exchange.head(stream, deadline)
    assert 200 <= head.status <= 599
    assert not any(set(value) & set("\r\n\0") for value in head.headers.values())
    assert not {"content-length", "transfer-encoding"} <= set(head.headers), "two ends"
    body = exchange.body(stream, most=1000, deadline=deadline)
    assert len(body) <= 1000
    assert head.length is None or len(body) == head.length


def _location(data: bytes) -> None:
    base = check_url("https://api.crossref.org/works/1?q=2")
    found = follow(base, data.decode("latin-1"))
    assert check_url(found.text) == found
    assert parse_url(found.text).host == found.host


def _sniffed(data: bytes) -> None:
    assert sniff(data[:1024])


def _chat(data: bytes) -> None:
    parse = chat.parse_reply if data.startswith(b'{"choices"') else chat.parse_request
    same(parse(Untrusted(data)).to_bytes(), data)


def _framed(data: bytes) -> None:
    found = MessageReader(1000).feed(data)
    assert all(len(message) <= 1000 for message in found)
    again = MessageReader(1000).feed(b"".join(map(frames, found)))
    if again != found:
        raise Finding("messages read back are others")


_CHAT = chat.ChatRequest((("system", "a"), ("user", "b")), 5, 1, 'root ::= "x"', '{"a":1}')
_REPLY = chat.ChatReply(Untrusted("x"), "stop", 1, 2, "m")


def _reading_list(data: bytes) -> None:
    found = read_list(Untrusted(data))
    again = "".join(f"{reference.text}\n" for reference in found.references)
    if read_list(Untrusted(again.encode())).references != found.references:
        raise Finding("references read back are others")
    if any(FORBIDDEN.search(problem.message) for problem in found.problems):
        raise Finding("a problem that can drive a terminal")


def _reading_seeds() -> list[bytes]:
    return [
        b"# list\n10.5555/a\narxiv:1706.03762v5 # x\nhttps://example.org/\n",
        b'@misc{k, doi = {10.5555/a\\_b}, eprint = "1706.03762", archivePrefix = arXiv # {}}\n',
        b"TY  - JOUR\nDO  - 10.5555/a\nUR  - https://arxiv.org/abs/1706.03762\nER  - \n",
        b'[{"DOI": "10.5555/a", "PMID": 1}, {"archive": "arXiv", "archive_location": "x"}]',
    ]


def _image_lock(data: bytes) -> None:
    for tried in (data, b"image-lock/1\n" + data):
        try:
            lock = parse_lock(tried)
        except ArtifactRejected:
            continue
        same(lock.text.encode("ascii"), tried)


def _image_manifest(data: bytes) -> None:
    same(parse_manifest(data).data, data)


# "abcd", four from four back, "!": nine bytes.
_PACKED = LZ4_MAGIC + b"\x09\0\0\0\x40abcd\x04\0\x10!" + b"\x09\0\0\0"


def _lz4(data: bytes) -> None:
    if len(unpack_lz4(data, max_bytes=1 << 20)) > 1 << 20:
        raise Finding("more than allowed")


TARGETS: dict[str, Target] = {
    "chat": Target(_chat, (ProtocolBroken,), lambda: [_CHAT.to_bytes(), _REPLY.to_bytes()]),
    "framed": Target(_framed, (ChannelBroken,), lambda: [frames(b"abc") * 2, frames(b"")]),
    **{f"artifact-{prefix}": _format(prefix) for prefix in registry.FORMATS},
    "artifact-any": Target(_any_artifact, (ArtifactRejected,), _artifact_seeds),
    "front-matter": Target(
        _front_matter,
        (ArtifactRejected,),
        lambda: [b'---\na: [1, "x"]\nb: null\nc: {"k": 1}\n---\n\n'],
    ),
    "draft": Target(_draft, (ArtifactRejected,), _draft_seeds),
    "canonical": Target(_canonical, (ValueError,), lambda: [b'{"a":[1,-2,null,"\xc3\xa9"]}']),
    "ssh-signature": Target(_signature, (SignatureRefused,), _from_vectors("signature")),
    "ssh-public-key": Target(_public_key, (SignatureRefused,), lambda: [SIGNERS[-84:]]),
    "allowed-signers": Target(_signers, (PolicyInvalid,), _from_vectors("signers")),
    "policy-page": Target(_policy_page, (PolicyInvalid,), lambda: list(default_files().values())),
    "policy": Target(_policy, (PolicyInvalid,), _policy_seeds),
    "policy-bundle": Target(_bundle, (PolicyInvalid,), _bundle_seeds),
    "checkpoint": Target(
        _checkpoint,
        (ArtifactRejected,),
        lambda: [emit_checkpoint(Checkpoint("workspace", 7, b"\1" * 32))],
    ),
    "audit-line": Target(_audit_line, (), lambda: [_LINE, b'{"a":1}\n{"b":[true]}']),
    "lease": Target(_lease, (HandoffTampered,), lambda: [LEASE]),
    "lite-ask": Target(
        _lite_ask, (ProtocolBroken,), lambda: [_ASKED.to_bytes(), _CHECK.to_bytes()]
    ),
    "lite-outcome": Target(
        _lite_outcome, (ProtocolBroken,), lambda: [_RAN.to_bytes(), _KEPT_OUT.to_bytes()]
    ),
    "lite-checked": Target(
        _lite_checked,
        (ProtocolBroken,),
        lambda: [tool_lite.CodeChecked(_REFUSAL, (_REFUSAL,)).to_bytes()],
    ),
    "heavy-outcome": Target(_heavy_outcome, (ProtocolBroken,), lambda: [_HEAVY.to_bytes()]),
    "guest-frames": Target(_guest_frames, (ProtocolBroken, Over), lambda: [_FRAMES]),
    "reference": Target(
        _reference,
        (),
        lambda: [
            b"doi:10.1002/(SICI)1097-4695(20000205)42:2<270::AID-NEU10>3.0.CO;2-V",
            b"https://arxiv.org/pdf/hep-th/9901001v2.pdf",
            b"https://pmc.ncbi.nlm.nih.gov/articles/PMC7029158/",
            b"https://doi.org/10.5555/%C3%BC%23",
        ],
    ),
    "reading-list": Target(_reading_list, (EntryUnreadable,), _reading_seeds),
    "retrieval-record": Target(
        _retrieval_record, (ProtocolBroken,), lambda: [_RECORD.to_bytes(), _ASK.to_bytes()]
    ),
    "retrieve-answer": Target(
        _retrieve_answer, (ProtocolBroken,), lambda: [_GOT.to_bytes(), _NOT_GOT.to_bytes()]
    ),
    "retrieve-ask": Target(_retrieve_ask, (ProtocolBroken,), lambda: [_QUESTION.to_bytes()]),
    "http-response": Target(
        _http_response, (NotRetrieved, ConnectionLost), lambda: [_RESPONSE, _CHUNKS]
    ),
    "redirect-location": Target(
        _location, (ValueError,), lambda: [b"https://doi.org:443/a?b=%2F#c", b"//doi.org/", b"../x"]
    ),
    "sniffed-type": Target(
        _sniffed, (), lambda: [b"\xef\xbb\xbf<?xml?><!-- --><html>", b'{"a":1}']
    ),
    "image-lock": Target(_image_lock, (ArtifactRejected,), lambda: [SHIPPED.read_bytes()[-800:]]),
    "image-manifest": Target(
        _image_manifest,
        (ArtifactRejected,),
        lambda: [images.manifest_of(images.FILES).data],
    ),
    "kernel-lz4": Target(_lz4, (ValueError,), lambda: [_PACKED]),
    "page": Target(_page, (Unread,), _page_seeds),
    "markdown": _document(markdown.read, documents.MARKDOWN.encode()),
    "latex": _document(latex.read, documents.LATEX.encode()),
    "notebook": _document(notebook.read, documents.NOTEBOOK),
    "xml": _document(xml_text.read, documents.TEI),
    "docx": _document(docx.read, office.DOCX, office.MACROS),
    "odt": _document(odt.read, office.ODT, *office.ODT_HIDDEN.values()),
    "pptx": _document(pptx.read, office.PPTX),
    "epub": _document(epub.read, office.EPUB),
    "csv": _document(delimited.read, tables.CSV, b'a,"b\n"\n1,5e3\n'),
    "json-data": _document(json_data.read, tables.JSON),
    "xlsx": _document(xlsx.read, tables.XLSX, *tables.XLSX_HIDDEN.values()),
    "file-type": Target(
        _file_type,
        (ArtifactRejected,),
        lambda: [b"a.docx\n" + office.DOCX, b"a.odt\n" + office.ODT, b"a\n<!-- --><html>"],
    ),
    "shown-text": Target(_shown, (), lambda: ["\u202ea\x1b[2J\u200b\ud7ff".encode()]),
}


def _planted(data: bytes) -> None:
    if data[:3] == b"BUG":
        raise KeyError("planted")


# Proof that the fuzzer fuzzes: an error nobody handles, three bytes away from its seed.
PLANTED: dict[str, Target] = {"planted": Target(_planted, (ArtifactRejected,), lambda: [b"BOG"])}
