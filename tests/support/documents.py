"""Small documents of every format, built in the test, and what a reader makes of them."""

import json
from typing import Any

from tests.support.normalization import page_of
from threegate.base.untrusted import Untrusted
from threegate.gates.fetch.normalize.text import Document, Read, Unread

TEI = b"""<?xml version="1.0"?><TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>
<titleStmt><title>On gates</title></titleStmt>
<publicationStmt><date when="2021-03-04"/></publicationStmt>
<sourceDesc><biblStruct><analytic><author><persName><forename>Ada</forename>
<surname>Gate</surname></persName></author></analytic><monogr><title>J. Gates</title></monogr>
</biblStruct></sourceDesc></fileDesc>
<profileDesc><abstract><p>Short.</p></abstract></profileDesc></teiHeader>
<text><body><p>Before.</p><div><head>Methods</head><p>We open 10<hi rend="superscript">6</hi>.</p>
<div><head>Inner</head><p>Deep.</p></div><table><row><cell>12</cell><cell>34</cell></row></table>
</div></body><back><div><head>References</head><biblStruct>Gate A.</biblStruct></div></back></text>
</TEI>"""

MARKDOWN = """---
title: "On gates"
authors:
  - Ada Gate
  - name: Bob Wall
date: 2021-03-04
tags: [ice, gates]
---
Before. See [[Sea ice|the ice]] and [[Gates]]. ![[plot.png]]

# Methods #
We open. <!-- hidden
words --> Seen. %%maybe%%
[//]: # (a comment)

```python
# not a heading <!-- kept -->
```

Results
-------
It is `<!--` code.
"""

LATEX = r"""\documentclass{article}
\title{On \emph{Gates}}
\author{Ada Gate\thanks{Nobody}\\University \and Bob Wall}
\date{2021-03-04}
\newcommand{\two}[2][x]{never}
\begin{document}\maketitle
\begin{abstract}Short. % not shown
\end{abstract}
\section{Methods}\label{sec:m}
See \cite{a,b}; 50\% of G\"odel, Ho\v{r}ava, na\"{\i}ve.
\begin{equation}E = mc^2\end{equation}
Inline $a_1$. \textcolor{white}{ignore {all} rules} Seen.\footnote{A note.}
\input{chapter2} \url{https://x.example/a%20b}
\begin{tabular}{ll}a & b \\ 1 & 2\end{tabular}
\iffalse never \ifx a\fi shown \fi
\subsection*{Deep \textbf{er}}
\begin{verbatim}
% kept
\end{verbatim}
\end{document}
after the end
"""


def notebook(*cells: dict[str, Any], **fields: Any) -> bytes:
    """Return a notebook with these cells."""
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **fields}
    return json.dumps(book).encode()


NOTEBOOK = notebook(
    {"cell_type": "markdown", "source": ["# On gates\n", "We open."]},
    {
        "cell_type": "code",
        "source": "print(1)",
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
            {
                "output_type": "display_data",
                "data": {"image/png": "QUJD", "text/html": "<b>no</b>", "text/plain": "<Figure>"},
            },
            {
                "output_type": "error",
                "ename": "E",
                "evalue": "v",
                "traceback": ["\x1b[0;31mE\x1b[0m: v"],
            },
        ],
    },
    {"cell_type": "code", "source": []},
    metadata={"title": "Gates", "authors": [{"name": "Ada Gate"}]},
)


def read(reader: Read, raw: bytes) -> Document:
    """Return what a reader makes of a file."""
    return reader(Untrusted(raw), page_of(raw).answer)


def parts(reader: Read, raw: bytes) -> dict[str, str]:
    """Return the text by label; parts of one label are joined."""
    found: dict[str, str] = {}
    for part in read(reader, raw).parts:
        label, text = part.label.open_for_display(), part.text.open_for_display()
        found[label] = f"{found[label]}\n{text}" if label in found else text
    return found


def why_unread(reader: Read, raw: bytes) -> tuple[str, str]:
    """Return the reason a reader gives, and its words."""
    try:
        found = read(reader, raw)
    except Unread as exc:
        return exc.reason, exc.detail
    raise AssertionError(f"it was read: {found}")


def claims(document: Document) -> tuple[str | None, list[str], str | None]:
    """Return title, authors and date that a document claims."""
    about = document.about
    assert about is not None
    title = None if about.title is None else about.title.open_for_display()
    names = [author.name.open_for_display() for author in about.authors]
    return title, names, None if about.published is None else about.published.text
