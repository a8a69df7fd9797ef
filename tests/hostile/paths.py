"""Where to write and what to read: odd paths as -o, --results, --save, --cuda and CSV; streams closed or full.

What may not be lost: a file that is there when a write fails, a device, a FIFO, a link. Devices are nodes of the
input's own folder, never the machine's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from . import board, nodes, saved
from .board import Case, Fault, Judge, Outcome, Trial, execute
from .reading import MMA, no_judge

CATEGORY = "paths"
Word = str | bytes
EMIT = ("emit", MMA.fragment, "--arch", "sm_90", "--to", "python")
RUN = ("run", "--arch", "sm_80", saved.LOAD)
KEPT = b"what was there before\n"
LONG = "x" * 300
DEEP = "/".join(["x" * 200] * 30)
FULL = 'ulimit -f 4; exec "$@"'  # files end after four blocks: a disk that is full

# name, the path, what is made of it before, and what has to be there after a success: the "text", through a "link",
# the text or a refusal ("may"); or it is not a success at all
Target = tuple[str, Word, Callable[[Path], object], str]


def _nothing(path: Path) -> None:
    """Makes nothing."""


def _old(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(KEPT)


def _link(path: Path) -> None:
    _old(path.with_name("old"))
    path.symlink_to("old")


TARGETS: list[Target] = [
    ("a new file", "out", _nothing, "text"),
    ("an old file", "out", _old, "text"),
    ("empty", "", _nothing, ""),
    ("a dot", ".", _nothing, ""),
    ("two dots", "..", _nothing, ""),
    ("a folder", "out", Path.mkdir, ""),
    ("a slash at the end", "out/", _nothing, ""),
    ("a folder and a slash", "out/", Path.mkdir, ""),
    ("a file and a slash", "out/", _old, ""),
    ("root", "/", _nothing, ""),
    ("no such folder", "no/such/out", _nothing, ""),
    ("below a file", "out/x", lambda path: _old(path.parent), ""),
    ("a long name", LONG, _nothing, ""),
    ("a name of 255", "x" * 255, _nothing, "may"),
    ("a name of 250, old", "x" * 250, _old, "may"),
    ("a long path", DEEP, _nothing, ""),
    ("a newline in the name", "o\nut", _nothing, "text"),
    ("ESC in the name", "\x1b[31mout", _nothing, "text"),
    ("OSC in the name, no such folder", "\x1b]0;x\x07/out", _nothing, ""),
    ("ESC, no such folder", "\x1b[31m/out", _nothing, ""),
    ("right-to-left, no such folder", "\u202e/out", _nothing, ""),
    ("not UTF-8", b"\xff\xfe", _nothing, "text"),
    ("not UTF-8, no such folder", b"\xff\xfe/out", _nothing, ""),
    ("a dash first", "-out", _nothing, "text"),
    ("two dashes first", "--out", _nothing, "text"),
    ("a dash", "-", _nothing, ""),
    ("a space", " ", _nothing, "text"),
    ("a tilde", "~", _nothing, "text"),
    ("a star", "*", _nothing, "text"),
    ("a link to a file", "out", _link, "link"),
    ("a link to nothing", "out", lambda path: path.symlink_to("old"), "link"),
    ("a link to itself", "out", lambda path: path.symlink_to("out"), ""),
    ("a link to a folder", "out", lambda path: path.symlink_to("."), ""),
    ("a link below no folder", "out", lambda path: path.symlink_to("no/such"), ""),
    ("/proc/self/mem", "/proc/self/mem", _nothing, ""),
    ("/proc/version", "/proc/version", _nothing, ""),
    ("an fd", "/dev/fd/1", _nothing, ""),
]


def cases(thorough: bool = False) -> Iterator[Case]:
    """All of them; devices, FIFOs, rights and streams where the machine lets them be made."""
    for name, word, make, after in TARGETS:
        trial = Trial((*EMIT, "-o", word), _written(word, after), WRITES)
        yield Case(CATEGORY, f"-o {name}", _made(word, make), (trial,))
    yield from _devices()
    yield from _fifos()
    yield from _failing()
    yield from _folders()
    yield from _streams()


WRITES = ("-", "out", "old", "x*", "*out", "o\nut", "\udcff\udcfe", " ", "~", "\\*", "[*]")


def _made(word: Word, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        path = folder / (os.fsdecode(word).rstrip("/") or ".") if make is not _nothing else folder
        make(path)

    return prepare


def _text(folder: Path) -> bytes:
    """What the command writes to stdout."""
    return execute(Trial(EMIT, no_judge), folder).out.encode()


def _written(word: Word, after: str) -> Judge:
    """Exit 0 only with the whole text there, and links still links; else what was there before is there."""

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        path = folder / os.fsdecode(word)
        if outcome.code == 0 and os.fsdecode(word) in ("-", "/dev/fd/1"):
            return
        if outcome.code == 0 and not after:
            yield Fault("wrong", "writes where it cannot", repr(word))
        elif outcome.code == 0 and (path.read_bytes() != _text(folder) or path.is_symlink() != (after == "link")):
            yield Fault("torn", "exit 0, but the text is not there, or a link is none any more", repr(word))
        elif outcome.code:
            yield from _lost(folder)
            if after in ("text", "link"):
                yield Fault("wrong", "cannot write where it can", f"{word!r}: {outcome.err[-100:]!r}")

    return judge


def _lost(folder: Path) -> Iterator[Fault]:
    for name in ("out", "old", "out.json"):
        path = folder / name
        if path.is_file() and not path.is_symlink() and path.read_bytes() != KEPT:
            yield Fault("torn", "a write that failed left something else than before", repr(path.read_bytes()[:60]))


def _devices() -> Iterator[Case]:
    for minor, name, good in ((3, "null", True), (7, "full", False), (5, "zero", True)):

        def make(folder: Path, minor: int = minor) -> None:
            nodes.device(folder / name_of(minor), minor)

        trial = Trial((*EMIT, "-o", name), _device(name, good), ())
        linked = Trial((*EMIT, "-o", "link"), _device(name, good), ())
        yield Case(CATEGORY, f"-o a device like /dev/{name}", make, (trial,))
        yield Case(CATEGORY, f"-o a link to one like /dev/{name}", _linked(make, name), (linked,))


def name_of(minor: int) -> str:
    """Of a device."""
    return {3: "null", 5: "zero", 7: "full"}[minor]


def _linked(make: Callable[[Path], object], name: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        make(folder)
        (folder / "link").symlink_to(name)

    return prepare


def _device(name: str, good: bool) -> Judge:
    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        path = folder / name
        if not path.exists():
            return  # no device can be made here
        if not stat.S_ISCHR(path.lstat().st_mode):
            yield Fault("torn", "a device was replaced by a file", name)
        if (outcome.code == 0) != good:
            yield Fault("wrong", "exit code of a write to a device", f"{name}: {outcome.code}")

    return judge


def _fifos() -> Iterator[Case]:
    read = 'timeout 6 cat out > got & reader=$!; "$@"; code=$?; wait $reader; exit $code'

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        if not stat.S_ISFIFO((folder / "out").lstat().st_mode):
            yield Fault("torn", "a FIFO was replaced by a file", "out")
        if outcome.code == 0 and (folder / "got").read_bytes() != _text(folder):
            yield Fault("torn", "exit 0, but the reader of the FIFO has another text", "")

    def make(folder: Path) -> None:
        os.mkfifo(folder / "out")

    yield Case(CATEGORY, "-o a FIFO with a reader", make, (Trial((*EMIT, "-o", "out"), judge, ("got", "out"), read),))
    gone = 'timeout 6 sh -c "true < out" & reader=$!; "$@"; code=$?; wait $reader; exit $code'
    yield Case(CATEGORY, "-o a FIFO whose reader goes", make, (Trial((*EMIT, "-o", "out"), no_judge, (), gone),))


def _failing() -> Iterator[Case]:
    """A full disk and folders that cannot be written: what was there stays."""

    def kept(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        yield from _lost(folder)
        if outcome.code == 0:
            yield Fault("wrong", "exit 0 of a write that failed", "")

    def old(folder: Path) -> None:
        _old(folder / "out")

    def closed(folder: Path) -> None:
        (folder / "ro").mkdir()
        _old(folder / "ro" / "out")
        (folder / "ro").chmod(0o555)

    full = Trial((*EMIT[:-1], "svg", "-o", "out"), kept, (), FULL)
    yield Case(CATEGORY, "-o an old file, disk full", old, (full,))
    yield Case(CATEGORY, "-o a new file, disk full", _nothing, (full,))
    for argv in (("pages", "--results", "results"), (*RUN, "--results", "results", "--force")):
        yield Case(CATEGORY, f"{argv[0]}, disk full", saved.healthy, (Trial(argv, _whole, ("results/*",), FULL),))
    save = ("lower", saved.MMA, "--arch", "sm_80", "--save", "results")
    yield Case(CATEGORY, "lower --save, disk full", saved.healthy, (Trial(save, _whole, ("results/*",), FULL),))
    if board.rights_can_go():
        for argv in ((*EMIT, "-o", "ro/out"), (*EMIT, "-o", "ro/new"), ("pages", "--results", "ro")):
            yield Case(CATEGORY, f"{argv[0]}, {argv[-1]} is read-only", closed, (Trial(argv, kept, nobody=True),))
    if os.geteuid() == 0:
        bound = 'mount --bind ro ro && mount -o remount,ro,bind ro && exec "$@"'
        private = f"exec unshare -m sh -c '{bound}' sh \"$@\""
        yield Case(CATEGORY, "-o in a read-only mount", closed, (Trial((*EMIT, "-o", "ro/out"), kept, (), private),))


def _whole(outcome: Outcome, folder: Path) -> Iterator[Fault]:
    """Every saved file and page is whole: sealed, or ended by a newline; none empty."""
    for path in sorted((folder / "results").rglob("*")):
        raw = path.read_bytes() if path.is_file() else b"\n"
        if not raw.endswith(b"\n") or (path.suffix == ".json" and saved.seal(_unsealed(raw)) != raw):
            yield Fault("torn", "a file that is not whole", f"{path.relative_to(folder)}, {len(raw)} bytes")
    if outcome.code == 0:
        yield Fault("wrong", "exit 0 of a write that failed", "")


def _unsealed(raw: bytes) -> bytes:
    return raw.rpartition(b',\n "sha256": "')[0] + b"\n}\n"


# name, path, what is made of it before; whether `run` may write into it
RESULTS: list[tuple[str, Word, Callable[[Path], object], bool]] = [
    ("empty", "", _nothing, True),
    ("a dot", ".", _nothing, True),
    ("missing", "no", _nothing, True),
    ("an empty folder", "out", Path.mkdir, True),
    ("a file", "out", _old, False),
    ("a file and a slash", "out/", _old, False),
    ("below a file", "out/x", lambda path: _old(path.parent), False),
    ("a FIFO", "out", os.mkfifo, False),
    ("a link to itself", "out", lambda path: path.symlink_to("out"), False),
    ("a link to nothing", "out", lambda path: path.symlink_to("no"), False),
    ("a long name", LONG, _nothing, False),
    ("a long path", DEEP, _nothing, False),
    ("ESC", "\x1b[31mout", _nothing, True),
    ("newline", "o\nut", _nothing, True),
    ("OSC, a file", "\x1b]0;x\x07out", _old, False),
    ("right-to-left", "\u202eout", _nothing, True),
    ("not UTF-8", b"\xff\xfe", _nothing, True),
    ("a dash", "-", _nothing, True),
    ("/dev/null", "/dev/null", _nothing, False),
    ("/dev/full", "/dev/full", _nothing, False),
    ("/proc", "/proc", _nothing, False),
    ("below /proc", "/proc/self/no", _nothing, False),
    ("a device below", "/dev/null/x", _nothing, False),
]


def _folders() -> Iterator[Case]:
    for name, word, make, writes in RESULTS:
        here = ("--results", word)
        reads: list[tuple[Word, ...]] = [
            ("show", MMA.fragment, "--arch", "sm_90", *here),
            ("compare", "--arch", "sm_90", *here),
            ("where", MMA.fragment, "--row", "0", *here),
            ("diff", "sm_80", "sm_90", *here),
            ("diff", word, "other"),
            ("fit", word),
            ("compare", word, MMA.fragment),
            ("doctor", "--cuda", word),
            ("lower", saved.MMA, "--arch", "sm_80", "--cuda", word),
        ]
        written = (f"{os.fsdecode(word)}", f"{os.fsdecode(word)}/*", "sm_80*", "layouts*", "*.md", "*out*", "o\nut*")
        allowed = written if writes else ()
        trials = [Trial(argv, no_judge) for argv in reads]
        trials += [Trial(("pages", "--results", word), no_judge, allowed)] if word not in ("/proc",) else []
        trials += [Trial((*RUN, "--results", word), _run(writes), allowed)]
        yield Case(CATEGORY, f"--results {name}", _made_beside(word, make), tuple(trials))


def _made_beside(word: Word, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / "other").mkdir()
        _made(word, make)(folder)

    return prepare


def _run(writes: bool) -> Judge:
    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        if outcome.code == 0 and not writes:
            yield Fault("wrong", "run saves where nothing can be saved", outcome.out[-100:])

    return judge


def _streams() -> Iterator[Case]:
    """stdout and stderr closed, full, or without a reader."""
    answers = (EMIT, ("show", MMA.fragment), ("list", "--json"), ("show", "nothing"), ("--help",), ("fit",))
    for name, shell, good in (
        ("stdout full", 'exec "$@" > /dev/full', False),
        ("stderr full", 'exec "$@" 2> /dev/full', True),
        ("stdout closed", 'exec "$@" >&-', True),
        ("stderr closed", 'exec "$@" 2>&-', True),
        ("stdin closed", 'exec "$@" <&-', True),
        ("all closed", 'exec "$@" <&- >&- 2>&-', True),
        ("no reader", '"$@" | true', True),
        ("a reader that goes", '"$@" | head -c 10', True),
    ):
        judge = no_judge if good else _not_done
        yield Case(CATEGORY, name, saved.healthy, tuple(Trial(argv, judge, (), shell) for argv in answers))


def _not_done(outcome: Outcome, folder: Path) -> Iterator[Fault]:
    if outcome.code == 0:
        yield Fault("wrong", "exit 0, though nothing could be written", "")
