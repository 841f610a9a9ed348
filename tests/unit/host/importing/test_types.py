"""What a file is: by content first, by name where the content leaves it open."""

import io
import resource
import subprocess
import sys
import zipfile

import pytest

from threegate.artifacts import media_types as types
from threegate.base.errors import ArtifactRejected
from threegate.host.importing.types import TWO_TYPES, UNREAD_TYPE, detect


def archive(*names: str, first: tuple[str, str] | None = None) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        if first is not None:
            made.writestr(zipfile.ZipInfo(first[0]), first[1])
        for name in names:
            made.writestr(name, "x")
    return file.getvalue()


WORD = archive("[Content_Types].xml", "word/document.xml")
SLIDES = archive("[Content_Types].xml", "ppt/presentation.xml")
SHEET = archive("[Content_Types].xml", "xl/workbook.xml")
TEXT = archive("content.xml", first=("mimetype", types.ODT))
BOOK = archive("META-INF/container.xml", first=("mimetype", types.EPUB))
PAGE = b"<!DOCTYPE html><html><body>x</body></html>"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.pdf", b"%PDF-1.7\n", types.PDF),
        ("a.docx", b"%PDF-1.7\n", types.PDF),  # content first
        ("a.pdf", b"junk before\n%PDF-1.4\n", types.PDF),
        ("a.docx", WORD, types.DOCX),
        ("a.pdf", WORD, types.DOCX),
        ("a.docm", WORD, types.DOCX),
        ("a.pptx", SLIDES, types.PPTX),
        ("a.xlsx", SHEET, types.XLSX),
        ("a.odt", TEXT, types.ODT),
        ("a.epub", BOOK, types.EPUB),
        ("a.zip", BOOK, types.EPUB),
        ("a.epub", archive("x", "META-INF/container.xml"), types.EPUB),
        ("a.odt", archive("META-INF/manifest.xml", "content.xml"), types.ODT),
        ("a.html", PAGE, types.HTML),
        ("a", PAGE, types.HTML),
        ("a.pdf", PAGE, types.HTML),  # a login page in place of a paper
        ("a.docx", PAGE, types.HTML),
        ("a.xml", b"<?xml version='1.0'?><html xmlns='x'/>", types.HTML),
        ("a.xml", b"<?xml version='1.0'?><article/>", types.XML),
        ("a", b"<?xml version='1.0'?><TEI/>", types.XML),
        ("a.xml", b"no markup", types.TEXT),
        ("README.md", b"<div align='center'>x</div>", types.MARKDOWN),
        ("a.txt", b"<p>text</p>", types.TEXT),
        ("a.tex", b"\\section{x}", types.LATEX),
        ("a", b"% x\n\\documentclass{article}", types.LATEX),
        ("a.ipynb", b'{"cells":[],"nbformat":4}', types.NOTEBOOK),
        ("a", b'{"cells":[],"nbformat":4}', types.NOTEBOOK),
        ("a.ipynb", b"print(1)", types.TEXT),
        ("a.json", b"[1]", types.JSON),
        ("a.jsonl", b"{}\n{}\n", types.JSON_LINES),
        ("a.csv", b"a,b\n1,2\n", types.CSV),
        ("a.TSV", b"a\tb\n", types.TSV),
        ("Makefile", b"all:\n\ttrue\n", types.TEXT),
        ("a.sh", b"#!/bin/sh\n", types.TEXT),
        ("a.txt", b"\xff\xfe" + "text".encode("utf-16-le"), types.TEXT),
        ("a.txt", b"Z\xfcrich", types.TEXT),
        (".md", b"x", types.MARKDOWN),
        ("a.txt", b"a paper begins with %PDF-1.7", types.TEXT),
    ],
)
def test_a_type_is_found(name: str, data: bytes, kind: str) -> None:
    assert detect(name, data) == kind


@pytest.mark.parametrize(
    ("name", "data", "what", "advice"),
    [
        ("a.rtf", b"{\\rtf1 x}", "RTF", "DOCX"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "DOC", "DOCX"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "password", "password"),
        ("a.mobi", bytes(60) + b"BOOKMOBI", "MOBI", "EPUB"),
        ("a.djvu", b"AT&TFORMxxxxDJVM", "DjVu", "PDF"),
        ("a.ps", b"%!PS-Adobe-3.0", "PostScript", "ps2pdf"),
        ("a.pages", archive("Index/Document.iwa"), "Pages", "DOCX"),
        ("a.key", archive("Index/Document.iwa"), "Keynote", "PPTX"),
        ("a.parquet", b"PAR1...", "Parquet", "CSV"),
        ("a.ods", archive("content.xml", first=("mimetype", "x/ods")), "ODS", "XLSX"),
        ("a.zip", archive("a.pdf"), "archive", "unpack"),
        ("a.docx", archive("word/document.xml"), "archive", "unpack"),
        ("a.docx", WORD[:60], "damaged", "again"),
        ("a.tar.gz", b"\x1f\x8b\x08", "archive", "unpack"),
        ("a.mht", b"From: <Saved by Blink>\r\nMIME-Version: 1.0", "MHT", "HTML"),
        ("a.txt", b"From: <Saved by Blink>\r\nMIME-Version: 1.0", "MHT", "HTML"),
        ("a.webarchive", b"bplist00x", "web archive", "HTML"),
        ("a.png", b"\x89PNG\r\n", "PNG", "PDF"),
        ("a.txt", b"\x7fELF", "program", "documents"),
        ("a.txt", b"MZ\x90\0", "program", "documents"),
        ("a.txt", b"a\0b", "not known", "PDF"),
        ("a.bin", b"\x01\x02\x03", "not known", "PDF"),
        ("a.txt", b" \n", "empty", "files with text"),
        ("a.txt", b"", "empty", "files with text"),
    ],
)
# claim TG-C-553
def test_what_is_not_read_is_refused_by_name_with_what_to_do(
    name: str, data: bytes, what: str, advice: str
) -> None:
    with pytest.raises(ArtifactRejected) as caught:
        detect(name, data)
    assert caught.value.code == UNREAD_TYPE
    assert what in caught.value.message
    assert advice in caught.value.hint


# claim TG-C-553
def test_a_file_that_is_two_formats_at_once_is_refused() -> None:
    both = archive("[Content_Types].xml", "word/document.xml", "xl/workbook.xml")
    zip_pdf = archive("%PDF-1.7", "[Content_Types].xml", "word/document.xml")
    for name, data in (("a.docx", both), ("a.docx", zip_pdf), ("a.pdf", PAGE + b"%PDF-1.7")):
        with pytest.raises(ArtifactRejected) as caught:
            detect(name, data)
        assert caught.value.code == TWO_TYPES
    assert detect("a.docx", WORD) == types.DOCX, "control: one format"
    # What begins a file decides where only one program would read it.
    assert detect("a.docx", b"%PDF-1.7\n" + WORD) == types.PDF


def test_the_list_of_names_is_followed_within_bounds() -> None:
    for at in range(len(WORD)):
        for byte in (0, 0xFF):
            data = WORD[:at] + bytes([byte]) + WORD[at + 1 :]
            try:
                assert detect("a.docx", data) in (types.DOCX, types.TEXT)
            except ArtifactRejected as exc:
                assert exc.code in (UNREAD_TYPE, TWO_TYPES)


@pytest.mark.parametrize(
    "data",
    [
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n",
        b"\xef\xbb\xbf\n-----BEGIN PRIVATE KEY-----\nMIIE\n",
        b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n",
        b"PuTTY-User-Key-File-3: ssh-ed25519\n",
    ],
)
# claim TG-C-577
def test_a_private_key_is_refused_under_every_name(data: bytes) -> None:
    public = b"-----BEGIN PUBLIC KEY-----\nMCow\n"
    for name in ("id_ed25519", "notes.txt", "a.md", "a.csv"):
        assert detect(name, public), "control: a public key is text"
        with pytest.raises(ArtifactRejected, match="a private key is not imported") as caught:
            detect(name, data)
        assert caught.value.code == UNREAD_TYPE, "so its bytes are not kept in quarantine"


# claim TG-C-578
def test_blanks_do_not_keep_the_host_busy() -> None:
    # This runs outside of sandboxes, so nothing else ends it.
    script = """
from threegate.host.importing.types import detect
for blank in ("\\n", " ", "\\t\\n", "\\r", "\\f", "<!--", "<?", "<?a?>", "\\n\\\\"):
    print(detect("a", ("x" + blank * 65_000).encode()))
print(detect("a", b"x" + b"\\n" * 60_000 + b"\\\\documentclass{article}"))
"""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))

    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False)
    assert done.returncode == 0, f"ended by its CPU limit: {done.returncode} {done.stderr}"
    assert done.stdout.split() == [types.TEXT] * 9 + [types.LATEX]
