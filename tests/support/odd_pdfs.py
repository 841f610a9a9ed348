"""PDF pages whose text is not seen by means that PDFium's text functions do not tell."""

from tests.support.pdfs import _FONT, PdfWriter, _finish, line


def _one_page(content: bytes, resources: bytes, *extra: bytes, catalog: bytes = b"") -> bytes:
    """Return a page; objects 4 is its font, and `extra` are objects 5, 6, ..."""
    writer = PdfWriter()
    writer.add(_FONT)
    for body in extra:
        writer.add(body)
    stream = writer.stream(content)
    page = writer.add(
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
        b"/Resources<</Font<</F1 4 0 R>>%b>>>>" % (stream, resources)
    )
    _finish(writer, [page])
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
