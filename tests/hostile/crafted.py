"""What crafted files say: edits of measurements, layouts, opcodes and lowerings, of their text and of their bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from . import saved
from .saved import LOAD, MMA, PAIR, REFUSED, WMMA

Edit = Callable[[dict[str, Any]], object]


def _set(*path: str, to: Any) -> Edit:
    def edit(body: dict[str, Any]) -> None:
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = to

    return edit


def _drop(*path: str) -> Edit:
    def edit(body: dict[str, Any]) -> None:
        for key in path[:-1]:
            body = body[key]
        body.pop(path[-1])

    return edit


def _both(*edits: Edit) -> Edit:
    return lambda body: [edit(body) for edit in edits]


def _id(experiment: str, operand: str) -> str:
    return saved.layout_id(saved.healthy_table(experiment, operand))


def _deep(levels: int) -> Any:
    data: Any = 0
    for _ in range(levels):
        data = [data]
    return data


_LANES = [[8, 9, 10, 11, 12, 13, 14, 15]] * 32

# what a measurement says: name, experiment, edit
MEASUREMENTS: list[tuple[str, str, Edit]] = [
    *((f"schema {s!r}", MMA, _set("schema", to=s)) for s in (0, -1, True, "1", 1.0, None, 2, 10**30, [1])),
    ("no schema", MMA, _drop("schema")),
    *((f"kind {k!r}", MMA, _set("kind", to=k)) for k in ("layout", "", None, 1)),
    *((f"method {m!r}", MMA, _set("method", to=m)) for m in ("guess", "sass", "", None, ["live"])),
    ("method emulated in live", LOAD, _set("method", to="emulated")),
    *((f"status {s!r}", MMA, _set("status", to=s)) for s in ("unknown", "refused", "failed", None, {})),
    ("refused with words and a table", MMA, _both(_set("status", to="refused"), _set("words", to="no"))),
    ("measured without fragments", MMA, _set("fragments", to={})),
    ("refused without words", REFUSED, _set("words", to=None)),
    ("refused with a table", REFUSED, _set("fragments", to={"a": _id(MMA, "a")})),
    *((f"arch {a!r}", MMA, _set("arch", to=a)) for a in ("sm_80", "sm_9999", "", "../sm_90", 90, None)),
    *((f"experiment {e!r}", MMA, _set("experiment", to=e)) for e in (PAIR, MMA.upper(), "", f"../{MMA}", None, [MMA])),
    ("operand a missing", MMA, _drop("fragments", "a")),
    ("only a", MMA, _set("fragments", to={"a": _id(MMA, "a")})),
    ("operand e", MMA, _set("fragments", "e", to=_id(MMA, "a"))),
    ("operand A", MMA, _set("fragments", "A", to=_id(MMA, "a"))),
    ("a load that has a d", LOAD, _set("fragments", "d", to=_id(LOAD, "a"))),
    ("a load as b", LOAD, _set("fragments", to={"b": _id(LOAD, "a")})),
    ("layout of b as a", MMA, _set("fragments", "a", to=_id(MMA, "b"))),
    ("layout of a as d", MMA, _set("fragments", "d", to=_id(MMA, "a"))),
    ("layout of a store as a load", LOAD, _set("fragments", "a", to=_id(MMA, "a"))),
    ("layout with products as d", MMA, _set("fragments", "d", to=_id(PAIR, "d"))),
    ("layout without products as d", PAIR, _set("fragments", "d", to=_id(MMA, "d"))),
    ("a and b swapped", MMA, lambda b: b["fragments"].update(a=b["fragments"]["b"], b=b["fragments"]["a"])),
    *(
        (f"layout {n!r}", MMA, _set("fragments", "a", to=n))
        for n in ("0" * 12, "../../x", "", 1, None, ["6f521bd25bff"])
    ),
    ("fragments a list", MMA, _set("fragments", to=[["a", _id(MMA, "a")]])),
    *(
        (f"{t!r} triples", MMA, _set("structure", "triples", to=t))
        for t in (-1, 0, 2047, 10**40, True, "2048", 2048.0, None)
    ),
    ("structure of another multiply", MMA, _set("structure", "sha256", to="0" * 64)),
    *((f"structure sha256 {s!r:.20}", MMA, _set("structure", "sha256", to=s)) for s in ("", "zz", "A" * 64, 1, None)),
    ("structure with another key", MMA, _set("structure", "more", to=1)),
    ("structure without triples", MMA, _drop("structure", "triples")),
    *((f"structure {s!r}", MMA, _set("structure", to=s)) for s in ([], {}, 1, "x")),
    ("unread of d", WMMA, _set("unread", "d", to=_LANES)),
    ("unread of e", WMMA, _set("unread", "e", to=_LANES)),
    ("unread of 31 lanes", WMMA, _set("unread", "a", to=_LANES[:31])),
    ("unread of 33 lanes", WMMA, _set("unread", "a", to=[*_LANES, [0]])),
    *(
        (f"unread i {i!r}", WMMA, _set("unread", "a", to=[[i], *_LANES[1:]]))
        for i in (16, -1, 10**30, True, 8.0, "8", None, [8])
    ),
    ("unread twice", WMMA, _set("unread", "a", to=[[8, 8, *range(9, 16)], *_LANES[1:]])),
    ("unread of all slots", WMMA, _set("unread", "a", to=[list(range(16))] * 32)),
    ("unread where there is one copy", MMA, _set("unread", to={"a": [[0]] * 32})),
    *((f"unread {u!r}", WMMA, _set("unread", to=u)) for u in (None, [], {"a": None}, {"a": {}})),
    ("words of a measured one", MMA, _set("words", to="x")),
    *((f"words {w!r}", REFUSED, _set("words", to=w)) for w in (1, ["x"], {})),
    *((f"numbering {n!r}", MMA, _set("numbering", to=n)) for n in (None, 1, [])),
    ("no provenance.compiler", MMA, _drop("provenance", "compiler")),
    ("provenance with another key", MMA, _set("provenance", "more", to="x")),
    *((f"provenance {p!r}", MMA, _set("provenance", to=p)) for p in (None, [], "x")),
    *((f"compiler {c!r}", MMA, _set("provenance", "compiler", to=c)) for c in (None, 1, ["x"], {"x": "y"})),
    ("another key", MMA, _set("more", to=1)),
    *(
        (f"no {key}", MMA, _drop(key))
        for key in ("arch", "experiment", "fragments", "provenance", "structure", "unread")
    ),
    ("triples NaN", MMA, _set("structure", "triples", to=math.nan)),
    ("triples Infinity", MMA, _set("structure", "triples", to=math.inf)),
    ("5 MB of compiler", MMA, _set("provenance", "compiler", to="x" * 5_000_000)),
    ("9 MB of compiler", MMA, _set("provenance", "compiler", to="x" * 9_000_000)),
    ("5 MB of words", REFUSED, _set("words", to="x " * 2_500_000)),
]


def permuted(layout: dict[str, Any]) -> None:
    layout["row"], layout["col"] = layout["row"][::-1], layout["col"][::-1]


def _transposed(layout: dict[str, Any]) -> None:
    layout["row"], layout["col"] = layout["col"], layout["row"]


def _slot(name: str, value: Any, lane: int = 5, i: int = 1) -> Edit:
    return lambda layout: layout[name][lane].__setitem__(i, value)


def _cell(row: Any, col: Any) -> Edit:
    return _both(_slot("row", row), _slot("col", col))


def _lanes(count: int) -> Edit:
    def edit(layout: dict[str, Any]) -> None:
        layout.update({n: (layout[n] * 2)[:count] for n in ("row", "col")}, threads=count)

    return edit


def _elements(count: int) -> Edit:
    def edit(layout: dict[str, Any]) -> None:
        layout.update({n: [(lane * 2)[:count] for lane in layout[n]] for n in ("row", "col")}, elements=count)

    return edit


def _all(name: str, value: Any) -> Edit:
    return lambda layout: layout.update({name: [[value] * layout["elements"]] * layout["threads"]})


def _third_copy(layout: dict[str, Any]) -> None:
    for name in ("row", "col"):
        layout[name][0][2] = layout[name][0][0]


# what a layout says, under its own right name: name, experiment, operands, edit
LAYOUTS: list[tuple[str, str, str, Edit]] = [
    ("lanes turned round", MMA, "a", permuted),
    ("transposed", MMA, "a", _transposed),
    ("two elements exchanged", MMA, "d", lambda t: t["row"][0].reverse()),
    ("lanes turned round, products", PAIR, "a", permuted),
    *((f"{n} threads", MMA, "a", _lanes(n)) for n in (1, 16, 64)),
    *((f"{n} elements", MMA, "a", _elements(n)) for n in (1, 4, 16)),
    *((f"{n} threads, a load", LOAD, "a", _lanes(n)) for n in (16, 64)),
    *((f"{n} elements, a load", LOAD, "a", _elements(n)) for n in (8, 32)),
    *((f"row {v!r}", MMA, "a", _slot("row", v)) for v in (16, 255, 65535, 65536, -1, True, 1.0, "1", [1], 10**30)),
    *((f"col {v!r}, a load", LOAD, "a", _slot("col", v)) for v in (16, 65535, -1)),
    ("row NaN", MMA, "a", _slot("row", math.nan)),
    ("one slot unused", MMA, "a", _cell(None, None)),
    ("one slot unused, a load", LOAD, "a", _cell(None, None)),
    ("half a slot unused", MMA, "a", _slot("row", None)),
    ("an element twice, another never", MMA, "a", _cell(0, 0)),
    ("all slots hold 0,0", MMA, "a", _both(_all("row", 0), _all("col", 0))),
    ("all slots unused", MMA, "a", _both(_all("row", None), _all("col", None))),
    ("an element three times, another once", LOAD, "a", _third_copy),
    ("all slots hold 0,0, a load", LOAD, "a", _both(_all("row", 0), _all("col", 0))),
    ("a product where there is one", MMA, "a", _all("product", 0)),
    ("product 1 where there is one", LOAD, "a", _all("product", 1)),
    ("no product where there are four", PAIR, "a", _drop("product")),
    ("product 4 of four", PAIR, "a", _slot("product", 4)),
    ("all of one product", PAIR, "a", _all("product", 0)),
    ("no col", MMA, "a", _drop("col")),
    *((f"threads {v!r}", MMA, "a", _set("threads", to=v)) for v in (True, 32.0, "32", 0, -32, 33, 10**30, None)),
    *((f"elements {v!r}", MMA, "a", _set("elements", to=v)) for v in (0, "8", 1 << 13)),
    ("a lane too short", MMA, "a", lambda t: t["row"][3].pop()),
    ("a lane too few", MMA, "a", lambda t: (t["row"].pop(), t["col"].pop())),
    ("row a number", MMA, "a", _set("row", to=1)),
    ("row an object", MMA, "a", _set("row", to={})),
    ("another key in the layout", MMA, "a", _set("more", to=1)),
    ("another output", MMA, "a", lambda t: t.update(depth=t["row"])),
]

OPCODE = "HMMA.16816.F32"
OPCODES: list[tuple[str, Edit]] = [
    *((f"opcodes {v!r}", _set("opcodes", to=v)) for v in ([], None, 1, "x", {"X": []}, {"X": None}, {"": {}})),
    ("no opcodes", _drop("opcodes")),
    *((f"opcodes schema {s!r}", _set("schema", to=s)) for s in (0, True, 2)),
    ("opcodes kind", _set("kind", to="layout")),
    *(
        (f"opcode's layouts {v!r}", _set("opcodes", OPCODE, "layouts", to=v))
        for v in ([], None, {}, {"e": "0" * 12}, {"a": 1})
    ),
    ("opcode's layout missing", _set("opcodes", OPCODE, "layouts", "a", to="0" * 12)),
    ("opcode's layout above", _set("opcodes", OPCODE, "layouts", "a", to="../../x")),
    ("opcode's compiler a number", _set("opcodes", OPCODE, "compiler", to=1)),
    *((f"opcode's source {v!r}", _set("opcodes", OPCODE, "source", to=v)) for v in ("nothing", LOAD, "", None, 1)),
    ("opcode with another key", _set("opcodes", OPCODE, "more", to=1)),
    ("another key beside opcodes", _set("more", to=1)),
]

LOWERINGS: list[tuple[str, Edit]] = [
    *((f"instructions {v!r}", _set("instructions", to=v)) for v in ([], None, 1, {"x": {}}, {MMA: None}, {MMA: []})),
    ("no instructions", _drop("instructions")),
    *((f"lowering schema {s!r}", _set("schema", to=s)) for s in (0, True, 2)),
    *(
        (f"opcodes of a multiply {v!r}", _set("instructions", MMA, "opcodes", to=v))
        for v in ([], None, {"X": -1}, {"X": "1"}, {"X": 1.5}, {"X": True}, {"X": 10**30}, {"": 1})
    ),
    *((f"others {v!r}", _set("instructions", MMA, "others", to=v)) for v in (-1, "1", None, True, 10**30)),
    *((f"refused {v!r}", _set("instructions", MMA, "refused", to=v)) for v in (1, [], "", {"x": 1})),
    ("refused and lowered", _set("instructions", MMA, "refused", to="no")),
    ("no others", _drop("instructions", MMA, "others")),
    ("an unknown multiply", _set("instructions", "mma.m1n1k1", to={"opcodes": {}, "others": 0, "refused": None})),
    ("lowering's compiler a number", _set("compiler", to=1)),
    ("no compiler", _drop("compiler")),
]

# what happens to the text of a sealed measurement: it is sealed again, so these are edits of JSON, not of data
TEXTS: list[tuple[str, Callable[[str], str]]] = [
    ("status twice", lambda t: t.replace(' "status": "measured"', ' "status": "refused",\n "status": "measured"')),
    ("fragments twice", lambda t: t.replace(' "fragments": {', ' "fragments": {},\n "fragments": {')),
    ("operand twice", lambda t: t.replace('  "a": ', '  "a": "000000000000",\n  "a": ')),
    ("compiler twice", lambda t: t.replace('  "compiler": ', '  "compiler": "x",\n  "compiler": ')),
    ("schema twice", lambda t: t.replace(' "schema": 1', ' "schema": 2,\n "schema": 1')),
    ("100,000 levels", lambda t: t.replace('"unread": {}', f'"unread": {"[" * 100_000}{"]" * 100_000}')),
    ("900 levels", lambda t: t.replace('"unread": {}', f'"unread": {json.dumps(_deep(900))}')),
    ("5,000 digits", lambda t: t.replace('"triples": 2048', f'"triples": {"2" * 5000}')),
    ("4,000 digits", lambda t: t.replace('"triples": 2048', f'"triples": {"2" * 4000}')),
    ("1e400", lambda t: t.replace('"triples": 2048', '"triples": 1e400')),
    ("two objects", lambda t: t + t),
    ("a comment", lambda t: t.replace("{", "{ // it\n", 1)),
    ("a comma too many", lambda t: t.replace('"words": null', '"words": null,')),
    ("single quotes", lambda t: t.replace('"', "'")),
]

BYTES: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("empty", lambda raw: b""),
    *((f"only {text}", lambda raw, text=text: text.encode()) for text in ("{}", "[]", "null", "1", '"x"', "NaN")),
    ("half", lambda raw: raw[: len(raw) // 2]),
    ("a byte less", lambda raw: raw[:-1]),
    ("a newline more", lambda raw: raw + b"\n"),
    ("a text after it", lambda raw: raw + b"x"),
    ("BOM", lambda raw: b"\xef\xbb\xbf" + raw),
    ("CRLF", lambda raw: raw.replace(b"\n", b"\r\n")),
    ("UTF-16", lambda raw: raw.decode().encode("utf-16")),
    ("Latin-1", lambda raw: raw.replace(b"H200", b"H\xfc00").replace(b"measured", b"measur\xe9d")),
    ("NUL bytes", lambda raw: b"\0" * len(raw)),
    ("a NUL inside", lambda raw: raw.replace(b"1", b"\0", 1)),
    ("digit of the checksum", lambda raw: raw[:-5] + (b"1" if raw[-5:-4] != b"1" else b"2") + raw[-4:]),
    ("no checksum", lambda raw: raw.rpartition(b',\n "sha256"')[0] + b"\n}\n"),
    ("one letter edited", lambda raw: raw.replace(b'"kind"', b'"kinb"')),
    ("not JSON", lambda raw: bytes(range(256)) * 8),
]
