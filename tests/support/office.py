"""DOCX, ODT, PPTX and EPUB files built in the test: ordinary ones, and hostile ones."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Final

from threegate.artifacts import media_types

_REL: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PKG: Final = "http://schemas.openxmlformats.org/package/2006"
_W: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_P: Final = "http://schemas.openxmlformats.org/presentationml/2006/main"
_A: Final = "http://schemas.openxmlformats.org/drawingml/2006/main"
_MC: Final = "http://schemas.openxmlformats.org/markup-compatibility/2006"
_ODF: Final = "urn:oasis:names:tc:opendocument:xmlns"
CORE: Final = (
    f'<c:coreProperties xmlns:c="{_PKG}/metadata/core-properties"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:t="http://purl.org/dc/terms/">'
    "<dc:title>On gates</dc:title><dc:creator>Ada Gate</dc:creator>"
    "<t:created>2021-03-04T10:00:00Z</t:created></c:coreProperties>"
)


def packed(members: Mapping[str, str | bytes], *, stored: tuple[str, ...] = ()) -> bytes:
    """Return a ZIP file with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in members.items():
            method = zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            made.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return file.getvalue()


def relations(*rows: str) -> str:
    """Return relationships given as `id kind target` or `id kind target External`."""
    made = []
    for row in rows:
        name, kind, target, *mode = row.split()
        outside = ' TargetMode="External"' if mode else ""
        base = f"{_PKG}/relationships/metadata" if kind == "core-properties" else _REL
        made.append(f'<Relationship Id="{name}" Type="{base}/{kind}" Target="{target}"{outside}/>')
    return f'<Relationships xmlns="{_PKG}/relationships">{"".join(made)}</Relationships>'


# -- DOCX


def paragraph(text: str, *, style: str = "", run: str = "") -> str:
    """Return a paragraph with one run; `run` holds its properties."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    look = f"<w:rPr>{run}</w:rPr>" if run else ""
    return f'<w:p>{properties}<w:r>{look}<w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def docx(body: str, *, links: tuple[str, ...] = (), more: str = "", **members: str) -> bytes:
    """Return a document; `more` are styles, keywords further members, `a__b` for `word/a.b`."""
    styles = (
        f'<w:styles xmlns:w="{_W}"><w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Sub"><w:name w:val="x"/><w:basedOn w:val="H1"/></w:style>'
        '<w:style w:styleId="Gone"><w:name w:val="y"/><w:rPr><w:vanish/></w:rPr></w:style>'
        f'<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>{more}</w:styles>'
    )
    further = {f"word/{name.replace('__', '.')}": text for name, text in members.items()}
    return packed(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": relations(
                "r1 officeDocument word/document.xml", "r2 core-properties docProps/core.xml"
            ),
            "docProps/core.xml": CORE,
            "word/_rels/document.xml.rels": relations("r1 styles styles.xml", *links),
            "word/styles.xml": styles,
            "word/document.xml": f'<w:document xmlns:w="{_W}" xmlns:mc="{_MC}"><w:body>{body}'
            "</w:body></w:document>",
            **further,
        }
    )


def notes(kind: str, text: str) -> str:
    """Return a part with footnotes or comments."""
    return f'<w:{kind}s xmlns:w="{_W}"><w:{kind} w:id="1">{paragraph(text)}</w:{kind}></w:{kind}s>'


TABLE: Final = (
    "<w:tbl><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr><w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"
    "</w:tbl>"
)
DOCX: Final = docx(
    paragraph("Before.")
    + paragraph("Methods", style="H1")
    + '<w:p><w:r><w:t>We open</w:t></w:r><w:r><w:tab/></w:r><w:r><w:t xml:space="preserve">gates'
    '</w:t></w:r><w:r><w:footnoteReference w:id="1"/></w:r></w:p>'
    + TABLE.format(*map(paragraph, ("year", "gates", "2020", "12")))
    + paragraph("Results", style="Sub")
    + paragraph("Twelve."),
    links=(
        "r2 footnotes footnotes.xml",
        "r3 comments comments.xml",
        "r4 hyperlink https://x.example/ External",
    ),
    footnotes__xml=notes("footnote", "A note."),
    comments__xml=notes("comment", "Is that so?"),
)
WHITE: Final = '<w:color w:val="FFFFFF"/>'
# How a document hides text: the part around `ZZmarker`.
DOCX_HIDDEN: Final = {
    "vanish": paragraph("ZZmarker", run="<w:vanish/>"),
    "style": paragraph("ZZmarker", style="Gone"),
    "white": paragraph("ZZmarker", run=WHITE),
    "tiny": paragraph("ZZmarker", run='<w:sz w:val="2"/>'),
    "deleted": "<w:p><w:del><w:r><w:delText>ZZmarker</w:delText></w:r></w:del></w:p>",
    "white, and black before": paragraph(
        "ZZmarker",
        run=WHITE + '<w:rPrChange><w:rPr><w:color w:val="000000"/></w:rPr></w:rPrChange>',
    ),
    "after a text box": "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:txbxContent><w:p><w:r/></w:p>"
    "</w:txbxContent><w:t>ZZmarker</w:t></w:r></w:p>",
    "vanish, with a value of another vocabulary": paragraph(
        "ZZmarker", run='<w:vanish xmlns:e="urn:e" e:val="0" val="0"/>'
    ),
    "vanish, and off in another vocabulary": paragraph(
        "ZZmarker", run='<w:vanish/><e:vanish xmlns:e="urn:e" e:val="0" w:val="0"/>'
    ),
    "in another vocabulary": '<e:p xmlns:e="urn:e"><e:r><e:t>ZZmarker</e:t></e:r></e:p>',
    "inside another vocabulary": f'<e:x xmlns:e="urn:e">{paragraph("ZZmarker")}</e:x>',
    "almost white": paragraph("ZZmarker", run='<w:color w:val="FEFEFE"/>'),
    "white by its theme": paragraph(
        "ZZmarker", run='<w:color w:val="000000" w:themeColor="background1"/>'
    ),
    "black on black": paragraph(
        "ZZmarker", run='<w:color w:val="000000"/><w:shd w:fill="000000"/>'
    ),
    "white on almost white": paragraph("ZZmarker", run=WHITE + '<w:shd w:fill="FFFFF0"/>'),
    "white, highlighted in white": paragraph(
        "ZZmarker", run=WHITE + '<w:highlight w:val="white"/>'
    ),
    "narrow": paragraph("ZZmarker", run='<w:w w:val="1"/>'),
    "tiny, and vanish off": paragraph("ZZmarker", run='<w:sz w:val="1"/><w:vanish w:val="0"/>'),
    "moved": "<w:p><w:moveFrom><w:r><w:t>ZZmarker</w:t></w:r></w:moveFrom></w:p>",
}
DOCX_SHOWN: Final = {
    "vanish off": paragraph("ZZmarker", run='<w:vanish w:val="0"/>'),
    "hidden before": paragraph(
        "ZZmarker", run="<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>"
    ),
    "the mark of a paragraph": "<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>"
    "<w:r><w:t>ZZmarker</w:t></w:r></w:p>",
    "white on a ground": paragraph("ZZmarker", run=WHITE + '<w:shd w:fill="000000"/>'),
    "white in a table": "<w:tbl><w:tr><w:tc>"
    f"{paragraph('ZZmarker', run=WHITE)}</w:tc></w:tr></w:tbl>",
    "white on yellow": paragraph("ZZmarker", run=WHITE + '<w:highlight w:val="yellow"/>'),
    "blue": paragraph("ZZmarker", run='<w:color w:val="4472C4" w:themeColor="accent1"/>'),
    "automatic": paragraph("ZZmarker", run='<w:color w:val="auto"/><w:shd w:fill="000000"/>'),
    "narrower": paragraph("ZZmarker", run='<w:w w:val="66"/>'),
    "mathematics": '<w:p><m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">'
    "<m:r><m:t>ZZmarker</m:t></m:r></m:oMath></w:p>",
    "inserted": "<w:p><w:ins><w:r><w:t>ZZmarker</w:t></w:r></w:ins></w:p>",
    "a text box": "<w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>"
    f"{paragraph('ZZmarker')}</w:txbxContent></mc:Choice><mc:Fallback>{paragraph('ZZmarker')}"
    "</mc:Fallback></mc:AlternateContent></w:r></w:p>",
}
MACROS: Final = docx(
    paragraph("Seen.")
    + "<w:p><w:r><w:instrText>DDE</w:instrText></w:r><w:r><w:instrText>AUTO c:\\\\x</w:instrText>"
    '</w:r><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p><w:p><w:r><w:object/></w:r></w:p>'
    '<w:altChunk r="x"/>',
    links=(
        "r5 vbaProject vbaProject.bin",
        "r6 attachedTemplate https://x.example/t.dotm External",
        "r7 image https://x.example/pixel.png External",
        "r8 oleObject embeddings/o.bin",
    ),
    vbaProject__bin="Sub AutoOpen()",
)

# -- PPTX


def shape(text: str, *, kind: str = "", hidden: bool = False, run: str = "") -> str:
    """Return a shape with one paragraph."""
    holder = f'<p:nvPr><p:ph type="{kind}"/></p:nvPr>' if kind else ""
    off = ' hidden="1"' if hidden else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="s"{off}/>{holder}</p:nvSpPr><p:txBody><a:p><a:r>'
        f"{run}<a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def slide(*shapes: str, name: str = "sld", attributes: str = "") -> str:
    tree = f"<p:cSld><p:spTree>{''.join(shapes)}</p:spTree></p:cSld>"
    return f'<p:{name} xmlns:p="{_P}" xmlns:a="{_A}"{attributes}>{tree}</p:{name}>'


def pptx(*slides: str, notes: str = "") -> bytes:
    """Return a presentation; `notes` are those of the first slide."""
    ids = "".join(f'<p:sldId id="{256 + n}" r:id="r{n}"/>' for n in range(len(slides)))
    members = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations(
            "r1 officeDocument /ppt/presentation.xml", "r2 core-properties docProps/core.xml"
        ),
        "docProps/core.xml": CORE,
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{_P}" xmlns:r="{_REL}"><p:sldIdLst>{ids}'
        "</p:sldIdLst></p:presentation>",
        # In another order than the slides: the list of the presentation counts.
        "ppt/_rels/presentation.xml.rels": relations(
            *(f"r{n} slide slides/slide{n}.xml" for n in reversed(range(len(slides))))
        ),
        **{f"ppt/slides/slide{n}.xml": text for n, text in enumerate(slides)},
    }
    if notes:
        members["ppt/slides/_rels/slide0.xml.rels"] = relations(
            "r1 notesSlide ../notesSlides/n.xml"
        )
        members["ppt/notesSlides/n.xml"] = slide(shape(notes), name="notes")
    return packed(members)


_CELLS: Final = "".join(
    f"<a:tc><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>" for text in "ab"
)
PPTX: Final = pptx(
    slide(shape("On gates", kind="title"), shape("We open."), shape("7", kind="sldNum")),
    slide(f"<p:graphicFrame><a:tbl><a:tr>{_CELLS}</a:tr></a:tbl></p:graphicFrame>"),
    notes="Say it slowly.",
)
PPTX_HIDDEN: Final = {
    "slide": pptx(slide(shape("Seen.")), slide(shape("ZZmarker"), attributes=' show="0"')),
    "shape": pptx(slide(shape("Seen."), shape("ZZmarker", hidden=True))),
    "tiny": pptx(slide(shape("Seen."), shape("ZZmarker", run='<a:rPr sz="100"/>'))),
    "slide, and shown in another vocabulary": pptx(
        slide(shape("Seen.")),
        slide(shape("ZZmarker"), attributes=' show="0" xmlns:e="urn:e" e:show="1"'),
    ),
    "another vocabulary": pptx(
        slide(shape("Seen."), f'<e:x xmlns:e="urn:e">{shape("ZZmarker")}</e:x>')
    ),
}

# -- ODT


def odt(body: str, *, styles: str = "", manifest: str = "", **members: str) -> bytes:
    """Return a document; `styles` are automatic ones."""
    spaces = " ".join(
        f'xmlns:{short}="{_ODF}:{name}:1.0"'
        for short, name in {
            "office": "office",
            "text": "text",
            "table": "table",
            "style": "style",
            "draw": "drawing",
            "meta": "meta",
            "m": "manifest",
        }.items()
    )
    spaces += ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:x="http://www.w3.org/1999/xlink"'
    return packed(
        {
            "mimetype": media_types.ODT,
            "META-INF/manifest.xml": f"<m:manifest {spaces}>{manifest}</m:manifest>",
            "meta.xml": f"<office:document-meta {spaces}><office:meta><dc:title>On gates</dc:title>"
            "<dc:creator>Ada Gate</dc:creator><meta:creation-date>2021-03-04T10:00:00"
            "</meta:creation-date></office:meta></office:document-meta>",
            "content.xml": f"<office:document-content {spaces}><office:automatic-styles>{styles}"
            f"</office:automatic-styles><office:body><office:text>{body}</office:text>"
            "</office:body></office:document-content>",
            **members,
        },
        stored=("mimetype",),
    )


ODT: Final = odt(
    "<text:p>Before.</text:p><text:h>Methods</text:h>"
    '<text:p>We<text:s text:c="2"/>open<text:note><text:note-citation>1</text:note-citation>'
    "<text:note-body><text:p>A note.</text:p></text:note-body></text:note>\n<text:span>gates"
    "</text:span>.<office:annotation><dc:creator>Bob</dc:creator><text:p>Is that so?</text:p>"
    "</office:annotation></text:p>"
    "<table:table><table:table-row><table:table-cell><text:p>12</text:p></table:table-cell>"
    "<table:table-cell><text:p>34</text:p></table:table-cell></table:table-row></table:table>"
)
_NOT_DISPLAYED: Final = (
    '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
    '<style:style style:name="I" style:parent-style-name="H"/>'
)
ODT_HIDDEN: Final = {
    "style": odt(
        '<text:p>Seen.<text:span text:style-name="H">ZZmarker</text:span></text:p>',
        styles=_NOT_DISPLAYED,
    ),
    "style of a style": odt(
        '<text:p>Seen.</text:p><text:p text:style-name="I">ZZmarker</text:p>', styles=_NOT_DISPLAYED
    ),
    "section": odt(
        '<text:p>Seen.</text:p><text:section text:display="none"><text:p>ZZmarker'
        "</text:p></text:section>"
    ),
    "section, and shown in another vocabulary": odt(
        '<text:p>Seen.</text:p><text:section text:display="none" xmlns:e="urn:e" e:display="true"'
        ' style:display="true"><text:p>ZZmarker</text:p></text:section>'
    ),
    "another vocabulary": odt(
        '<text:p>Seen.</text:p><e:x xmlns:e="urn:e"><text:p>ZZmarker</text:p></e:x>'
    ),
    "field": odt('<text:p>Seen.<text:hidden-text text:string-value="ZZmarker"/></text:p>'),
    "deletion": odt(
        "<text:tracked-changes><text:deletion><text:p>ZZmarker</text:p></text:deletion>"
        "</text:tracked-changes><text:p>Seen.</text:p>"
    ),
}
ODT_LOCKED: Final = odt(
    "<text:p>x</text:p>", manifest="<m:file-entry><m:encryption-data/></m:file-entry>"
)
ODT_ACTIVE: Final = odt(
    '<text:p>Seen.<draw:frame><draw:image x:href="https://x.example/p.png"/></draw:frame>'
    "<draw:frame><draw:object-ole/></draw:frame></text:p>",
    **{"Basic/Standard/M.xml": "Sub Main"},
)

# -- EPUB

_OPF: Final = (
    '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<metadata><dc:title>On gates</dc:title><dc:creator>Ada Gate</dc:creator>"
    "<dc:date>2021-03-04</dc:date></metadata><manifest>{items}</manifest><spine>{spine}</spine>"
    "</package>"
)


def epub(*chapters: str, **members: str) -> bytes:
    """Return a book; keywords are further members of `OEBPS/`, `a__b` for `a.b`."""
    numbers = range(len(chapters))
    items = "".join(
        f'<item id="c{n}" href="c%20{n}.xhtml" media-type="application/xhtml+xml"/>'
        for n in numbers
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in numbers)
    return packed(
        {
            "mimetype": media_types.EPUB,
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/b.opf"/>'
            "</rootfiles></container>",
            "OEBPS/b.opf": _OPF.format(items=items, spine=spine),
            **{f"OEBPS/c {n}.xhtml": chapter(text) for n, text in enumerate(chapters)},
            **{f"OEBPS/{name.replace('__', '.')}": text for name, text in members.items()},
        },
        stored=("mimetype",),
    )


def chapter(body: str) -> str:
    return (
        '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd">'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title/>'
        f'<link rel="stylesheet" href="s.css"/></head><body>{body}</body></html>'
    )


EPUB: Final = epub(
    "<p>Before&nbsp;all.</p><h1>One</h1><p>We <i>open</i>\ngates.</p><script src='x'/><p>More.</p>",
    "<h2>Two</h2><table><tr><td>12</td><td>34</td></tr></table><p class='n'>ZZmarker</p>",
    s__css=".n { display: none }",
)

# -- Hostile archives


def bomb(size: int = 100_000_000) -> bytes:
    """Return a DOCX whose document is `size` spaces between two tags."""
    return docx(" " * size)


def liar(data: bytes) -> bytes:
    """Return a ZIP file whose list says that every member has ten bytes."""
    made = bytearray(data)
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        struct.pack_into("<I", made, at + 24, 10)
        at = data.find(b"PK\x01\x02", at + 4)
    return bytes(made)


def overlapping(count: int) -> bytes:
    """Return a ZIP file of `count` members that share the bytes of one, 10 MB unpacked."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(bytes(10_000_000)) + packer.flush()
    crc = zlib.crc32(bytes(10_000_000))
    head = struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, 8, 0, 0, crc, len(body), 10_000_000, 1, 0)
    local = head + b"0" + body
    listed = b""
    for number in range(count):
        name = f"{number:05}".encode()
        listed += struct.pack(
            "<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, crc, len(body), 10_000_000,
            len(name), 0, 0, 0, 0, 0, 0,
        ) + name  # fmt: skip
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(listed), len(local), 0)
    return local + listed + end
