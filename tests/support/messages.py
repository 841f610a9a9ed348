"""Messages of every protocol, and who parses each: one row a message."""

import struct
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from typing import Final, Protocol

from threegate.base.greeting import GateReady
from threegate.base.untrusted import Untrusted
from threegate.gates.core import messages as core
from threegate.gates.core.messages import Cited, FetchDraft, ModelClaim, TaskSource, ToolDraft
from threegate.gates.fetch.normalize import messages as normalize
from threegate.gates.fetch.proxy import messages as proxy
from threegate.gates.fetch.retrieve import messages as retrieve
from threegate.gates.git_reader import messages as git
from threegate.gates.image_reader import messages as pixels
from threegate.gates.model import messages as model
from threegate.gates.model.chat import messages as chat
from threegate.gates.model.chat.messages import ChatRefused, ChatReply, ChatRequest, Served
from threegate.gates.model.embedder import messages as embed
from threegate.gates.page_drawer import messages as drawer
from threegate.gates.run_gateway import messages as gateway
from threegate.gates.tool_exec.era import guest_messages as guest
from threegate.gates.tool_exec.era import messages as tool_heavy
from threegate.gates.tool_exec.monty import messages as tool_lite
from threegate.gates.tool_exec.monty.messages import LiteOutcome, RefusalFound
from threegate.gates.zotero_reader import messages as zotero
from threegate.policy.ring.commands import ArgumentRule
from threegate.policy.ring.executor_profile import (
    ARGUMENT_RULES,
    FIELDS,
    ExecutorProfile,
    RingViolation,
)


class Message(Protocol):
    """What every message can do."""

    def to_bytes(self) -> bytes:
        """Return its one spelling."""


Parse = Callable[[Untrusted[bytes]], Message]

ASKED: Final = ChatRequest((("system", "Be brief."), ("user", "Où?\n\t\u202e")), 64, 7)

TASK: Final = core.CoreTask(
    question="How strong is ice?",
    policy=("CORE may draft requests.",),
    brief=("You answer from the sources.",),
    may_draft=("tool-request",),
    marker="00" * 16,
    model="test",
    budget=core.TaskBudget(4096, 512, 10, 2, 2, 60_000),
    denied=("compute: the mean. Denied: too few.",),
    sources=(
        TaskSource("packet from example.org", ("Ice broke.", "It was cold.")),
        TaskSource("x", ()),
    ),
)
SAID: Final = core.CoreSaid(
    method="model",
    claims=(ModelClaim(Untrusted("Ice breaks."), (Cited(1, 1, 1), Cited(1, 2, 1))),),
    drafts=(
        ToolDraft(Untrusted("mean"), Untrusted("1 + 1"), (1,)),
        FetchDraft(Untrusted("more"), (Untrusted("doi:10.5555/12345678"),)),
    ),
    notes=(Untrusted("a note"),),
    shown=(1,),
    left_out=3,
    problems=("the reply was cut off",),
    usage=core.ModelUsage(3, 1, 100, 20, 900),
)

EMBEDDED: Final = model.Embedded(10, "smol", "a" * 64, 4096, 2, 900)
BRIDGED: Final = model.Bridged(10, "llama3:8b", "127.0.0.1:11434", 8192, 900)
REMOTE: Final = model.Remote(
    10,
    "qwen2.5:7b",
    "models.example.org",
    8192,
    900,
    12,
    2**20,
    (("system", None), ("ab" * 32, b"a certificate")),
    "X-Api-Key",
    "0123456789",
)

ANSWER: Final = normalize.KeptAnswer(
    source="crossref",
    role="metadata",
    reference="doi:10.5555/12345678",
    url="https://api.crossref.org/works/10.5555%2F12345678",
    hops=(("https://api.crossref.org/v1/works", 301),),
    status=200,
    media_type="application/json",
    read_as="application/json",
    retrieved="2026-11-16T04:30:00Z",
    sha256="0" * 64,
    bytes=2,
    trust_anchor="system",
)
MISS: Final = normalize.Miss(
    "openalex", "doi:10.5555/12345678", "timed-out", "no answer within 90 seconds"
)
RECORD: Final = normalize.RetrievalRecord(
    reference="doi:10.5555/12345678",
    scheme="doi",
    want="metadata",
    request="fr-" + "1" * 64,
    replaces=None,
    confidentiality="internal",
    answers=(ANSWER, replace(ANSWER, source="datacite", hops=(), media_type="")),
    misses=(MISS,),
)

ITEM: Final = zotero.ZoteroItem(
    key="ABCD2345",
    item="ABCD2345",
    group=0,
    type="journalArticle",
    fields={"title": Untrusted("Où?\n\u202e")},
    creators=(("author", Untrusted("Eva"), Untrusted("Berg")),),
    citation_key=Untrusted("Berg2021"),
    collections=(Untrusted("Thesis/Chapter 1"),),
    tags=(Untrusted("to read"),),
    notes=(Untrusted("<p>Ask Eva.</p>"),),
    annotations=(
        zotero.ZoteroAnnotation(
            "highlight", Untrusted("1.31 MPa"), Untrusted(""), Untrusted("iv"), 4, "#ffd400"
        ),
    ),
    cut=0,
)
PLACE: Final = zotero.ZoteroPlace("stored", "ABCD2346", Untrusted("storage:paper.pdf"))

WHERE: Final = "https://api.crossref.org/works/10.5555%2F12345678"
DATE: Final = "Sun, 06 Nov 1994 08:49:37 GMT"
ASK: Final = retrieve.FetchQuestion(WHERE, "application/json", 4096)
GOT: Final = retrieve.Got(
    status=200,
    url=WHERE,
    hops=(("https://doi.org/10.5555/12345678", 302),),
    media_type="application/json",
    read_as="application/json",
    etag='W/"abc"',
    last_modified=DATE,
    retry_after=None,
    limits={"x-rate-limit-limit": "50", "x-rate-limit-interval": "1s"},
    trust_anchor="system",
    body=b"\x00{}",
)
NOT_GOT: Final = retrieve.NotGot(
    "TG-FET-007", "timed-out", "no answer within 90 seconds", WHERE, GOT.hops, 7, 503
)

RULES: Final = proxy.ProxyRules(
    b"{}\nany bytes", 5, (ip_address("192.0.2.7"), ip_address("2001:db8::7"))
)
REFUSAL: Final = RefusalFound("yield", 3, "this has no generators")

RING: Final = ExecutorProfile(
    kind="heavy-python",
    profile="numbers",
    imports=("json", "math"),
    denied_imports=("socket",),
    network="off",
    binaries=("/usr/bin/sort",),
    patterns=("rm -rf",),
    arguments=(ArgumentRule("sorting", ("sort",), ("-o",), ("--stable",)),),
    rules=dict.fromkeys((*FIELDS, ARGUMENT_RULES), "policy/tool-exec.policy.md:7"),
)
ENDS: Final = tool_heavy.Channels(10, 11)
HEAVY_JOB: Final = tool_heavy.HeavyJob(
    ENDS,
    tool_heavy.GuestShape(1, 2**28),
    60,
    (tool_heavy.GivenInput("a", 3), tool_heavy.GivenInput("b", 0)),
    12,
    b"{}",
    b"request",
    b"approval",
    b"signature",
)
HEAVY_OUTCOME: Final = tool_heavy.HeavyOutcome(
    "error",
    exit_code=-9,
    stdout=b"out",
    stderr=b"err",
    cut=tool_heavy.HeavyCut(stderr=True),
    files=(("a.csv", b"1"), ("b", b"")),
    probes=("guest-cpus", "guest-memory"),
    violations=(RingViolation("denied_imports", "requests", 3),),
)

GATEWAY: Final = gateway.GatewayOpening(
    channel_fd=12,
    hosts=("api.example.org",),
    methods=("GET", "POST"),
    up_bytes=10,
    down_bytes=20,
    requests=3,
    seconds=30,
    anchors=(("system", None), ("ab" * 32, b"a certificate")),
    key="0" * 32,
    marks=((8, 97, "1" * 32), (9, 98, "2" * 32)),
    places=dict.fromkeys(gateway.REFUSALS, "policy/tool-exec.policy.md:7"),
)


def row(*numbers: float) -> bytes:
    """Return a vector that begins with these numbers."""
    return struct.pack(
        f"<{embed.DIMENSIONS}f", *numbers, *[0.0] * (embed.DIMENSIONS - len(numbers))
    )


MESSAGES: Final[dict[str, tuple[tuple[Message, Parse], ...]]] = {
    "chat": (
        (ASKED, chat.parse_request),
        (
            ChatRequest(ASKED.messages, 1, 0, 'root ::= "x"', '{"type":"object"}'),
            chat.parse_request,
        ),
        (
            ChatReply(Untrusted('{"a": "\x00"}'), "stop", 12, 3, "qwen2.5:1.5b"),
            chat.parse_reply,
        ),
        (ChatReply(Untrusted(""), "length", 0, 0, "m"), chat.parse_reply),
        (ChatRefused("TG-MDL-001", "no such place"), chat.parse_refused),
    ),
    "core": (
        (TASK, core.parse_task),
        (SAID, core.parse_said),
        (core.CoreNotSaid("TG-COR-001", "the model does not answer"), core.parse_said),
    ),
    "embed": (
        (embed.EmbedderOpening("a" * 64, "b" * 64), embed.parse_opening),
        (GateReady(embed.PROTOCOL, {"numpy": "2.4.6"}), embed.GREETING.parse),
        (embed.GREETING.refused("TG-EMB-001", "the weights are others"), embed.GREETING.parse),
        (
            embed.Embed((Untrusted("one"), Untrusted(""), Untrusted("drei ß"))),
            embed.parse_embed,
        ),
        (embed.TextVectors((row(1.0), row(0.6, 0.8))), lambda data: embed.parse_vectors(data, 2)),
    ),
    "model": (
        (EMBEDDED, model.parse_embedded),
        (BRIDGED, model.parse_bridged),
        (
            model.ready(Served("smol", "a" * 64, 4096), {"xllamacpp": "2026.10"}),
            model.GREETING.parse,
        ),
        (model.ready(Served("smol", None, 4096), {}), model.GREETING.parse),
        (
            model.GREETING.refused("TG-MDL-015", "the model file is another one"),
            model.GREETING.parse,
        ),
        (REMOTE, model.parse_remote),
        (
            replace(REMOTE, anchors=REMOTE.anchors[:1], header=None, credential=None),
            model.parse_remote,
        ),
        (replace(BRIDGED, endpoint="unix:/run/server.sock"), model.parse_bridged),
        (model.ModelProgress("prompt", 256, 1024), model.parse_progress),
        (model.ModelProgress("reply", 16, 64), model.parse_progress),
    ),
    "pixels": (
        (pixels.Decode(b"\x89PNG"), pixels.parse_decode),
        (pixels.Pixels(2, 1, 20, 10, b"\0\xff\n{}\n"), pixels.parse_pixels),
        (pixels.NotRead("damaged"), pixels.parse_pixels),
    ),
    "page-drawer": (
        (drawer.DrawPage("iv", 200, "Où?\n\u202e", b"%PDF"), drawer.parse_draw),
        (drawer.DrawPage("3", 25, "", b""), drawer.parse_draw),
        (drawer.DrawnPage(3, 12, "part", 2, 1, b"\0\xff\n{}\n"), drawer.parse_drawn),
        (drawer.PageNotDrawn("no-such-page", 12), drawer.parse_drawn),
    ),
    "git-reader": (
        (git.ListCommit("ab12", sha256=False), git.parse_asked),
        (git.ReadBlobs(("a" * 40, "b" * 40)), git.parse_asked),
        (git.CompareBlobs((("src/a.py", None, "a" * 40),)), git.parse_asked),
        (git.CommitListed("a" * 40, (("%2Ea/b", "file", "b" * 40),)), git.parse_listed),
        (git.CommitNotListed("too-many"), git.parse_listed),
        (git.BlobsRead(("read", "missing"), (b"x\n{}\n",)), git.parse_blobs),
        (git.BlobsCompared(("binary", "read"), b"--- a/x\n"), git.parse_compared),
    ),
    "zotero-reader": (
        (zotero.ReadLibrary("Thesis", "", b"SQLite", b"", b""), zotero.parse_read),
        (ITEM, zotero.parse_item),
        (replace(ITEM, citation_key=None, annotations=(), fields={}), zotero.parse_item),
        (PLACE, zotero.parse_place),
        (zotero.LibraryRead(ITEM.to_bytes(), PLACE.to_bytes()), zotero.parse_answer),
        (zotero.LibraryNotRead("no-collection"), zotero.parse_answer),
    ),
    "normalize": (
        (RECORD, normalize.parse_record),
        (replace(RECORD, request=None, answers=(), misses=()), normalize.parse_record),
        (normalize.Normalize(RECORD.to_bytes(), (b"{}", b"[]")), normalize.parse_normalize),
        (normalize.Normalize(b"", ()), normalize.parse_normalize),
        (normalize.PacketMade(b"packet"), normalize.parse_made),
        (normalize.NormalizeMany((RECORD.to_bytes(), b"{}")), normalize.parse_normalize),
        (
            normalize.ManyMade((normalize.PacketMade(b"packet").to_bytes(),)),
            normalize.parse_many,
        ),
        (normalize.PacketNotMade("TG-NRM-001", "nothing was found"), normalize.parse_made),
    ),
    "proxy": (
        (RULES, proxy.parse_rules),
        (proxy.InForce(3, "ab" * 32), proxy.parse_in_force),
        (proxy.InForce(3, "ab" * 32, RULES.own), proxy.parse_in_force),
        (
            proxy.ProxyRules(b"", 5, (), "runs", hosts=("api.example.org",), pin=True),
            proxy.parse_rules,
        ),
    ),
    "retrieve": (
        (retrieve.RetrieveOpening(b"{}"), retrieve.parse_opening),
        (retrieve.RetrieveOpening(b"{}", (b"-----BEGIN", b"x")), retrieve.parse_opening),
        (GateReady(retrieve.PROTOCOL, {"ada": "2.9", "threegate": "0.1"}), retrieve.GREETING.parse),
        (
            retrieve.GREETING.refused("TG-POL-002", "the policy cannot be read"),
            retrieve.GREETING.parse,
        ),
        (ASK, retrieve.parse_question),
        (
            replace(ASK, etag='"x"', last_modified=DATE, credential="Bearer abc"),
            retrieve.parse_question,
        ),
        (
            replace(ASK, authority=retrieve.Authority(b"request", b"approval", b"")),
            retrieve.parse_question,
        ),
        (GOT, retrieve.parse_answer),
        (replace(GOT, status=304, body=b"", trust_anchor="a" * 64), retrieve.parse_answer),
        (NOT_GOT, retrieve.parse_answer),
        (
            retrieve.NotGot("TG-FET-001", "denied", "not an https:// URL", None, ()),
            retrieve.parse_answer,
        ),
        (retrieve.RetrieveOpening(b"{}", purpose="downloads:models"), retrieve.parse_opening),
        (replace(ASK, first_byte=4096), retrieve.parse_question),
        (
            replace(GOT, status=206, total=9000, etag=None, last_modified=None, retry_after=3),
            retrieve.parse_answer,
        ),
    ),
    "tool-lite": (
        (tool_lite.LiteOpening(b"{}"), tool_lite.parse_opening),
        (
            GateReady(tool_lite.PROTOCOL, {"monty": "1.4.0", "threegate": "0.1"}),
            tool_lite.GREETING.parse,
        ),
        (
            tool_lite.GREETING.refused("TG-FUN-001", "the functions differ"),
            tool_lite.GREETING.parse,
        ),
        (
            tool_lite.LiteJob(
                "run", 1_800_000_000, b"request", b"approval", b"", (("a", b"[1]"), ("b", b"{}"))
            ),
            tool_lite.parse_ask,
        ),
        (tool_lite.CheckCode("x = 'é'\n", ("sha256_hex",), ("rows",), "pure"), tool_lite.parse_ask),
        (
            LiteOutcome("ok", b"1", b"out\n", b"\xff", calls=(("sha256_hex", 2),), cpu_ms=7),
            tool_lite.parse_outcome,
        ),
        (LiteOutcome("refused:import", refusal=REFUSAL), tool_lite.parse_outcome),
        (
            LiteOutcome("refused:approval", code="TG-APR-007", message="the approval is expired"),
            tool_lite.parse_outcome,
        ),
        (tool_lite.CodeChecked(None), tool_lite.parse_checked),
        (tool_lite.CodeChecked(REFUSAL), tool_lite.parse_checked),
        (tool_lite.CodeChecked(None, (REFUSAL, REFUSAL)), tool_lite.parse_checked),
        (tool_lite.Adopt(b"{}", b"signature"), tool_lite.parse_ask),
        (
            tool_lite.Prove(("socket", "open:/etc/passwd"), {"bind": 49, "ptrace": 101}),
            tool_lite.parse_ask,
        ),
        (
            tool_lite.Enforced(3, "ab" * 32, {"pure": "cd" * 32}, ("socket",)),
            tool_lite.parse_enforced,
        ),
        (tool_lite.LiteJob("replay", 0, b"", b"", b"", ()), tool_lite.parse_ask),
    ),
    "tool-heavy": (
        (tool_heavy.Prepare(ENDS, ("json", "os.path"), RING, 9), tool_heavy.parse_ask),
        (
            tool_heavy.Probe(
                tool_heavy.Channels(10, 11, "0" * 32), RING, 9, tool_heavy.GuestShape(2, 2**27)
            ),
            tool_heavy.parse_ask,
        ),
        (HEAVY_JOB, tool_heavy.parse_ask),
        (
            replace(HEAVY_JOB, inputs=(), disk=0, shape=tool_heavy.GuestShape(1, 2**28, "process")),
            tool_heavy.parse_ask,
        ),
        (tool_heavy.GuestPrepared(("json",)), tool_heavy.parse_prepared),
        (tool_heavy.GuestFailed("no guest"), tool_heavy.parse_prepared),
        (tool_heavy.Probed(("guest-cpus", "guest-memory")), tool_heavy.parse_probed),
        (tool_heavy.GuestFailed("no guest"), tool_heavy.parse_probed),
        (HEAVY_OUTCOME, tool_heavy.parse_outcome),
        (tool_heavy.HeavyOutcome("ok", exit_code=0), tool_heavy.parse_outcome),
        (
            tool_heavy.HeavyOutcome("crashed", note="the virtual machine stopped: 1"),
            tool_heavy.parse_outcome,
        ),
        (
            tool_heavy.HeavyOutcome("refused:approval", code="TG-APR-001", message="no"),
            tool_heavy.parse_outcome,
        ),
    ),
    "gateway": (
        (GATEWAY, gateway.parse_opening),
        (
            replace(GATEWAY, anchors=GATEWAY.anchors[:1], marks=(), methods=()),
            gateway.parse_opening,
        ),
        (
            gateway.GatewayNote(20, "api.example.org", 3, "GET", "", 10),
            gateway.parse_note,
        ),
        (
            gateway.GatewayNote(0, "", 0, "GET", "url-malformed", 0),
            gateway.parse_note,
        ),
    ),
}

NONCE: Final = "0" * 32
_FACTS: Final = (
    b'{"facts":{"cpus":1,"environment":0,"interfaces":[["lo",false]],"memory_kib":200000,'
    b'"mounts":[["/","overlay","ro"]],"resolver":false,"ring":"' + b"0" * 64 + b'",'
    b'"ring_proved":["exec"],"routes":0},"nonce":"' + NONCE.encode() + b'"}'
)
# Bytes that only one side can spell: parsed here, written by a guest.
FRAMES: Final[dict[str, tuple[tuple[bytes, Callable[[Untrusted[bytes]], object]], ...]]] = {
    "guest": (
        (_FACTS, lambda data: guest.parse_facts(data, NONCE)),
        (
            b'{"imports":["json"],"nonce":"' + NONCE.encode() + b'"}',
            lambda data: guest.parse_ready(data, NONCE),
        ),
        (b'{"bytes":3,"name":"table.csv"}', guest.parse_file),
        (b'{"code":3,"oom":false,"signal":0}', guest.parse_exit),
        (b'{"argument":"requests","line":3,"rule":"denied_imports"}', guest.parse_violation),
    ),
    "gateway-frames": (
        (
            b'{"headers":{"Accept":"*/*"},"line":3,"method":"GET","url":"https://a.example/"}',
            gateway.parse_request,
        ),
        (gateway.GatewayOpened().to_bytes(), gateway.parse_opened),
    ),
}
# Bytes that we spell and only the other side reads.
SPELLED: Final[dict[str, bytes]] = {
    "guest-warm": guest.warm_frame(NONCE, ("json",), RING),
    "guest-job": guest.GuestTask(
        ("sort", "x"), 2**20, inputs=True, outputs=("a.csv",), processes=4, recursion=900, ring=RING
    ).frames(b"print(1)", now_ns=5),
    "guest-input": guest.input_frame("a", 3),
    "guest-data": guest.frame(guest.DATA, b"abc"),
    "gateway-answer": gateway.answer_frames(200, {"Content-Type": "text/plain"}, b"body"),
    "gateway-no": gateway.no_frame("url-malformed", "a URL", "policy/tool-exec.policy.md:7"),
}
