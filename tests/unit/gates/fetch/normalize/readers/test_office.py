"""DOCX, ODT, PPTX and EPUB: what is read, what is left out, and what is refused."""

import random
import zipfile
from collections.abc import Callable
from io import BytesIO

import pytest

from tests.support import office
from tests.support.documents import claims, parts, read, why_unread
from tests.support.normalization import made, page_of
from threegate.artifacts import media_types
from threegate.gates.fetch.normalize import gate_html, gate_office
from threegate.gates.fetch.normalize.readers import archive, docx, epub, odt, pptx
from threegate.gates.fetch.normalize.text import Read

SEEN = office.paragraph("Seen.")
FILES: dict[str, tuple[Read, bytes]] = {
    media_types.DOCX: (docx.read, office.DOCX),
    media_types.ODT: (odt.read, office.ODT),
    media_types.PPTX: (pptx.read, office.PPTX),
    media_types.EPUB: (epub.read, office.EPUB),
}


def test_a_docx_is_read_by_its_headings() -> None:
    assert parts(docx.read, office.DOCX) == {
        "text": "Before.",
        "Methods": "Methods\nWe open gates[f1]\nyear | gates\n2020 | 12",
        "Results": "Results\nTwelve.",
        "footnotes": "A note.",
        "comments": "Is that so?",
    }


def test_a_pptx_is_read_slide_by_slide_in_the_order_of_the_show() -> None:
    assert parts(pptx.read, office.PPTX) == {
        "slide 1": "On gates\nWe open.",
        "slide 1 (speaker notes)": "Say it slowly.",
        "slide 2": "a | b",
    }


def test_an_odt_is_read_by_its_headings() -> None:
    assert parts(odt.read, office.ODT) == {
        "text": "Before.",
        "Methods": "Methods\nWe  open gates.\n12 | 34",
        "notes": "A note.",
        "comments": "Is that so?",
    }


def test_an_epub_is_read_by_its_spine() -> None:
    assert parts(epub.read, office.EPUB) == {
        "chapter 1": "Before all.",
        "One": "One\nWe open gates.\nMore.",
        "Two": "Two\n12 | 34 |",
    }


@pytest.mark.parametrize("kind", FILES)
def test_properties_are_claims(kind: str) -> None:
    assert claims(read(*FILES[kind])) == ("On gates", ["Ada Gate"], "2021-03-04")


@pytest.mark.parametrize("kind", FILES)
def test_each_becomes_a_packet(kind: str) -> None:
    readers = {**gate_html.READERS, **gate_office.READERS}
    packet = made(page_of(FILES[kind][1], kind), readers=readers, scheme="url")
    assert (packet.media_type, packet.title.open_for_display()) == (kind, "On gates")


HIDDEN = {
    **{
        f"docx {name}": (docx.read, office.docx(SEEN + body))
        for name, body in office.DOCX_HIDDEN.items()
    },
    **{f"pptx {name}": (pptx.read, raw) for name, raw in office.PPTX_HIDDEN.items()},
    **{f"odt {name}": (odt.read, raw) for name, raw in office.ODT_HIDDEN.items()},
}


@pytest.mark.parametrize("name", HIDDEN)
# claim TG-C-550
def test_hidden_text_is_left_out_and_counted(name: str) -> None:
    reader, raw = HIDDEN[name]
    text = "".join(parts(reader, raw).values())
    assert text == "Seen.", "control: the rest is read"
    assert read(reader, raw).found == {"hidden-text": len("ZZmarker")}


@pytest.mark.parametrize(
    "more",
    [
        "<w:docDefaults><w:rPrDefault><w:rPr><w:vanish/></w:rPr></w:rPrDefault></w:docDefaults>",
        '<w:style w:styleId="Rows" w:type="table"><w:rPr><w:vanish/></w:rPr></w:style>',
    ],
)
# claim TG-C-550
def test_text_is_hidden_by_the_defaults_of_a_document_and_by_the_style_of_a_table(
    more: str,
) -> None:
    shown = office.paragraph("Seen.", run='<w:vanish w:val="0"/>')
    body = f"""{shown}<w:tbl><w:tblPr><w:tblStyle w:val="Rows"/></w:tblPr><w:tr><w:tc>
        {office.paragraph("ZZmarker")}</w:tc></w:tr></w:tbl>"""
    assert parts(docx.read, office.docx(body)) == {"text": "Seen.\nZZmarker"}, "control"
    assert parts(docx.read, office.docx(body, more=more)) == {"text": "Seen."}
    assert read(docx.read, office.docx(body, more=more)).found == {"hidden-text": len("ZZmarker")}


def test_what_a_program_may_not_show_is_counted_as_undecided() -> None:
    def choice(first: str, other: str) -> bytes:
        return office.docx(
            f"<w:p><w:r><mc:AlternateContent><mc:Choice Requires='x'><w:t>{first}</w:t></mc:Choice>"
            f"<mc:Fallback><w:t>{other}</w:t></mc:Fallback></mc:AlternateContent></w:r></w:p>"
        )

    assert read(docx.read, choice("ZZmarker", "ZZ marker")).found == {}, "control: the same words"
    assert read(docx.read, choice("ZZmarker", "Seen.")).found == {"hidden-undecided": 1}
    effect = '<x:textFill xmlns:x="http://schemas.microsoft.com/office/word/2010/wordml"/>'
    raw = office.docx(office.paragraph("ZZmarker", run=effect))
    assert read(docx.read, raw).found == {"hidden-undecided": 1}


@pytest.mark.parametrize("name", office.DOCX_SHOWN)
def test_text_that_is_seen_stays(name: str) -> None:
    raw = office.docx(SEEN + office.DOCX_SHOWN[name])
    assert parts(docx.read, raw) == {"text": "Seen.\nZZmarker"}
    undecided = {"hidden-undecided": 1} if name == "white in a table" else {}
    assert read(docx.read, raw).found == undecided


def test_the_style_of_paragraphs_without_one_can_hide_them() -> None:
    look = "<w:rPr><w:vanish/></w:rPr>"
    style = f'<w:style w:type="paragraph" w:default="1" w:styleId="N">{look}</w:style>'
    raw = office.docx(SEEN + office.paragraph("shown", style="H1"), more=style)
    assert parts(docx.read, raw) == {"shown": "shown"}
    assert read(docx.read, raw).found == {"hidden-text": len("Seen.")}


def test_a_sheet_in_a_book_hides_text() -> None:
    assert read(epub.read, office.EPUB).found == {"hidden-text": len("ZZmarker")}
    shown = office.epub("<p class='n'>ZZmarker</p>", s__css=".m { display: none }")
    assert parts(epub.read, shown) == {"chapter 1": "ZZmarker"}, "control: no rule means it"
    outside = office.epub("<p class='n'>ZZmarker</p>")
    assert read(epub.read, outside).found == {"hidden-undecided": 1}


# claim TG-C-551
def test_what_a_program_would_run_or_load_is_counted() -> None:
    assert read(docx.read, office.MACROS).found == {"active-content": 7}
    assert read(odt.read, office.ODT_ACTIVE).found == {"active-content": 3}
    assert read(docx.read, office.DOCX).found == {}, "control: a link that waits for a click"


DEEP = "<w:p>" * 200 + "</w:p>" * 200
LAUGHS = '<!DOCTYPE w [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
REFUSED: dict[str, tuple[Read, bytes, str, str]] = {
    "half a file": (docx.read, office.DOCX[:800], "damaged", "list of its members"),
    "no archive": (docx.read, b"PK\x03\x04 and text", "damaged", "list of its members"),
    "a document that is missing": (
        docx.read,
        office.packed({"_rels/.rels": office.relations("r officeDocument x.xml")}),
        "damaged",
        "missing",
    ),
    "no document": (docx.read, office.packed({"a": "b"}), "damaged", "no part"),
    "a presentation": (docx.read, office.PPTX, "other-kind", "not a text document"),
    "a text": (pptx.read, office.DOCX, "other-kind", "not a presentation"),
    "a book": (odt.read, office.EPUB, "damaged", "missing"),
    "a password": (odt.read, office.ODT_LOCKED, "encrypted", "password"),
    "entities": (
        docx.read,
        office.packed(
            {
                "_rels/.rels": office.relations("r officeDocument d.xml"),
                "d.xml": f"{LAUGHS}<w>&b;</w>",
            }
        ),
        "damaged",
        "declarations of its own",
    ),
    "levels": (docx.read, office.docx(DEEP), "too-large", "deeper"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_for_its_reason(name: str) -> None:
    reader, raw, reason, words = REFUSED[name]
    found, detail = why_unread(reader, raw)
    assert found == reason
    assert words in detail


def test_encrypted_chapters_are_refused_and_hidden_fonts_are_not() -> None:
    def book(algorithm: str) -> bytes:
        listed = (
            f'<encryption><EncryptedData><EncryptionMethod Algorithm="{algorithm}"/><CipherData>'
            '<CipherReference URI="OEBPS/c%200.xhtml"/></CipherData></EncryptedData></encryption>'
        )
        return _with(office.epub("<p>x</p>"), "META-INF/encryption.xml", listed)

    assert parts(epub.read, book("http://www.idpf.org/2008/embedding")), "control"
    assert why_unread(epub.read, book("aes"))[0] == "encrypted"


def _with(raw: bytes, name: str, text: str) -> bytes:
    file = BytesIO(raw)
    with zipfile.ZipFile(file, "a") as opened:
        opened.writestr(name, text)
    return file.getvalue()


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        raw = _with(office.DOCX, "word/document.xml", "<other/>")
    assert why_unread(docx.read, raw) == ("damaged", "a name is in its list twice")


def test_links_in_an_archive_are_not_members() -> None:
    info = zipfile.ZipInfo("word/document.xml")
    info.external_attr = 0o120777 << 16
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("_rels/.rels", office.relations("r officeDocument word/document.xml"))
        opened.writestr(info, "/etc/passwd")
    assert why_unread(docx.read, file.getvalue())[0] == "damaged"


# claim TG-C-552
def test_an_archive_is_bounded_by_what_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    big = office.docx(office.paragraph("x" * 3_000_000))
    assert parts(docx.read, office.docx(office.paragraph("x" * 1_000))), "control"
    assert why_unread(docx.read, big) == ("too-large", "a member is packed more than 200 times")
    monkeypatch.setattr(archive, "MAX_MEMBER_BYTES", 1_000)
    reason, detail = why_unread(docx.read, office.docx(office.paragraph("x" * 1_000)))
    assert (reason, detail) == ("too-large", "more than 1000 bytes unpacked")
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    assert why_unread(docx.read, office.DOCX)[1] == "8 members, limit 3"


def test_a_list_that_lies_about_sizes_is_refused() -> None:
    assert why_unread(docx.read, office.liar(office.DOCX))[0] == "damaged"


def test_a_style_that_is_based_on_itself_ends() -> None:
    assert parts(docx.read, office.docx(office.paragraph("x", style="Loop"))) == {"text": "x"}


@pytest.mark.parametrize("kind", FILES)
def test_mutated_files_are_read_or_refused(kind: str) -> None:
    """Bytes of the file, and bytes of each member packed again, are changed at random."""
    reader, raw = FILES[kind]
    chance = random.Random(kind)  # the same files each time
    ends = {"read": 0, "refused": 0}
    for number in range(400):
        changed = _mutated(raw, chance) if number % 2 else _repacked(raw, chance)
        ends[_end(reader, changed)] += 1
    assert ends["read"] > 10
    assert ends["refused"] > 10


def _end(reader: Read, raw: bytes) -> str:
    try:
        why_unread(reader, raw)
    except AssertionError:
        return "read"
    return "refused"


def _mutated(raw: bytes, chance: random.Random) -> bytes:
    made = bytearray(raw)
    for _ in range(chance.randint(1, 8)):
        made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made[: chance.randrange(len(made))] if chance.random() < 0.1 else made)


def _repacked(raw: bytes, chance: random.Random) -> bytes:
    with zipfile.ZipFile(BytesIO(raw)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    name = chance.choice(sorted(members))
    change: Callable[[bytes, random.Random], bytes] = _mutated if chance.random() < 0.5 else _moved
    return office.packed({**members, name: change(members[name], chance)})


def _moved(raw: bytes, chance: random.Random) -> bytes:
    """Repeat or leave out a piece between two tags."""
    marks = [at for at, byte in enumerate(raw) if byte == ord("<")] or [0]
    start, end = sorted((chance.choice(marks), chance.choice(marks)))
    return raw[:start] + raw[start:end] * chance.choice((0, 2, 3)) + raw[end:]
