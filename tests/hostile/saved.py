"""Saved files, as an outsider writes them: sealed with a right checksum, whatever they say."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

PUBLISHED = Path(__file__).resolve().parents[2] / "results"
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
PAIR = "mma.m8n8k4.row.col.f32.f16.f16.f32"
LOAD = "wmma.m16n16k16.a.row.f16"
STORE = "wmma.m16n16k16.accumulator.f32"
WMMA = "wmma.mma.row.col.m16n16k16.f32.f32"
REFUSED = "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32"
LIVE = {MMA, PAIR, LOAD, STORE, WMMA, REFUSED}
SASS = {LOAD, STORE}


def seal(text: str | bytes) -> bytes:
    """The text of a JSON object with its checksum put before the last brace."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    body = raw.rstrip().removesuffix(b"}").rstrip()
    digest = hashlib.sha256(body + b"\n}").hexdigest().encode()
    return body + b',\n "sha256": "' + digest + b'"\n}\n'


def plain(body: dict[str, Any]) -> str:
    """A body as tcprobe writes it: sorted keys, one a line, a list of plain values on one line.

    Other characters than ASCII stand as they are, lone surrogates as escapes.
    """
    return _canonical(body)


def _canonical(data: Any, indent: str = "") -> str:
    if isinstance(data, dict) and data:
        items = [f"{_text(str(key))}: {_canonical(data[key], indent + ' ')}" for key in sorted(data, key=str)]
    elif isinstance(data, list) and data and isinstance(data[0], (list, dict)):
        items = [_canonical(value, indent + " ") for value in data]
    else:
        return _text(data)
    opening, closing = "{}" if isinstance(data, dict) else "[]"
    return f"{opening}\n{indent} " + f",\n{indent} ".join(items) + f"\n{indent}{closing}"


def _text(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False)
    return text if text.isascii() or _encodes(text) else json.dumps(data)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def sealed(body: dict[str, Any]) -> bytes:
    """A body as a whole file."""
    return seal(plain(body))


def body_of(path: Path) -> dict[str, Any]:
    """What a saved file says, without its checksum."""
    body: dict[str, Any] = json.loads(path.read_bytes())
    body.pop("sha256")
    return body


def layout_id(layout: dict[str, Any]) -> str:
    """The name of a layout: a hash of its content."""
    return hashlib.sha256(json.dumps(layout, sort_keys=True).encode()).hexdigest()[:12]


def file_of(experiment: str, arch: str = "sm_90", method: str = "live") -> str:
    """Where below a results folder a measurement lies."""
    return f"{arch}/{method}/{experiment.replace('::', '--')}.json"


@cache
def healthy_files() -> dict[str, bytes]:
    """A small results folder, by path: live and machine-code measurements, their layouts, opcodes and lowering."""
    names = [file_of(e) for e in LIVE] + [file_of(e, "sm_80", "sass") for e in SASS]
    names += [f"{arch}/{kind}.json" for arch in ("sm_80", "sm_90") for kind in ("opcodes", "lowering")]
    files = {name: (PUBLISHED / name).read_bytes() for name in names}
    named = {word for raw in files.values() for word in _layouts(json.loads(raw))}
    return {**files, **{f"layouts/{n}.json": (PUBLISHED / "layouts" / f"{n}.json").read_bytes() for n in named}}


def _layouts(body: dict[str, Any]) -> set[str]:
    opcodes = body.get("opcodes", {}).values()
    return {*body.get("fragments", {}).values()} | {n for o in opcodes for n in o["layouts"].values()}


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files below a folder."""
    for name, raw in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


def healthy(folder: Path) -> Path:
    """A healthy results folder in `folder`, and a copy of it beside."""
    for name in ("results", "other"):
        write(folder / name, healthy_files())
    table = healthy_table(MMA, "a")
    (folder / "table.csv").write_text(csv_of(table))
    return folder / "results"


@cache
def _layout_text(experiment: str, operand: str) -> str:
    name = json.loads(healthy_files()[file_of(experiment)])["fragments"][operand]
    return json.dumps(json.loads(healthy_files()[f"layouts/{name}.json"])["layout"])


def healthy_table(experiment: str, operand: str) -> dict[str, Any]:
    """The layout of an operand as published: threads, elements, row, col and product by lane and i. A fresh copy."""
    layout: dict[str, Any] = json.loads(_layout_text(experiment, operand))
    return layout


def csv_of(layout: dict[str, Any]) -> str:
    """lane,i,row,col of a layout."""
    slots = [(lane, i) for lane in range(layout["threads"]) for i in range(layout["elements"])]
    return "lane,i,row,col\n" + "".join(f"{s},{i},{layout['row'][s][i]},{layout['col'][s][i]}\n" for s, i in slots)


def put_layout(results: Path, layout: dict[str, Any], experiment: str, operands: str) -> None:
    """Save a layout under its right name and let operands of a live measurement have it."""
    name = layout_id(layout)
    write(results, {f"layouts/{name}.json": sealed({"kind": "layout", "layout": layout, "schema": 1})})
    path = results / file_of(experiment)
    body = body_of(path)
    body["fragments"].update(dict.fromkeys(operands, name))
    path.write_bytes(sealed(body))
