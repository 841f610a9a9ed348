"""What the sandboxes that read one hostile file or repository may do: no network, no other file.

Reviewed and pinned like the rest of `profiles.py`, which lists them.
"""

from dataclasses import replace
from typing import Final

from threegate.sandbox.profile_form import GIB, KIB, MIB, Bind, Profile

FETCH_NORMALIZE: Final = Profile(
    name="fetch-normalize",
    purpose="turns hostile bytes into one research packet",
    packages=("artifacts", "gates.fetch"),
    libraries=(),
    modules=("pyexpat", "unicodedata"),
    binds=(),
    devices=(),
    scratch_bytes=0,
    host_network=False,
    families=(),
    connect_ports=(),
    executables=(),
    processes_may_fork=False,
    new_code="none",
    memory_bytes=2 * GIB,
    cpu_seconds=120,
    processes=8,
    open_files=64,
    file_bytes=0,
    output_bytes=16 * MIB,
    stderr_bytes=64 * KIB,
    deadline_seconds=180,
    reuse="one job",
)
FETCH_HTML: Final = replace(
    FETCH_NORMALIZE,
    name="fetch-html",
    purpose="turns a hostile page into one research packet",
    libraries=("lxml", "selectolax", "tinycss2", "trafilatura", "webencodings"),
    modules=(*FETCH_NORMALIZE.modules, "zlib", "lxml.etree", "selectolax.lexbor"),
    cpu_seconds=30,
    deadline_seconds=60,
)
FETCH_PDF: Final = replace(
    FETCH_NORMALIZE,
    name="fetch-pdf",
    purpose="turns a hostile PDF into one research packet",
    libraries=("pypdfium2_raw",),
    modules=(*FETCH_NORMALIZE.modules, "zlib", "pypdfium2_raw.bindings"),
    memory_bytes=1 * GIB,
    cpu_seconds=30,
    deadline_seconds=60,
)
FETCH_OFFICE: Final = replace(
    FETCH_NORMALIZE,
    name="fetch-office",
    purpose="turns a hostile DOCX, ODT, PPTX or XLSX into one research packet",
    modules=(*FETCH_NORMALIZE.modules, "zlib"),
    memory_bytes=1 * GIB,
    cpu_seconds=60,
    deadline_seconds=90,
)
FETCH_OCR: Final = replace(
    FETCH_PDF,
    name="fetch-ocr",
    purpose="recognises the text of a hostile scan for one research packet",
    # Tesseract is loaded before the lock, like PDFium: nothing is executed.
    binds=(
        Bind("tesseract", "/in/libtesseract.so", "library"),
        Bind("tessdata", "/in/tessdata", "directory"),
    ),
    cpu_seconds=900,
    deadline_seconds=1_200,
)
IMAGE_READER: Final = replace(
    FETCH_NORMALIZE,
    name="image-reader",
    purpose="turns an image file of a run into plain pixels, before anybody sees it",
    packages=("gates.image_reader",),
    libraries=("PIL",),
    modules=("zlib", "PIL.PngImagePlugin", "PIL.JpegImagePlugin"),
    memory_bytes=1 * GIB,
    cpu_seconds=30,
    deadline_seconds=60,
)
PAGE_DRAWER: Final = replace(
    FETCH_NORMALIZE,
    name="page-drawer",
    purpose="draws one page of a stored PDF as plain pixels, with a quote marked",
    packages=("gates.page_drawer",),
    libraries=("pypdfium2_raw",),
    modules=("unicodedata", "pypdfium2_raw.bindings"),
    memory_bytes=1 * GIB,
    cpu_seconds=30,
    deadline_seconds=60,
)
GIT_READER: Final = replace(
    FETCH_NORMALIZE,
    name="git-reader",
    purpose="reads objects of one git repository: files of a commit, bytes, changes",
    packages=("gates.git_reader",),
    libraries=("dulwich",),
    modules=("binascii", "mmap", "zlib", "_sha1", "_sha256", "dulwich.pack"),
    binds=(Bind("objects", "/in/objects", "directory"),),  # not its configuration, hooks or refs
    memory_bytes=3 * GIB,  # of which packs are mapped, at most two
    cpu_seconds=600,
    output_bytes=32 * MIB,
    deadline_seconds=900,
    reuse="one session",
)
ZOTERO_READER: Final = replace(
    FETCH_NORMALIZE,
    name="zotero-reader",
    purpose="reads the items of a copy of a Zotero library",
    packages=("gates.zotero_reader",),
    modules=("_sqlite3", "sqlite3"),
    memory_bytes=3 * GIB,  # the copy is held three times
    cpu_seconds=300,
    output_bytes=256 * MIB,
    deadline_seconds=600,
)
