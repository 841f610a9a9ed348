"""Data files built in the test: ordinary ones, and hostile ones."""

from collections.abc import Mapping
from typing import Final

from tests.support.normalization import Got, got
from tests.support.office import CORE, packed, relations

_S: Final = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_R: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
CSV: Final = b"station;temp;taken\nA;1,5;2020-01-01\nB;NA;2020-02-01\nA;12;\n"
JSON: Final = b'{"features": [{"id": 1, "ice": true}, {"id": 2.5, "ice": null}]}'
JSON_LINES: Final = b'{"id": 1, "tags": ["x", "y"]}\n\n{"id": 2}\n'


def imported(raw: bytes, read_as: str) -> Got:
    """Return the bytes of a file that somebody imported."""
    return got("file", raw, read_as, role="document")


def sheet(*rows: str, head: str = "") -> str:
    """Return a worksheet; a row is the XML of its cells, or begins with its attributes and `|`."""
    made = ""
    for row in rows:
        attributes, bar, cells = row.partition("|")
        made += f"<row {attributes}>{cells}</row>" if bar else f"<row>{row}</row>"
    return f'<worksheet xmlns="{_S}">{head}<sheetData>{made}</sheetData></worksheet>'


def xlsx(
    sheets: Mapping[str, str],
    *,
    strings: str = "<sst/>",
    styles: str = "<styleSheet/>",
    links: tuple[str, ...] = (),
    workbook: str = "",
    hidden: tuple[str, ...] = (),
    stored: bool = False,
) -> bytes:
    """Return a workbook with these sheets."""
    states = ("visible", "hidden")
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="r{n}" state="{states[name in hidden]}"/>'
        for n, name in enumerate(sheets)
    )
    members = {
        "[Content_Types].xml": "<Types/>",
        "_rels/.rels": relations(
            "r1 officeDocument xl/workbook.xml", "r2 core-properties docProps/core.xml"
        ),
        "docProps/core.xml": CORE,
        "xl/workbook.xml": f'<workbook xmlns="{_S}" xmlns:r="{_R}">{workbook}'
        f"<sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(
            "s1 sharedStrings strings.xml",
            "s2 styles styles.xml",
            *(f"r{n} worksheet worksheets/{n}.xml" for n in range(len(sheets))),
            *links,
        ),
        "xl/strings.xml": strings,
        "xl/styles.xml": styles,
        **{f"xl/worksheets/{n}.xml": text for n, text in enumerate(sheets.values())},
    }
    return packed(members, stored=tuple(members) if stored else ())


def shared(text: str) -> str:
    """Return shared strings with one text."""
    return f'<sst xmlns="{_S}"><si><t>{text}</t></si></sst>'


def word(text: str, place: str = "") -> str:
    """Return a cell with its own text."""
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


STRINGS: Final = (
    f'<sst xmlns="{_S}"><si><t>station</t></si><si><r><t>dep</t></r><r><t>th</t></r>'
    "<rPh><t>x</t></rPh></si></sst>"
)
STYLES: Final = (
    f'<styleSheet xmlns="{_S}"><numFmts><numFmt numFmtId="164" formatCode="[Red]yyyy\\-mm"/>'
    '<numFmt numFmtId="165" formatCode="0.0&quot; mm&quot;"/></numFmts><cellStyleXfs>'
    '<xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
    '<xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>'
)
XLSX: Final = xlsx(
    {
        "Ice": sheet(
            '<c t="s"><v>0</v></c><c t="s"><v>1</v></c>' + word("taken") + word("twice"),
            word("A") + '<c><v>0.93899999999999995</v></c><c s="1"><v>43831</v></c>'
            "<c><f>B2*2</f><v>1.878</v></c>",
            word("B") + '<c s="3"><v>2</v></c><c s="2"><v>43832.5</v></c><c><f>B3*2</f></c>',
        )
    },
    strings=STRINGS,
    styles=STYLES,
)
XLSX_HIDDEN: Final = {
    "sheet": xlsx({"S": sheet(word("Seen")), "H": sheet(word("ZZmarker"))}, hidden=("H",)),
    "row": xlsx({"S": sheet(word("Seen"), 'hidden="1"|' + word("ZZmarker"))}),
    "column": xlsx(
        {
            "S": sheet(
                word("Seen", "A1") + word("ZZmarker", "B1"),
                head='<cols><col min="2" max="2" hidden="1"/></cols>',
            )
        }
    ),
}
XLSX_FOREIGN: Final = xlsx(
    {"S": sheet(word("Seen"), f'<x:c xmlns:x="urn:x">{word("ZZmarker")}</x:c>', word("last"))}
)
XLSX_ACTIVE: Final = xlsx(
    {"S": sheet(word("Seen"), '<c><f>WEBSERVICE("https://x.example/")</f><v>7</v></c>')},
    links=(
        "l1 externalLink externalLinks/e.xml",
        "l2 connections connections.xml",
        "l3 vbaProject vbaProject.bin",
        "l4 image https://x.example/p.png External",
    ),
)
