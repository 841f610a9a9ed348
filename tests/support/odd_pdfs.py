"""PDF pages whose text is not seen by means that PDFium's text functions do not tell."""

import struct
import zlib

from tests.support.pdfs import _FONT, PdfWriter, _finish, line, rectangle


def _one_page(
    content: bytes, resources: bytes, *extra: bytes, catalog: bytes = b"", page: bytes = b""
) -> bytes:
    """Return a page; objects 4 is its font, and `extra` are objects 5, 6, ..."""
    writer = PdfWriter()
    writer.add(_FONT)
    for body in extra:
        writer.add(body)
    stream = writer.stream(content)
    number = writer.add(
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R%b"
        b"/Resources<</Font<</F1 4 0 R>>%b>>>>" % (stream, page, resources)
    )
    _finish(writer, [number])
    writer.objects[1] = b"<</Type/Catalog/Pages 2 0 R%b>>" % catalog
    return writer.to_bytes()


def _stream(entries: bytes, data: bytes = b"") -> bytes:
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (entries, len(data), data)


_SEEN = line("before", y=740)
_TEXT = line("HIDE")
_LAYER = b"/OCProperties<</OCGs[5 0 R]/D<</OFF[5 0 R]/Order[5 0 R]>>>>"

UNDECIDED = {
    "layer that is off": _one_page(
        _SEEN + b"/OC /L BDC " + _TEXT + b"EMC",
        b"/Properties<</L 5 0 R>>",
        b"<</Type/OCG/Name(L)>>",
        catalog=_LAYER,
    ),
    "ActualText": _one_page(
        _SEEN + b"/Span<</ActualText(HIDE)>>BDC " + line("other") + b"EMC", b""
    ),
    "empty pattern as ink": _one_page(
        _SEEN + line("HIDE", before="/Pattern cs /P scn"),
        b"/Pattern<</P 5 0 R>>",
        _stream(
            b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 9 9]/XStep 9/YStep 9"
            b"/Resources<<>>"
        ),
    ),
    "luminosity mask": _one_page(
        _SEEN + b"q /G gs " + _TEXT + b"Q",
        b"/ExtGState<</G<</SMask<</Type/Mask/S/Luminosity/G 5 0 R>>>>>>",
        _stream(
            b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Group<</S/Transparency/CS/DeviceGray>>",
            b"0 g 0 0 612 792 re f",
        ),
    ),
    "blend mode": _one_page(_SEEN + b"q /G gs " + _TEXT + b"Q", b"/ExtGState<</G<</BM/Screen>>>>"),
    "clear form": _one_page(
        _SEEN + b"q /G gs /X Do Q",
        b"/ExtGState<</G<</ca 0>>>>/XObject<</X 5 0 R>>",
        _stream(
            b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Group<</S/Transparency>>"
            b"/Resources<</Font<</F1 4 0 R>>>>",
            _TEXT,
        ),
    ),
}
CONTROL = _one_page(_SEEN + line("SEEN"), b"")


def _shown(content: bytes, resources: bytes = b"", *extra: bytes, **other: bytes) -> bytes:
    return _one_page(_SEEN + content, resources, *extra, **other)


# None of them lies in the one before: PDFium would make one of the two.
_CLIPS = b"".join(b"%d 0 600 792 re W n " % number for number in range(9))
_OCG = b"<</Type/OCG/Name(L)>>"
_FORM = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Resources<</Font<</F1 4 0 R>>>>"
_GROUP = b"/Group<</S/Transparency>>"
_TILE = b"/Type/Pattern/PatternType 1/TilingType 1/BBox[0 0 9 9]/XStep 9/YStep 9/Resources<<>>"
_BLACK_TILE = _stream(_TILE + b"/PaintType 1", b"0 g 0 0 9 9 re f")
_TINT = b"<</FunctionType 2/Domain[0 1]/C0[1 1 1]/C1[0 0 0]/N 1>>"
_WHITE_TINT = b"<</FunctionType 2/Domain[0 1]/C0[1 1 1]/C1[1 1 1]/N 1>>"
_MASK = b"/ExtGState<</G<</SMask<</Type/Mask/S/Luminosity/G 5 0 R>>>>>>/XObject<</X 6 0 R>>"
_BLACK_GROUP = _stream(
    b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]/Group<</S/Transparency/CS/DeviceGray>>",
    b"0 g 0 0 612 792 re f",
)


def _devicen(names: bytes) -> bytes:
    return b"/ColorSpace<</C[/DeviceN[%b]/DeviceRGB 5 0 R]>>" % names


def _shading(function: bytes) -> bytes:
    return (
        b"/Shading<</S<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 1 0]/Function %b"
        b"/Extend[true true]>>>>" % function
    )


def _note(rectangle_: bytes, look: bytes = b"/AP<</N 5 0 R>>") -> bytes:
    return _one_page(
        _SEEN + _TEXT,
        b"",
        _stream(b"/Type/XObject/Subtype/Form/BBox[0 0 300 40]", b"1 g 0 0 300 40 re f"),
        b"<</Type/Annot/Subtype/Square/Rect[%b]/F 4%b>>" % (rectangle_, look),
        page=b"/Annots[6 0 R]",
    )


def _packed(resources: bytes, *, predicted: bool = False) -> bytes:
    """Return a page with its resources, object 7, in an object stream."""
    data, entries = b"7 0 " + resources, b"/Type/ObjStm/N 1/First 4/Filter/FlateDecode"
    if predicted:  # a byte before each byte says that it is as it is
        data = b"".join(b"\0" + data[at : at + 1] for at in range(len(data)))
        entries += b"/DecodeParms<</Predictor 12/Columns 1>>"
    made = bytearray(b"%PDF-1.7\n")
    content = _SEEN + line("HIDE", before="/C cs 1 scn")
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources 7 0 R>>",
        4: b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        5: _stream(entries, zlib.compress(data)),
    }
    rows = [(0, 0, 65535)]
    for number, body in objects.items():
        rows.append((1, len(made), 0))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    rows += [(1, len(made), 0), (2, 5, 0)]
    table = b"".join(struct.pack(">BIH", *row) for row in rows)
    start = len(made)
    made += b"6 0 obj\n" + _stream(b"/Type/XRef/Size %d/W[1 4 2]/Root 1 0 R" % len(rows), table)
    return bytes(made + b"\nendobj\nstartxref\n%d\n%%%%EOF" % start)


def _packed_ink(names: bytes, *, predicted: bool = False) -> bytes:
    fonts = b"/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    space = b"/ColorSpace<</C[/DeviceN[%b]/DeviceRGB %b]>>" % (names, _TINT)
    return _packed(b"<<%b%b>>" % (fonts, space), predicted=predicted)


# Each hides HIDE from a reader in some viewer; the second one of a pair does not.
PAIRS = {
    "layer behind marks": (
        _shown(
            b"/A BMC " * 17 + b"/OC /L BDC " + _TEXT + b"EMC " * 18,
            b"/Properties<</L 5 0 R>>",
            _OCG,
            catalog=_LAYER,
        ),
        _shown(b"/A BMC " * 15 + _TEXT + b"EMC " * 15),
    ),
    "layer of a form": (
        _shown(
            b"/X Do",
            b"/XObject<</X 6 0 R>>",
            _OCG,
            _stream(_FORM + b"/OC 5 0 R", _TEXT),
            catalog=_LAYER,
        ),
        _shown(b"/X Do", b"/XObject<</X 6 0 R>>", _OCG, _stream(_FORM, _TEXT), catalog=_LAYER),
    ),
    "layer of a form, its name escaped": (
        _shown(
            b"/X Do",
            b"/XObject<</X 6 0 R>>",
            _OCG,
            _stream(_FORM + b"/#4fC%\n5 0 R", _TEXT),
            catalog=_LAYER,
        ),
        _shown(
            b"/X Do",
            b"/XObject<</X 6 0 R>>",
            _OCG,
            _stream(_FORM + b"/OCX 5 0 R", _TEXT),
            catalog=_LAYER,
        ),
    ),
    "mask on a form": (
        _shown(b"q /G gs /X Do Q", _MASK, _BLACK_GROUP, _stream(_FORM + _GROUP, _TEXT)),
        _shown(b"/X Do", b"/XObject<</X 6 0 R>>", _BLACK_GROUP, _stream(_FORM + _GROUP, _TEXT)),
    ),
    "ink of no colour": (
        _shown(line("HIDE", before="/C cs 1 scn"), _devicen(b"/None"), _TINT),
        _shown(line("HIDE", before="/C cs 1 scn"), _devicen(b"/Foo"), _TINT),
    ),
    "ink of no colour in an object stream": (_packed_ink(b"/None"), _packed_ink(b"/Foo")),
    "object stream that is not plain": (
        _packed_ink(b"/None", predicted=True),
        _packed_ink(b"/Foo"),
    ),
    "uncoloured pattern": (
        _shown(
            line("HIDE", before="/C cs 0 0 0 /P scn"),
            b"/ColorSpace<</C[/Pattern/DeviceRGB]>>/Pattern<</P 5 0 R>>",
            _stream(_TILE + b"/PaintType 2"),
        ),
        _shown(_TEXT, b"/Pattern<</P 5 0 R>>", _BLACK_TILE),
    ),
    "pattern under it": (
        _shown(
            b"/Pattern cs /P scn 50 690 300 40 re f 0 g " + _TEXT,
            b"/Pattern<</P 5 0 R>>",
            _BLACK_TILE,
        ),
        _shown(b"1 g 50 690 300 40 re f 0 g " + _TEXT, b"/Pattern<</P 5 0 R>>", _BLACK_TILE),
    ),
    "transfer function": (
        _shown(b"q /G gs " + _TEXT + b"Q", b"/ExtGState<</G<</TR 5 0 R>>>>", _TINT),
        _shown(b"q /G gs " + _TEXT + b"Q", b"/ExtGState<</G<</TR/Identity>>>>", _TINT),
    ),
    "more clips than are looked at": (
        _shown(b"q " + _CLIPS + b"300 300 1 1 re W n " + _TEXT + b"Q"),
        _shown(b"q " + _CLIPS[:80] + _TEXT + b"Q"),
    ),
    "clip with a hole": (
        _shown(b"q 0 0 612 792 re 0 0 612 792 re W* n " + _TEXT + b"Q"),
        _shown(b"q 0 0 612 792 re W* n " + _TEXT + b"Q"),
    ),
    "clip of many points": (
        _shown(b"q 0 0 m " + b"1 1 l " * 70 + b"612 792 l h W n " + _TEXT + b"Q"),
        _shown(b"q 0 0 m 612 0 l 612 792 l 0 792 l h W n " + _TEXT + b"Q"),
    ),
    "clip without an area": (
        _shown(b"q 0 0 m 612 792 l h W n " + _TEXT + b"Q"),
        _shown(b"q 0 0 612 792 re W n " + _TEXT + b"Q"),
    ),
    "clip that leaves a letter": (
        _shown(b"q 0 695 75 20 re W n " + _TEXT + b"Q"),
        _shown(b"q 0 695 275 20 re W n " + _TEXT + b"Q"),
    ),
    "clip of letters": (
        _shown(b"q BT /F1 12 Tf 7 Tr 300 300 Td (.) Tj ET BT 0 Tr ET " + _TEXT + b"Q"),
        _shown(b"q BT /F1 12 Tf 0 Tr 300 300 Td (.) Tj ET BT 0 Tr ET " + _TEXT + b"Q"),
    ),
    "white outline over black letters": (
        _shown(line("HIDE", before="2 Tr 1 1 1 RG 20 w")),
        _shown(line("HIDE", before="2 Tr 0 0 0 RG 1 w")),
    ),
    "shading over it": (
        _shown(_TEXT + b"q 50 690 300 40 re W n /S sh Q", _shading(b"5 0 R"), _WHITE_TINT),
        _shown(b"q 50 90 300 40 re W n /S sh Q " + _TEXT, _shading(b"5 0 R"), _WHITE_TINT),
    ),
    "polygon over it": (
        _shown(_TEXT + b"1 g 50 690 m 350 690 l 350 700 l 350 720 l 350 740 l 50 730 l h f"),
        _shown(_TEXT + b"1 g 50 90 m 350 90 l 350 100 l 350 120 l 350 140 l 50 130 l h f"),
    ),
    "thick line over it": (
        _shown(_TEXT + b"q 1 G 40 w 50 704 m 400 704 l S Q"),
        _shown(_TEXT + b"q 1 G 1 w 50 704 m 400 704 l S Q"),
    ),
    "two halves over it": (
        _shown(_TEXT + rectangle("1 1 1", 50, 690, 40, 40) + rectangle("1 1 1", 90, 690, 99, 40)),
        _shown(_TEXT + rectangle("1 1 1", 50, 90, 40, 40) + rectangle("1 1 1", 90, 90, 99, 40)),
    ),
    "annotation over it": (_note(b"50 690 350 730"), _note(b"50 90 350 130")),
    "annotation without a look": (_note(b"50 690 350 730"), _note(b"50 690 350 730", b"")),
    "almost white": (
        _shown(line("HIDE", before="0.9 g")),
        _shown(line("HIDE", before="0.6 g")),
    ),
    "more outlines than are looked at": (
        _shown(b"0 0 m 9 9 l S " * 100_001 + line("HIDE", before="1 g")),
        _shown(b"0 0 m 9 9 l S " * 1_000 + _TEXT),
    ),
}


def _profile() -> bytes:
    """Return an ICC profile: the primaries of sRGB, and numbers in proportion to light."""
    points = (
        (b"rXYZ", (0.4361, 0.2225, 0.0139)),
        (b"gXYZ", (0.3851, 0.7169, 0.0971)),
        (b"bXYZ", (0.1431, 0.0606, 0.7141)),
        (b"wtpt", (0.9642, 1.0, 0.8249)),
    )
    blocks = [
        (name, b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(one * 65536) for one in xyz)))
        for name, xyz in points
    ]
    blocks += [(name, b"curv" + bytes(8)) for name in (b"rTRC", b"gTRC", b"bTRC")]
    blocks += [(b"desc", b"desc" + bytes(4) + struct.pack(">I", 2) + b"x\0" + bytes(78))]
    blocks += [(b"cprt", b"text" + bytes(4) + b"x\0\0\0")]
    table, data, at = struct.pack(">I", len(blocks)), b"", 128 + 4 + 12 * len(blocks)
    for name, block in blocks:
        table += name + struct.pack(">2I", at + len(data), len(block))
        data += block + bytes(-len(block) % 4)
    head = struct.pack(
        ">I4sI4s4s4s12s4s4s", at + len(data), b"", 0x02400000, b"mntr", b"RGB ", b"XYZ ",
        struct.pack(">6H", 2026, 1, 1, 0, 0, 0), b"acsp", b"",
    )  # fmt: skip
    head += bytes(68 - len(head)) + struct.pack(">3i", 63190, 65536, 54061)
    return head + bytes(128 - len(head)) + table + data


def _ink(space: bytes, numbers: str, *extra: bytes) -> bytes:
    before = f"/C cs {numbers} scn" if space else numbers
    return _shown(line("HIDE", before=before), b"/ColorSpace<</C %b>>" % space if space else b"",
                  *extra)  # fmt: skip


_D50 = b"/WhitePoint[0.9642 1 0.8249]"
_ICC = _stream(b"/N 3/Alternate/DeviceRGB", _profile())
# Text nobody sees in each kind of ink of ISO 32000-1, section 8.6, and text in it that is seen.
INKS = {
    "DeviceGray": (_ink(b"", "1 g"), _ink(b"", "0.2 g")),
    "DeviceRGB": (_ink(b"", "1 1 1 rg"), _ink(b"", "0.9 0.1 0.1 rg")),
    "DeviceCMYK": (_ink(b"", "0 0 0 0 k"), _ink(b"", "0 0 0 0.9 k")),
    "CalGray": (
        _ink(b"[/CalGray<<%b>>]" % _D50, "1"),
        _ink(b"[/CalGray<<%b>>]" % _D50, "0.1"),
    ),
    "CalRGB": (
        _ink(b"[/CalRGB<<%b>>]" % _D50, "1 1 1"),
        _ink(b"[/CalRGB<<%b>>]" % _D50, "0.1 0 0"),
    ),
    "Lab": (
        _ink(b"[/Lab<<%b/Range[-99 99 -99 99]>>]" % _D50, "100 0 0"),
        _ink(b"[/Lab<<%b/Range[-99 99 -99 99]>>]" % _D50, "20 0 0"),
    ),
    "ICCBased": (
        _ink(b"[/ICCBased 5 0 R]", "1 1 1", _ICC),
        _ink(b"[/ICCBased 5 0 R]", "0 0 0", _ICC),
    ),
    "Indexed": (
        _ink(b"[/Indexed/DeviceRGB 1<ffffff000000>]", "0"),
        _ink(b"[/Indexed/DeviceRGB 1<ffffff000000>]", "1"),
    ),
    "Separation": (
        _ink(b"[/Separation/Foo/DeviceRGB 5 0 R]", "0", _TINT),
        _ink(b"[/Separation/Foo/DeviceRGB 5 0 R]", "1", _TINT),
    ),
    "DeviceN": (
        _ink(b"[/DeviceN[/Foo]/DeviceRGB 5 0 R]", "0", _TINT),
        _ink(b"[/DeviceN[/Foo]/DeviceRGB 5 0 R]", "1", _TINT),
    ),
    "Pattern": (
        UNDECIDED["empty pattern as ink"],
        _shown(line("HIDE", before="/Pattern cs /P scn"), b"/Pattern<</P 5 0 R>>", _BLACK_TILE),
    ),
}
