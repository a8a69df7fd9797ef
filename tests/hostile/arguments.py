"""Arguments: numbers and ranges, names, archs, formats, options that contradict each other.

Each says what may come of it: "no" (refused), an answer of its own ("yes"), or that of another call, or a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from . import saved
from .board import Case, Fault, Judge, Outcome, Trial, execute
from .reading import MMA, difference, no_judge

CATEGORY = "arguments"
Argv = tuple[str | bytes, ...]
A, D = MMA.fragment, MMA.source
WHERE, SHOW = ("where", A, "--arch", "sm_90"), ("show", A, "--arch", "sm_90")

NO_NUMBERS = (
    "3-",
    "-1",
    "--1",
    "5-3",
    "16",
    "99999999999",
    "0-99999999999",
    "0-16",
    "1e1",
    "0x3",
    "1.0",
    "1.5",
    "abc",
    "",
    " ",
    "1-2-3",
    "1,2",
    "1..2",
    "*",
    "\uff11-\uff12",
    "\x1b[31m3",
    "3\n4",
    "\u202e3",
    "None",
    "nan",
    "9" * 5000,
    "1_0",
    "-",
)
ODD_NUMBERS = {"\uff13": "3", "03": "3", "+3": "3", " 3": "3", "3 ": "3", "3-3": "3", "0 - 3": "0-3", "\u0663": "3"}
NO_LANES = ("32", "0-32", "31-32", "0-1000000000", "1000000000000000000000", "-0-5", "0-")
NO_NAMES: tuple[str | bytes, ...] = (
    "",
    " ",
    "nothing",
    ".",
    "..",
    "/",
    "../" * 5,
    "%s%n",
    "{}",
    "{0.__class__}",
    "$(id)",
    "`id`",
    ";id",
    "|",
    "[",
    "[!a]",
    "[[:alpha:]]",
    "\x1b[31mPWNED",
    "\x1b]52;c;UFdORUQ=\x07",
    "a\nb",
    "a\x01b",
    "\u202ewmma",
    "\x9b31m",
    "\u2028",
    "[red]x[/]",
    "[/x]",
    "[link=file:///x]",
    b"\xff\xfe",
    b"wmma\xff*",
    "mma." * 500,
    "x" * 100_000,
    "-x",
    "--row",
    "(a+)+$",
    "a" * 30 + "!",
    "\uff57mma.m16n16k16.a.row.f16",
    "mma.m16n8k16",
    f"{A}.",
    f"{A}.a",
)
ODD_NAMES = (f"{A} ", f" {A}", f"{A}\n", A.upper(), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.a")
GLOBS = ("*", "?" * 30, "*" * 50, "*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "w*" * 200, "[a-z]*", "[]", "[^a]*", "**/*")
NO_ARCHS = (
    "",
    "sm_",
    "sm_0",
    "sm_1",
    "sm_99",
    "sm_9",
    "sm_900",
    "sm_-90",
    "sm_090",
    "sm_\uff19\uff10",
    "sm_90x",
    "sm_90,sm_80",
    "sm_*",
    "all all",
    "../sm_90",
    "sm_90/../sm_80",
    "sm_9\u0660",
    "\x1b[31m",
    "\u202esm_90",
    "sm_" + "9" * 5000,
    "[red]",
    "None",
    "sm_90'; --",
    "0",
    "9",
    "90.0",
    "-90",
)
ODD_ARCHS = ("90", "9.0", "sm90", "SM_90", " sm_90", "sm_90 ", "compute_90", "sm_90\n", "sm_90a")
NO_FORMATS = (
    "",
    "CUDA",
    "nothing",
    "../python",
    "tcprobe.emit.python",
    "__init__",
    "python ",
    "\x1b[31m",
    "os",
    "cuda,ptx",
    "x" * 5000,
)

# a command and what it cannot be read: options that contradict each other, are missing, or mean nothing
CONFLICTS: dict[Argv, list[str]] = {
    ("where",): [
        "",
        f"{A} {D} --row 0",
        f"{A} --row 0 --lane 0",
        f"{A} --row 0 --i 0",
        f"{A} --row 0 --product 1",
        f"{A} --col 0 --lane 1 --i 2",
        f"{saved.MMA} --row 0",
        "wmma.* --row 0",
        f"{A} --row 0 --results no --only",
    ],
    ("trace",): [f"{A} --row 0 --col 0 --lane 1", "wmma.mma.* --row 0 --col 0"],
    ("trace", saved.MMA): [
        "",
        "--row 0",
        "--row 16 --col 0",
        "--row 0 --col 8",
        "--row -1 --col 0",
        "--row 0 --col 0 --product 1",
        "--operand a",
        "--operand a --lane 32 --i 0",
        "--operand a --lane 0 --i 8",
        "--operand d --lane 0 --i 0",
        "--operand a --lane -1 --i 0",
        "--operand a --lane 0 --i -1",
        "--operand A --lane 0 --i 0",
        "--lane 0 --i 0",
        "--row 0 --col 0 --operand a --lane 0 --i 0",
        "--row " + "9" * 5000 + " --col 0",
    ],
    ("convert",): [
        "",
        A,
        f"{A} {D} {A}",
        f"{A} wmma.m8n8k4.a.row.f64",
        f"wmma.* {A}",
        f"{saved.MMA} {A}",
        f"{D} {D} --arch sm_70",
    ],
    ("emit",): [
        "",
        A,
        f"{A} --to",
        "--to cuda",
        f"{A} {D} --to csv",
        f"{A} --to tinygrad",
        "wmma.* --to csv",
        f"{A} --to python -o a -o no/b",
    ],
    ("compare",): ["in.csv", f"in.csv {A} {A}", f"{A} table.csv"],
    ("diff",): [
        "",
        "sm_80",
        "sm_80 sm_90 sm_70",
        "sm_80 sm_99",
        "sm_80 results",
        "no results",
        "--cuda no",
        "--cuda no --cuda no",
        "sm_80 sm_90 --arch sm_70",
        "a b --cuda . --cuda .",
        "--cuda . --cuda . --arch sm_80",
        "\x1b[31m sm_80",
    ],
    ("lower",): ["nothing", f"{A} --arch x"],
    ("lower", saved.MMA): ["--arch sm_99", "--cuda no", "--arch sm_110 --cuda no", "--cuda", "--arch sm_80 --cuda ."],
    ("run",): [
        "nothing",
        "--arch sm_99",
        "--method guess",
        "--limit 0",
        "--limit -1",
        "--limit x",
        "--method live --arch sm_80",
        "--device -1 --method live",
        "--device " + "9" * 30,
        f"{saved.LOAD} --arch sm_80 --cuda no",
        f"{saved.LOAD} --arch sm_80 --cuda .",
        f"{saved.LOAD} --arch sm_80 --limit nan",
        f"{saved.LOAD} --arch sm_80 --limit inf --method live",
    ],
    ("verify",): ["--device -1", "nothing", "--seed x", "--device 99"],
    ("fit",): ["nothing", "--sympy --latex nothing"],
    ("list",): ["nothing", "--family x"],
    ("why-not",): [A, "nothing --arch sm_80", "--arch sm_80"],
    ("pages",): ["x", "--results no --check"],
    ("doctor",): ["x", "--cuda"],
    ("show",): ["", "--json", f"{A} --arch", f"{A} --arch sm_80 --results"],
    (): ["nothing", "\x1b[31m", "--nothing", "-", "help"],
}
ANSWERS: dict[Argv, list[str]] = {
    (): ["--help", "-h", "--version", "doctor", "list", "list --json", "compare --arch sm_90"],
    ("show",): ["--help", f"{A} --arch all"],
    ("where", A): ["--row 15 --col 15", "--lane 31 --i 7", "--row 0-15", "--lane 0-31"],
    ("emit",): [f"{A} --to help", f"{A} --to cuda", f"{saved.MMA} --to ptx"],
    ("why-not", A): ["--arch sm_70"],
}


def cases(thorough: bool = False) -> Iterator[Case]:
    """All of them."""
    yield from (_case(argv, _refuses) for argv in _refused())
    for argv, plain in _same():
        yield _case(argv, _like(plain))
    yield from (_case(argv, _answers) for argv in _spelled(ANSWERS))
    yield from (_case((c, glob, "--arch", "sm_90"), _any) for c in ("show", "list") for glob in GLOBS)


def _spelled(table: dict[Argv, list[str]]) -> Iterator[Argv]:
    return ((*argv, *words.split(" ")) if words else argv for argv, some in table.items() for words in some)


def _refused() -> Iterator[Argv]:
    for option, word in product(("--row", "--col"), NO_NUMBERS):
        yield (*WHERE, option, word)
    for option, word in product(("--lane", "--i"), (*NO_LANES, *NO_NUMBERS[:3], *NO_NUMBERS[8:16])):
        yield (*WHERE, *(("--lane", "0") if option == "--i" else ()), option, word)
    for name in NO_NAMES:
        yield ("show", name, "--arch", "sm_90")
        yield ("where", name, "--row", "0")
        yield ("emit", name, "--to", "python")
    for name in NO_NAMES[:32:4]:
        yield from (("list", name), ("convert", A, name), ("trace", name, "--row", "0", "--col", "0"), ("lower", name))
    for arch in NO_ARCHS:
        yield ("show", A, "--arch", arch)
    for arch in NO_ARCHS[::3]:
        yield from (
            ("list", "--arch", arch),
            ("emit", A, "--to", "cuda", "--arch", arch),
            ("why-not", A, "--arch", arch),
        )
        yield from (
            ("compare", "--arch", arch),
            ("run", "--arch", arch),
            ("diff", arch, "sm_80"),
            ("lower", "--arch", arch),
        )
    yield from (("emit", A, "--to", form) for form in NO_FORMATS)
    yield from _spelled(CONFLICTS)


def _same() -> Iterator[tuple[Argv, Argv]]:
    """A call, and the one that it may be taken for."""
    for odd, plain in ODD_NUMBERS.items():
        yield (*WHERE, "--row", odd), (*WHERE, "--row", plain)
        yield (*WHERE, "--lane", odd), (*WHERE, "--lane", plain)
    for arch in ODD_ARCHS:
        yield ("show", A, "--arch", arch), SHOW
        yield ("emit", A, "--to", "cuda", "--arch", arch), ("emit", A, "--to", "cuda", "--arch", "sm_90")
    for name in ODD_NAMES:
        yield ("show", name, "--arch", "sm_90"), SHOW
        yield ("emit", name, "--to", "python"), ("emit", A, "--to", "python")
    yield (*SHOW, "--arch", "sm_80"), ("show", A, "--arch", "sm_80")


def _case(argv: Argv, judge: Judge) -> Case:
    name = " ".join(word if isinstance(word, str) else repr(word) for word in argv)
    return Case(CATEGORY, name[:150], _folder, (Trial(argv, judge, ("results*", "a")),))


def _folder(folder: Path) -> None:
    (folder / "table.csv").write_text("lane,i,row,col\n0,0,0,0\n")


def _refuses(outcome: Outcome, folder: Path) -> Iterator[Fault]:
    if outcome.code == 0:
        yield Fault("wrong", "exit 0 for what means nothing", outcome.out[:80].replace("\n", " | "))
    elif outcome.code == 1 and not outcome.err.strip() and not outcome.out.strip():
        yield Fault("unclear", "exit 1 without a word", "")


def _answers(outcome: Outcome, folder: Path) -> Iterator[Fault]:
    if outcome.code != 0 or not outcome.out.strip():
        yield Fault("wrong", "no answer to a fair question", f"exit {outcome.code}: {outcome.err[-80:]!r}")


def _any(outcome: Outcome, folder: Path) -> Iterator[Fault]:
    if outcome.code == 0 and not outcome.out.strip():
        yield Fault("wrong", "exit 0 without an answer", "")


def _like(plain: Argv) -> Judge:
    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        expected = execute(Trial(plain, no_judge), folder)
        if outcome.code == 0 and outcome.out != expected.out:
            yield Fault("wrong", "another answer than the plain call's", difference(expected.out, outcome.out))

    return judge
