"""What the reader of LaTeX knows of commands and environments: a closed list of names.

A command that is not listed is left out and its arguments stay as text.
"""

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    items = text.split()
    return dict(zip(items[::2], items[1::2], strict=True))


SECTIONS: Final = _words("part chapter section subsection subsubsection paragraph subparagraph")
# Commands whose arguments are not text; the number is how many follow in braces.
DROPPED: Final = {
    name: count
    for count, names in {
        1: """label vspace hspace documentclass usepackage RequirePackage bibliographystyle
        pagestyle thispagestyle graphicspath hypersetup pagenumbering geometry captionsetup color
        selectlanguage phantom hphantom vphantom thanks newtheorem theoremstyle LoadClass title
        author date ProvidesPackage usetikzlibrary lstset def""",
        2: """setlength addtolength setcounter addtocounter numberwithin newcommand renewcommand
        providecommand DeclareMathOperator rule resizebox fontsize""",
        3: "definecolor newenvironment renewenvironment",
    }.items()
    for name in names.split()
}
HIDDEN: Final = _words("phantom hphantom vphantom")  # what they hold is never seen
# Commands that become a note in brackets, with the words before their argument.
NOTED: Final = {
    name: note
    for note, names in {
        "not included: ": """input include subfile bibliography addbibresource lstinputlisting
        verbatiminput import""",
        "picture: ": "includegraphics includepdf includesvg",
        "": """cite citep citet citealp citealt citeauthor citeyear parencite textcite autocite
        footcite ref eqref autoref cref Cref pageref nameref url href""",
    }.items()
    for name in names.split()
}
VERBATIM: Final = _words("verbatim Verbatim lstlisting minted alltt")
MATH: Final = frozenset(
    name + star
    for name in _words("equation align gather multline eqnarray math displaymath flalign alignat")
    for star in ("", "*")
)
# Environments whose first argument is a layout.
LAYOUT: Final = _words(
    "tabular tabular* tabularx longtable array minipage thebibliography wrapfigure multicols"
)
HEADED: Final = {"abstract": "Abstract", "thebibliography": "References"}
SYMBOLS: Final = {
    **_pairs("""ss ß o ø O Ø ae æ AE Æ oe œ OE Œ aa å AA Å l ł L Ł i ı j ȷ dots … ldots … S §
    textendash – textemdash — textbackslash \\ textasciitilde ~ LaTeX LaTeX TeX TeX textdegree °
    texteuro € pounds £ copyright © textregistered ® texttrademark ™"""),
    "par": "\n\n",
    "item": "\n- ",
    "quad": " ",
    **dict.fromkeys(("maketitle", "tableofcontents", "noindent", "centering"), ""),
    **dict.fromkeys(
        (
            "newpage",
            "clearpage",
            "newline",
            "linebreak",
            "toprule",
            "midrule",
            "bottomrule",
            "hline",
        ),
        "\n",
    ),
}
# Accents are written before their letter and composed with it.
ACCENTS: Final = _pairs(
    "' \u0301 ` \u0300 ^ \u0302 \" \u0308 ~ \u0303 = \u0304 . \u0307 c \u0327 v \u030c u \u0306 "
    "H \u030b k \u0328 d \u0323 b \u0331 r \u030a"
)
ESCAPES: Final = {
    **{character: character for character in "%&#_${}"},
    **dict.fromkeys(" \n,;:", " "),
    "\\": "\n",
}
