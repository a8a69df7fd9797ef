"""Somebody's CSV of lane,i,row,col, as `compare FILE FRAGMENT` and `fit FILE` get it.

Each input says which table it is. None: it is none, and no answer is right. What a reader may take or refuse (spaces,
quotes, another order of columns) has its table: the answer has to be that of the table, or a refusal.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from . import board, nodes, saved
from .board import Case, Fault, Judge, Outcome, Trial
from .reading import MMA, no_judge

CATEGORY = "csv"
FRAGMENT = MMA.fragment
Table = dict[tuple[int, int], tuple[int, int]]
_LAYOUT = saved.healthy_table(saved.MMA, "a")
TRUE: Table = {(s, i): (_LAYOUT["row"][s][i], _LAYOUT["col"][s][i]) for s in range(32) for i in range(8)}
HEAD = "lane,i,row,col"


def _lines(table: Table) -> list[str]:
    return [f"{lane},{i},{row},{col}" for (lane, i), (row, col) in table.items()]


def _text(head: str = HEAD, lines: list[str] | None = None, end: str = "\n", last: str = "\n") -> bytes:
    return (end.join([head, *(_lines(TRUE) if lines is None else lines)]) + last).encode()


def _columns(order: str) -> bytes:
    names = order.split(",")
    rows = [dict(zip(HEAD.split(","), line.split(","), strict=True)) for line in _lines(TRUE)]
    return _text(order, [",".join(row.get(name.strip().lower(), "9") for name in names) for row in rows])


def _cell(value: str, column: int = 0, line: int = 1) -> bytes:
    lines = _lines(TRUE)
    cells = lines[line].split(",")
    cells[column] = value
    return _text(lines=[*lines[:line], ",".join(cells), *lines[line + 1 :]])


def _with(*more: str) -> bytes:
    return _text(lines=[*_lines(TRUE), *more])


def _other(**cells: tuple[int, int]) -> Table:
    return {**TRUE, **{tuple(map(int, key[1:].split("_"))): cell for key, cell in cells.items()}}  # type: ignore[misc]


def _swapped() -> Table:
    return {(lane, i): (col, row) for (lane, i), (row, col) in TRUE.items()}


OTHER: Table = {(lane, i): (lane, i) for lane in range(64) for i in range(2)}
ORDERS = ("row,col,lane,i", "i,lane,row,col", "col,row,i,lane", "LANE,I,ROW,COL", "Lane,I,Row,Col", "lane,i,col,row")
STRANGE = (
    "lane,i,row",
    "lane,i,row,row",
    "lane,lane,i,row,col",
    "lane,i,row,column",
    "thread,i,row,col",
    "lane,i,row,col,row",
)
HUGE = ("4294967296", "18446744073709551616", "9" * 400, "9" * 5000)

# name, bytes, the table that they are
PLAIN: list[tuple[str, bytes, Table | None]] = [
    ("as it is", _text(), TRUE),
    ("lines turned round", _text(lines=_lines(TRUE)[::-1]), TRUE),
    ("no newline at the end", _text(last=""), TRUE),
    ("an empty line at the end", _text(last="\n\n"), TRUE),
    ("empty lines between", _text(end="\n\n"), TRUE),
    ("CRLF", _text(end="\r\n", last="\r\n"), TRUE),
    ("CR", _text(end="\r", last="\r"), TRUE),
    ("BOM", b"\xef\xbb\xbf" + _text(), TRUE),
    ("UTF-16", _text().decode().encode("utf-16"), TRUE),
    ("UTF-16 without BOM", _text().decode().encode("utf-16-le"), TRUE),
    ("UTF-32", _text().decode().encode("utf-32"), TRUE),
    ("quotes", _text(lines=[",".join(f'"{c}"' for c in line.split(",")) for line in _lines(TRUE)]), TRUE),
    ("quotes in the head", _text('"lane","i","row","col"'), TRUE),
    ("spaces after commas", _text("lane, i, row, col", [line.replace(",", ", ") for line in _lines(TRUE)]), TRUE),
    ("spaces before numbers", _text(lines=[" " + line for line in _lines(TRUE)]), TRUE),
    ("tabs between", _text().replace(b",", b"\t"), TRUE),
    ("semicolons between", _text().replace(b",", b";"), TRUE),
    ("no head", _text(_lines(TRUE)[0], _lines(TRUE)[1:]), TRUE),
    ("two elements exchanged", _text(lines=_lines(_other(_0_0=(0, 1), _0_1=(0, 0)))), _other(_0_0=(0, 1), _0_1=(0, 0))),
    ("transposed", _text(lines=_lines(_swapped())), _swapped()),
    ("an element twice", _text(lines=_lines(_other(_0_0=(0, 1)))), _other(_0_0=(0, 1))),
    ("a line less", _text(lines=_lines(TRUE)[:-1]), dict(list(TRUE.items())[:-1])),
    ("one line", _text(lines=["0,0,0,0"]), {(0, 0): (0, 0)}),
    ("half of the lanes", _text(lines=_lines(TRUE)[:128]), dict(list(TRUE.items())[:128])),
    ("the same line twice", _with("0,0,0,0"), TRUE),
    ("a slot twice, differing", _with("0,0,5,5"), None),
    ("a slot twice, differing, at once", _text(lines=["0,0,5,5", *_lines(TRUE)]), None),
    ("the head twice", _with(HEAD), None),
    *((f"head {order}", _columns(order), TRUE) for order in ORDERS),
    ("another column", _columns("lane,i,row,col,note"), TRUE),
    ("a column between", _columns("lane,note,i,row,col"), TRUE),
    *((f"head {order}", _columns(order), None) for order in STRANGE),
    ("another head over numbers", _text("a,b,c,d"), None),
    ("empty head", _text(""), TRUE),
    ("head only", _text(lines=[]), None),
    ("empty", b"", None),
    ("a newline", b"\n", None),
    ("spaces", b"   \n  \n", None),
    ("a comment first", b"# made by hand\n" + _text(), TRUE),
    ("sep=, first", b"sep=,\n" + _text(), TRUE),
    ("lane 32", _with("32,0,0,0"), _other(_32_0=(0, 0))),
    ("i 8", _with("0,8,0,0"), _other(_0_8=(0, 0))),
    ("64 lanes of 2", _text(lines=_lines(OTHER)), OTHER),
    ("row 16", _cell("16", 2), _other(_0_1=(16, 1))),
    ("col 65535", _cell("65535", 3), _other(_0_1=(0, 65535))),
    *((f"row {v}", _cell(v, 2), None) for v in ("65536", *HUGE)),
    *((f"lane {v}", _cell(v, 0), None) for v in ("-1", "4096", "1000000", *HUGE)),
    *((f"i {v}", _cell(v, 1), None) for v in ("-1", "4096", "1000000000", *HUGE)),
    ("line too short", _with("31,7,1"), None),
    ("line too long", _with("31,7,15,15,3"), None),
    ("a word at the end", _with("end"), None),
    ("commas only", _with(",,,"), TRUE),
    ("a quote that does not end", _with('"31,7,15,15'), None),
    ("a newline in quotes", _with('"31\n",7,15,15'), None),
    ("a quote inside a number", _cell('1"2'), None),
    ("JSON", json.dumps([[0, 0, 0, 0]]).encode(), None),
    ("HTML", b"<html><body>404</body></html>", None),
    ("a picture", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), None),
    ("a ZIP", b"PK\x03\x04" + bytes(64), None),
    ("Latin-1", _text("l\u00e4ne,i,row,col").decode().encode("latin-1"), None),
    ("invalid UTF-8 in a number", _text().replace(b"0,1,0,1", b"0,1\xff,0,1"), None),
    ("NUL in a number", _text().replace(b"0,1,0,1", b"0,1\x00,0,1"), None),
    ("NUL in the head", _text("lane,i\0,row,col"), None),
    ("NUL bytes only", bytes(4096), None),
    ("ESC in the head", _text("lane,i,\x1b[31mrow,col"), None),
    ("OSC in the head", _text("lane,i,row,\x1b]52;c;UFdORUQ=\x07col"), None),
    ("ESC in another column's head", _text("lane,i,row,col,\x1b[2J", [f"{line},1" for line in _lines(TRUE)]), TRUE),
    ("ESC in a cell", _cell("\x1b[31m1"), None),
    ("ESC in a cell of another column", _text(HEAD + ",note", [f"{line},\x1b[2J" for line in _lines(TRUE)]), TRUE),
    ("C1 in a cell", _cell("\x9b1m"), None),
    ("CR in a cell", _cell("1\r2"), None),
    ("right-to-left in the head", _text("lane,i,row,\u202ecol"), None),
    ("right-to-left in a cell", _cell("\u202e1"), None),
    ("line separator", _text(end="\u2028"), TRUE),
    ("form feed between lines", _text(end="\f"), TRUE),
    ("a word of a megabyte", _cell("x" * 1_000_000), None),
    ("a head of a megabyte", _text("lane,i,row,col," + "x" * 1_000_000), None),
    ("a thousand columns", _text(HEAD + ",x" * 1000, [line + ",0" * 1000 for line in _lines(TRUE)]), TRUE),
    ("a line of 200,000 commas", _with("," * 200_000), TRUE),
]

# one number, lane of the second line (0) or row (0): how it is written, and whether it is that number at all
NUMBERS: list[tuple[str, str, bool]] = [
    ("full-width", "\uff10", False),
    ("Arabic", "\u0660", False),
    ("Devanagari", "\u0966", False),
    ("superscript", "\u2070", False),
    ("circled", "\u24ea", False),
    ("underscores", "0_0", False),
    ("plus", "+0", True),
    ("minus", "-0", True),
    ("zeros", "000", True),
    ("decimal", "0.0", True),
    ("point", "0.", True),
    ("exponent", "0e0", True),
    ("exponent of 9s", "0e99999", True),
    ("half", "0.5", False),
    ("hexadecimal", "0x0", True),
    ("octal", "0o0", True),
    ("binary", "0b0", True),
    ("true", "True", False),
    ("false", "false", False),
    ("none", "None", False),
    ("nan", "nan", False),
    ("inf", "inf", False),
    ("minus one", "-1", False),
    ("minus, Unicode", "\u22121", False),
    ("empty", "", False),
    ("space", " ", False),
    ("no-break space", "\u00a00", True),
    ("zero-width space", "0\u200b", True),
    ("tab", "0\t", True),
    ("thousands", "0'000", False),
    ("expression", "1-1", False),
    ("code", "__import__('os').system('x')", False),
    ("formula", "=0", False),
    ("fraction", "0/1", False),
    ("complex", "0j", False),
    ("long", "0L", False),
    ("suffix", "0u", False),
    ("parenthesis", "(0)", False),
    ("two", "0 0", False),
    ("half a pair", "0)", False),
]

# lane, i: where a table of two lines ends, and so how large it is
BOUNDS = [
    (4095, 4095),
    (4095, 0),
    (0, 4095),
    (4096, 0),
    (0, 4096),
    (1023, 1023),
    (31, 4095),
    (4095, 7),
    (31, 255),
    (31, 8),
    (63, 7),
    (32, 0),
    (65535, 65535),
    (1 << 31, 1),
    (1, 1 << 31),
    (1 << 63, 1 << 63),
    (10**30, 0),
    (0, 10**30),
]


def _many(count: int, lanes: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with open(path, "w", encoding="ascii") as file:
            file.write(HEAD + "\n")
            file.writelines(f"{n % lanes},{n // lanes},{n % 65536},0\n" for n in range(count))

    return make


def _repeated(line: str, count: int) -> Callable[[Path], object]:
    return lambda path: path.write_text(f"{HEAD}\n" + f"{line}\n" * count)


def _megabytes(first: bytes, byte: bytes) -> Callable[[Path], object]:
    """Bit by bit: what this process has needed at most counts as the need of its children."""

    def make(path: Path) -> None:
        with open(path, "wb") as file:
            file.write(first)
            for _ in range(200):
                file.write(byte * 1_000_000)

    return make


LARGE: list[tuple[str, Callable[[Path], object]]] = [
    ("1,000,000 rows, 32 lanes", _many(1_000_000, 32)),
    ("1,000,000 rows, 4096 lanes", _many(1_000_000, 4096)),
    ("1,000,000 times the same row", _repeated("0,0,0,0", 1_000_000)),
    ("100,000 rows", _many(100_000, 32)),
    ("5,000,000 empty lines", _repeated("", 5_000_000)),
    ("200 MB of one line", _megabytes(b"", b"0")),
    ("200 MB of commas", _megabytes(_text(), b",")),
]


def cases(thorough: bool = False) -> Iterator[Case]:
    """All of them."""
    for name, raw, table in PLAIN:
        yield _case(name, _writing(raw), table)
    for name, word, same in NUMBERS:
        for place, column in (("lane", 0), ("row", 2)):
            yield _case(f"{name} as {place}", _writing(_cell(word, column)), TRUE if same else None)
    for lane, i in BOUNDS:
        lines = ["0,0,0,0", f"{lane},{i},0,0"]
        yield _case(f"up to {lane},{i}", _writing(_text(lines=lines)), {(0, 0): (0, 0), (lane, i): (0, 0)})
    for name, make in LARGE:
        yield _case(name, make, None)
    for name, make in nodes.NODES:
        if not name.startswith("good"):
            yield _case(name, make, None)
    yield _case("missing", lambda path: None, None)
    if board.rights_can_go():
        yield _case("unreadable", lambda path: (path.touch(), path.chmod(0)), None, nobody=True)


def _writing(raw: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(raw)


def _case(name: str, make: Callable[[Path], object], table: Table | None, nobody: bool = False) -> Case:
    compare = Trial(("compare", "in.csv", FRAGMENT, "--arch", "sm_90"), _compared(table), nobody=nobody)
    fit = Trial(("fit", "in.csv", "--json"), _fitted(table), nobody=nobody)
    plain = Trial(("fit", "in.csv", "--latex"), no_judge, nobody=nobody)
    return Case(CATEGORY, name, lambda folder: make(folder / "in.csv"), (compare, fit, plain))


def _compared(table: Table | None) -> Judge:
    """`N of M slots agree` has to be the number; exit 0 only where all that are given do."""

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        yield from _late(outcome)
        if outcome.code > 1:
            return
        if table is None:
            yield Fault("wrong", "compare takes what is not a table", outcome.out[:100])
            return
        found = re.search(r"(\d+) of (\d+) slots agree", outcome.out)
        agree = sum(TRUE.get(slot) == cell for slot, cell in table.items())
        if outcome.code == 0 and agree < len(table):
            yield Fault("wrong", "compare agrees where the table differs", outcome.out[:100])
        elif not found or int(found[1]) != agree or int(found[2]) not in (len(table), len(TRUE)):
            yield Fault("wrong", "compare counts another number", f"{found and found[0]}, not {agree}")

    return judge


def _fitted(table: Table | None) -> Judge:
    """Formulas that fit prints hold on every slot given."""

    def judge(outcome: Outcome, folder: Path) -> Iterator[Fault]:
        yield from _late(outcome)
        if outcome.code > 1 or not outcome.out.strip():
            return
        if table is None:
            yield Fault("wrong", "fit takes what is not a table", outcome.out[:100])
            return
        formulas = json.loads(outcome.out).get("formula") or {}
        for name, at in (("row", 0), ("col", 1)):
            if formulas.get(name) and any(value(formulas[name], *slot) != cell[at] for slot, cell in table.items()):
                yield Fault("wrong", "fit prints a formula that does not hold", f"{name} = {formulas[name]}")

    return judge


def _late(outcome: Outcome) -> Iterator[Fault]:
    if outcome.seconds > board.limits.seconds / 2:
        yield Fault("hung", "no end within seconds", f"{outcome.seconds:.1f} s")


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def value(formula: str, lane: int, i: int) -> int:
    """A formula's value, by an evaluator of its own."""

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Name):
            return {"lane": lane, "thread": lane, "i": i}[node.id]
        assert isinstance(node, ast.Constant)
        assert isinstance(node.value, int)
        return node.value

    return of(ast.parse(formula, mode="eval").body)
