"""Which encoding a page is in, and its text: the way browsers find out, from a fixed list.

SECURITY
    The page chooses among the encodings named here and no others: Python's codecs are found
    by name, and some of them are no character encodings at all.  They are looked up before
    the box is locked, for some are native code.
"""

import codecs
import re
from typing import Final

# Labels of https://encoding.spec.whatwg.org that pages really use -> Python's codec.
_CODECS: Final = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8",
    "cp1252": "windows-1252 cp1252 iso-8859-1 iso8859-1 latin1 l1 us-ascii ascii x-cp1252",
    "iso8859-2": "iso-8859-2 latin2",
    "iso8859-3": "iso-8859-3",
    "iso8859-4": "iso-8859-4",
    "iso8859-5": "iso-8859-5",
    "iso8859-6": "iso-8859-6",
    "iso8859-7": "iso-8859-7",
    "iso8859-8": "iso-8859-8 iso-8859-8-i",
    "iso8859-10": "iso-8859-10",
    "iso8859-13": "iso-8859-13",
    "iso8859-14": "iso-8859-14",
    "iso8859-15": "iso-8859-15 latin9",
    "iso8859-16": "iso-8859-16",
    "cp1250": "windows-1250 cp1250",
    "cp1251": "windows-1251 cp1251",
    "cp1253": "windows-1253 cp1253",
    "cp1254": "windows-1254 cp1254 iso-8859-9",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "cp874": "windows-874 tis-620 iso-8859-11",
    "cp866": "ibm866 cp866",
    "koi8-r": "koi8-r koi8",
    "koi8-u": "koi8-u",
    "mac-roman": "macintosh x-mac-roman",
    "gb18030": "gb18030 gbk gb2312 x-gbk",
    "big5hkscs": "big5 big5-hkscs x-x-big5",
    "euc-jp": "euc-jp x-euc-jp",
    "cp932": "shift_jis shift-jis sjis windows-31j x-sjis ms932",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 windows-949",
}
_BY_LABEL: Final = {
    label: codecs.lookup(name) for name, labels in _CODECS.items() for label in labels.split()
}
_MARKS: Final = (
    (codecs.BOM_UTF8, codecs.lookup("utf-8")),
    (codecs.BOM_UTF16_LE, codecs.lookup("utf-16-le")),
    (codecs.BOM_UTF16_BE, codecs.lookup("utf-16-be")),
)
_UTF_8: Final = _BY_LABEL["utf-8"]
_FALLBACK: Final = _BY_LABEL["windows-1252"]  # every byte means something
PRESCAN_BYTES: Final = 1024

_META: Final = re.compile(
    rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE
)
_DECLARED: Final = re.compile(rb"\A<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{2,40})")


def decoded(data: bytes) -> str:
    """Return the text of a page; what is not of its encoding becomes U+FFFD."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return str(codec.decode(data[len(mark) :], "replace")[0])
    head = data[:PRESCAN_BYTES]
    named = _META.search(head) or _DECLARED.match(head)
    label = named.group(1).decode("ascii").lower() if named else ""
    codec = _BY_LABEL.get(label, _UTF_8)  # a page that says UTF-16 here cannot be in it
    if codec is not _UTF_8:
        return str(codec.decode(data, "replace")[0])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        # Said to be UTF-8 and broken in places, or nothing said and something else.
        return str((_UTF_8 if label in _BY_LABEL else _FALLBACK).decode(data, "replace")[0])
