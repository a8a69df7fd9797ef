"""Saved files that were changed and sealed again: whole by their checksum, and not to be believed for that."""

import hashlib
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tcprobe.store.documents import seal
from tcprobe.store.results import Results, published

LOAD = "wmma.m16n16k16.a.row.f16"  # each element is held twice
MULTIPLY = "wmma.mma.row.row.m16n16k16.f32.f32"
MMA = "mma.m8n8k4.row.col.f32.f16.f16.f32"  # four products


def filled(root):
    """A folder with a load, a multiply that reads one copy, an mma of several products, opcodes and a lowering."""
    for name, content in files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@cache
def files():
    """All that `filled` has, by name."""
    with TemporaryDirectory() as folder:
        results = Results(Path(folder))
        for experiment in (LOAD, MULTIPLY, MMA):
            results.write(published().measurement("sm_90", "live", experiment))
        opcodes = published().opcodes("sm_90")
        tables = {o: {k: published().layout(id_) for k, id_ in d["layouts"].items()} for o, d in opcodes.items()}
        results.write_opcodes("sm_90", "c", {o: (tables[o], d["source"]) for o, d in opcodes.items()})
        results.write_lowering("sm_90", "c", published().lowering("sm_90")["instructions"])
        found = (path for path in results.root.rglob("*") if path.is_file())
        return {path.relative_to(results.root).as_posix(): path.read_bytes() for path in found}


def rewrite(path, change):
    """Change a file's content and seal it again."""
    content = json.loads(path.read_text())
    kind = content.pop("kind")
    del content["schema"], content["sha256"]
    change(content)
    path.write_text(seal(kind, content))


def resealed(text):
    """A text with the checksum that it would have."""
    head = text.rpartition(',\n "sha256"')[0]
    return f'{head},\n "sha256": "{hashlib.sha256((head + chr(10) + "}").encode()).hexdigest()}"\n}}\n'


def put(root, table):
    """Store a table; its id."""
    results = Results(root)
    results._write_layouts({"d": table})
    return table.id
