"""The commands that read results, and the judges of what they say of a folder that is not what it should be.

The truth is what the same command says of the healthy folder, or of the folder without what was damaged.
"""

from __future__ import annotations

import atexit
import fnmatch
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from . import board, saved
from .board import Fault, Judge, Outcome, Trial

FORMATS = (
    "csv",
    "cuda",
    "cute",
    "cute-dsl",
    "json",
    "latex",
    "markdown",
    "mosaic",
    "numba",
    "numpy",
    "ptx",
    "python",
    "svg",
    "sympy",
    "tensor-layouts",
    "tilelang",
    "tinygrad",
    "triton",
)
MULTIPLIES = ("ptx", "tinygrad")  # formats of a whole multiply
WHOLE = ("compare", "diff", "fit", "pages", "list", "lower")  # speak of many tables: the good ones and those refused
PAGES = ("results/*.md",)


class Target(NamedTuple):
    """What the commands ask for."""

    fragment: str
    instruction: str
    source: str
    goal: str
    arch: str = "sm_90"


MMA = Target(f"{saved.MMA}.a", saved.MMA, f"{saved.MMA}.d", f"{saved.MMA}.a")
PAIR = Target(f"{saved.PAIR}.a", saved.PAIR, f"{saved.PAIR}.d", f"{saved.PAIR}.a")
LOAD = Target(saved.LOAD, saved.WMMA, "wmma.m16n16k16.d.f32", saved.LOAD)
SASS = LOAD._replace(arch="sm_80")
REFUSED = Target(f"{saved.REFUSED}.a", saved.REFUSED, f"{saved.REFUSED}.d", f"{saved.REFUSED}.a")
TARGETS = {saved.MMA: MMA, saved.PAIR: PAIR, saved.LOAD: LOAD, saved.WMMA: LOAD, saved.REFUSED: REFUSED}


@cache
def options(command: str) -> str:
    """What --help of a command says."""
    return subprocess.run([board.PLACE, command, "--help"], capture_output=True, text=True, check=False).stdout


def commands(target: Target) -> list[tuple[str, ...]]:
    """Every command that reads results, asked about a target."""
    fragment, instruction, source, goal, arch = target
    one = ("--arch", arch)
    asked = [
        ("show", fragment, *one),
        ("show", fragment),
        ("show", fragment, "--json", *one),
        ("where", fragment, "--row", "0-1", *one),
        ("where", fragment, "--lane", "3", "--json", *one),
        ("trace", instruction, "--row", "0", "--col", "1", *one),
        ("trace", instruction, "--operand", "a", "--lane", "3", "--i", "1", "--json", *one),
        ("convert", source, goal, *one),
        ("convert", source, goal, "--json", *one),
        *(("emit", instruction if name in MULTIPLIES else fragment, "--to", name, *one) for name in FORMATS),
        ("compare", *one),
        ("compare", "table.csv", fragment, *one),
        ("diff", "sm_80", "sm_90"),
        ("diff", "results", "other"),
        ("pages",),
        ("fit", "results", "--json"),
        ("why-not", fragment, *one),
        ("list", *one),
        ("lower", instruction, *one),
    ]
    return [tuple(with_results(argv)) for argv in asked]


def with_results(argv: tuple[str, ...]) -> list[str]:
    """A command with --results where it has the option; `diff results other` and `fit results` name the folder."""
    takes = "--results" in options(argv[0]) and "results" not in argv
    return [*argv, "--results", "results"] if takes else [*argv]


def only(target: Target) -> list[tuple[str, ...]]:
    """The same for a folder alone, where tcprobe has that: --only."""
    chosen = [argv for argv in commands(target) if argv[0] in ("show", "where", "convert") and "--json" in argv]
    return [(*argv, "--only") for argv in chosen if "--only" in options(argv[0])]


def trials(target: Target, judge_of: Callable[[tuple[str, ...]], Judge]) -> tuple[Trial, ...]:
    """A trial of every command; `judge_of(argv)` gives its judge."""
    every = [*commands(target), *only(target)]
    return tuple(Trial(argv, judge_of(argv), PAGES if argv[0] == "pages" else ()) for argv in every)


def fewer(trials: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Three commands that read most, where there are too many inputs for all."""
    return tuple(t for t in trials if "cuda" in t.argv or t.argv[0] == "pages" or t.argv[::2][:2] == ("show", "--json"))


class Answer(NamedTuple):
    """What a command answers: exit code, and what it shows, pages with it."""

    code: int
    shown: str


def answer(argv: tuple[str, ...], outcome: Outcome, folder: Path) -> Answer:
    """Of an outcome."""
    pages = sorted((folder / "results").rglob("*.md")) if argv[0] == "pages" and (folder / "results").is_dir() else []
    return Answer(outcome.code, "".join([outcome.out, *(f"\n{p.name}\n{p.read_text()}" for p in pages)]))


class Baselines:
    """Answers of the healthy folder, and of what remains of it without some files. Each is asked once."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="hostile-truth-"))
        self._root.chmod(0o755)
        atexit.register(shutil.rmtree, self._root, ignore_errors=True)
        self._folders: dict[tuple[str, ...], Path] = {}
        self._answers: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Answer, str]] = {}
        self._lock = threading.RLock()

    def ask(self, argv: tuple[str, ...], without: tuple[str, ...] = ()) -> Answer:
        """The answer to a command where the files that `without` means are absent."""
        return self.told(argv, without)[0]

    def told(self, argv: tuple[str, ...], without: tuple[str, ...] = ()) -> tuple[Answer, str]:
        """The answer and stderr."""
        with self._lock:
            if (argv, without) not in self._answers:
                folder = self._folder(without)
                outcome = board.execute(Trial(argv, no_judge), folder)
                self._answers[argv, without] = answer(argv, outcome, folder), outcome.err
                for page in (folder / "results").rglob("*.md"):
                    page.unlink()
            return self._answers[argv, without]

    def _folder(self, without: tuple[str, ...]) -> Path:
        if without not in self._folders:
            folder = self._root / str(len(self._folders))
            for name in ("home", "tmp"):
                (folder / name).mkdir(parents=True)
            saved.healthy(folder)
            for name in saved.healthy_files():
                if any(fnmatch.fnmatch(name, pattern) for pattern in without):
                    (folder / "results" / name).unlink()
            _tidy(folder / "results")
            self._folders[without] = folder
        return self._folders[without]


def _tidy(folder: Path) -> None:
    """Remove empty folders below a folder."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


@cache
def baselines() -> Baselines:
    """Those of this campaign."""
    return Baselines()


def no_judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
    """Judges nothing."""
    yield from ()


def dependents(name: str) -> tuple[str, ...]:
    """Patterns of a file or folder of the healthy folder and of all files that name it."""
    if not name.endswith(".json"):
        return ("*",) if name == "layouts" else (f"{name}/*",)
    stem = Path(name).stem
    naming = [n for n, raw in saved.healthy_files().items() if n.startswith("sm_") and f'"{stem}"'.encode() in raw]
    return tuple(sorted({name, *(naming if name.startswith("layouts/") else ())}))


def refuses(argv: tuple[str, ...], damaged: str, words: str = "") -> Judge:
    """Judge of a folder in which `damaged` must not be believed: refused by name, or what is right without it."""
    without = dependents(damaged)
    names = tuple(filter(None, (Path(damaged).stem, words, "/layouts/")))

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        given = answer(argv, outcome, folder)
        if given == baselines().ask(argv):
            return
        named = any(name in outcome.err for name in names)
        if outcome.code >= 2:
            yield from _refusal(argv, outcome, named, without)
        elif given in _lesser(argv, without):
            if not named:
                yield Fault("wrong", "answers without the damaged file, and without a word")
        elif not (argv[0] in WHOLE and (named or any(name in outcome.out for name in names))):
            yield Fault("wrong", "another answer", difference(baselines().ask(argv).shown, given.shown))

    return judge


def _refusal(argv: tuple[str, ...], outcome: Outcome, named: bool, without: tuple[str, ...]) -> Iterator[Fault]:
    if outcome.code == 2 and (2, outcome.err) not in [(a.code, e) for a, e in [baselines().told(argv, without)]]:
        yield Fault("unclear", "exit 2, not 4, for a file", board.last_line(outcome.err))
    elif outcome.code > 2 and not named:
        yield Fault("unclear", "refusal without the file's name", board.last_line(outcome.err))


def _lesser(argv: tuple[str, ...], without: tuple[str, ...]) -> list[Answer]:
    published = tuple(word for word in argv if word not in ("--results", "results", "--only"))
    bare = ("*",)
    return [baselines().ask(argv, without), baselines().ask(argv, bare), baselines().ask(published, bare)]


def possible(argv: tuple[str, ...]) -> Judge:
    """Judge of a folder that may be right, though another: refused, or answered with the folder's name."""

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        if argv[0] not in ("emit", *WHOLE) and outcome.code == 0:
            yield from origin(outcome)

    return judge


def origin(outcome: Outcome) -> Iterator[Fault]:
    """An answer names where its table came from."""
    if "published" not in outcome.out and "results" not in outcome.out:
        yield Fault("wrong", "does not say where its table came from")


def difference(one: str, two: str) -> str:
    """Where two texts begin to differ."""
    at = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    start = max(0, at - 15)
    return f"{two[start : at + 50]!r} instead of {one[start : at + 50]!r}"


def table_of(text: str) -> dict[str, list[list[int]]]:
    """row and col by lane and i, from `show --json`."""
    table = json.loads(text.splitlines()[0])["table"]
    return {name: [[cell[at] for cell in lane] for lane in table] for at, name in ((0, "row"), (1, "col"))}
