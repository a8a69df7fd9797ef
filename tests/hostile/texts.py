"""Texts of files that would steer a terminal, end a comment, open a tag: what reaches stdout, stderr, pages, code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import code, reading, saved
from .board import Case, Fault, Judge, Outcome
from .saved import LOAD, MMA, REFUSED

CATEGORY = "texts"
Put = Callable[[dict[str, Any], str], object]

# characters that no text of a saved file has: refused
REFUSED_TEXTS = {
    "newline": 'x\nimport os; os.system("touch PWNED")\n#',
    "newline, C++": "x\nint PWNED = 0;\n//",
    "CR": "x\rPWNED",
    "ESC": "\x1b[31mPWNED\x1b[2J",
    "OSC 52": "\x1b]52;c;UFdORUQ=\x07",
    "OSC 8": "\x1b]8;;http://PWNED\x1b\\x\x1b]8;;\x1b\\",
    "C1 CSI": "\x9b31mPWNED",
    "NEL": "x\x85PWNED",
    "NUL": "x\0PWNED",
    "TAB": "x\tPWNED",
    "DEL": "x\x7fPWNED",
    "backspaces": "x\x08\x08\x08PWNED",
    "form feed": "x\x0cint PWNED;",
    "LINE SEPARATOR": "x\u2028PWNED",
    "PARAGRAPH SEPARATOR": "x\u2029PWNED",
    "right-to-left override": "x\u202ePWNED",
    "right-to-left isolate": "x\u2067PWNED\u2069",
    "lone surrogate": "x\ud800PWNED",
}
SOME = ("newline", "ESC", "right-to-left override")

# characters that a compiler's or device's name might have: refused, or never taken for code
ESCAPED_TEXTS = {
    "end of a string": '"""; import os; PWNED = """',
    "end of a string, single": "'''; import os; PWNED = '''",
    "a quote": 'x" + PWNED + "x',
    "end of a comment": "*/ int PWNED; /*",
    "begin of a comment": "/* PWNED",
    "backslash at the end": "PWNED \\",
    "backslash and a space at the end": "PWNED \\ ",
    "trigraph at the end": "PWNED ??/",
    "unicode escape": "\\u000a int PWNED; \\N{LINE FEED} \\x0a",
    "tag": "</text><script>PWNED()</script>",
    "end of CDATA, entity": "]]><PWNED/>&lt;&PWNED;<!--",
    "image": "<img src=x onerror=PWNED()>",
    "link": "[x](javascript:PWNED)",
    "columns": "| PWNED | `x` |",
    "heading": "# PWNED",
    "markup": "[bold red]PWNED[/] [link=file:///PWNED]x[/link]",
    "markup that closes nothing": "[/PWNED]",
    "TeX": "%PWNED} \\input{PWNED} \\write18{PWNED} $x$ ^^M",
    "format": "{PWNED} {0} %s %n ${PWNED} $(PWNED) `PWNED`",
    "formula of a spreadsheet": "=PWNED()+cmd|'/C calc'!A0",
    "other scripts": "é ü 中文 ✓",
    "10,000 letters": "PWNED" * 2000,
    "a line of 300 words": "PWNED " * 300,
}


def _at(*path: str) -> Put:
    def put(body: dict[str, Any], text: str) -> None:
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = text

    return put


def _key(*path: str) -> Put:
    """Puts the text into a name: that of the first entry."""

    def put(body: dict[str, Any], text: str) -> None:
        for key in path:
            body = body[key]
        first = next(iter(body))
        body[text] = body.pop(first)

    return put


_MEASURED = saved.file_of(MMA)
_OPCODE = "HMMA.16816.F32"
_PROVENANCE = ("device", "driver", "cuda", "compiler", "ptx", "tcprobe")
_WORDS = ("numbering", "experiment", "arch", "method", "status", "kind", "words")
FIELDS: list[tuple[str, str, Put]] = [
    *((name, _MEASURED, _at("provenance", name)) for name in _PROVENANCE),
    *((name, _MEASURED, _at(name)) for name in _WORDS),
    ("layout's name", _MEASURED, _at("fragments", "a")),
    ("operand", _MEASURED, _key("fragments")),
    ("structure", _MEASURED, _at("structure", "sha256")),
    ("key of provenance", _MEASURED, _key("provenance")),
    ("key", _MEASURED, _key()),
    ("compiler, sass", saved.file_of(LOAD, "sm_80", "sass"), _at("provenance", "compiler")),
    ("words of a refused one", saved.file_of(REFUSED), _at("words")),
    ("opcode", "sm_90/opcodes.json", _key("opcodes")),
    ("opcode's compiler", "sm_90/opcodes.json", _at("opcodes", _OPCODE, "compiler")),
    ("opcode's source", "sm_90/opcodes.json", _at("opcodes", _OPCODE, "source")),
    ("lowering's compiler", "sm_90/lowering.json", _at("compiler")),
    ("multiply", "sm_90/lowering.json", _key("instructions")),
    ("opcode of a multiply", "sm_90/lowering.json", _key("instructions", MMA, "opcodes")),
    ("why a multiply is refused", "sm_90/lowering.json", _at("instructions", MMA, "refused")),
]
FREE = ("device", "driver", "cuda", "compiler", "tcprobe")


def cases(thorough: bool = False) -> Iterator[Case]:
    """All of them: every character in one field, some in all fields; harmless characters in all free fields at once."""
    for name, text in REFUSED_TEXTS.items():
        for field, place, put in FIELDS:
            if field == "device" or name in SOME or thorough:
                whole = thorough or (field == "device" and name in (*SOME, "NUL", "lone surrogate"))
                yield _refusing(f"{name} in {field}", place, put, text, whole)
    for name, text in ESCAPED_TEXTS.items():
        yield _escaping(name, text)
    for name in SOME:
        yield from _names(name, REFUSED_TEXTS[name].replace("/", "|"))


def _refusing(name: str, place: str, put: Put, text: str, whole: bool) -> Case:
    target = reading.REFUSED if "refused one" in name else reading.SASS if "sass" in name else reading.MMA
    trials = reading.trials(target, lambda argv: reading.refuses(argv, place))
    some = (*reading.fewer(trials), *(t for t in trials if "python" in t.argv or t.argv[0] in ("show", "diff")))
    return Case(CATEGORY, name, _written(place, put, text), trials if whole else some)


def _written(place: str, put: Put, text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        path = saved.healthy(folder) / place
        body = saved.body_of(path)
        put(body, text)
        path.write_bytes(saved.sealed(body))

    return make


def _escaping(name: str, text: str) -> Case:
    def put(body: dict[str, Any], word: str) -> None:
        body["provenance"].update(dict.fromkeys(FREE, word))
        body["numbering"] = word

    every = reading.trials(reading.MMA, neutral)
    shown = tuple(t for t in every if t.argv[0] not in ("compare", "diff", "fit", "list", "lower"))
    return Case(CATEGORY, name, _written(_MEASURED, put, text), shown)


def neutral(argv: tuple[str, ...]) -> Judge:
    """Judge of texts that may stand in an answer: refused, or the answer has the same code, lines, tags and columns."""

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        if outcome.code > 1 or _MEASURED in outcome.err:  # refused, or left out with a word
            yield from reading.refuses(argv, _MEASURED)(outcome, folder)
            return
        given, healthy = reading.answer(argv, outcome, folder).shown, reading.baselines().ask(argv).shown
        try:
            found, expected = (code.skeleton(form_of(argv), text) for text in (given, healthy))
        except (ValueError, SyntaxError) as error:
            yield Fault("wrong", f"text breaks {form_of(argv)}", str(error))
            return
        if found != expected:
            yield Fault("wrong", f"text acts in {form_of(argv)}", reading.difference(expected, found))

    return judge


def form_of(argv: tuple[str, ...]) -> str:
    """As what the output of a command is read."""
    if argv[0] == "emit":
        return argv[argv.index("--to") + 1]
    return "pages" if argv[0] == "pages" else "json" if "--json" in argv else "lines"


def _names(name: str, text: str) -> Iterator[Case]:
    """Files and folders whose names are such texts."""
    trials = reading.fewer(reading.trials(reading.MMA, lambda argv: reading.no_judge))
    whole = reading.trials(reading.MMA, lambda argv: reading.no_judge)
    trials = (*trials, *(t for t in whole if t.argv[0] in ("fit", "diff", "compare")))
    for place in ("sm_90/live/{}.json", "sm_90{}/live/x.json", "layouts/{}.json"):
        yield Case(CATEGORY, f"{name} in the name {place}", _copied(place.format(text)), trials)


def _copied(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        saved.write(saved.healthy(folder), {name: saved.healthy_files()[_MEASURED]})

    return make
