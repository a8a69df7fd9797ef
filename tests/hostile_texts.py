"""Texts that attack a terminal or a program, and results whose fields have them."""

import json
import re

from click.testing import CliRunner
from crafted import resealed

from tcprobe.cli import main
from tcprobe.store.documents import seal
from tcprobe.store.finding import PROVENANCE
from tcprobe.store.results import Results, published
from tcprobe.text import MOST_TEXT

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
REFUSED = "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32"
HOSTILE = [
    "*/ evil(); /*",
    '""" + evil() + """',
    "''' + evil() + '''",
    "--> <script>evil()</script>",
    "<img src=x onerror=evil()>",
    "`evil`",
    "|evil|",
    "\\",
    "evil\\",
    "evil\\ ",
    "evil??/",
    "??/",
    "# evil",
    "// evil",
    "/* evil",
    "{evil}",
    "{0}",
    "%s %n",
    "$evil",
    "&lt;evil&gt;",
    "[evil](javascript:evil)",
    "![x](http://evil)",
    "[red]evil[/red]",
    "-*- coding: utf-7 -*-",
    "*evil*",
    "\\|evil",
    "</text><script>evil()</script>",
    "]]>",
    "%}evil",
    "^^M",
    "\u00e4\u6f22",
    "x" * MOST_TEXT,
    "",
    "# evil\\",
    "*//*",
    "*\\/",
    "/*/",
    "?\\?/",
]
CONTROL = [
    "a\nevil()",
    "a\revil()",
    "\x1b[2J",
    "\x1b]0;evil\x07",
    "\x9b31m",
    "\x7f",
    "\x00",
    "\x85evil()",
    "\u2028evil()",
    "\u2029",
    "\u202eevil",
    "\u2066evil",
    "\u200f",
    "\u200e",
    "\ud800",
    "\ufeff",
    "\x0bevil",
    "\x0cevil",
    "\u061c",
    "x" * (MOST_TEXT + 1),
]
MEASURED = [f"provenance.{name}" for name in PROVENANCE] + ["numbering"]
FIELDS = [*MEASURED, "words", "opcodes compiler", "lowering compiler", "lowering refused"]


def invoke(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def make(root):
    """Results of two archs, one experiment refused, with opcodes and lowerings."""
    results = Results(root)
    for key in (("sm_90", "live", MMA), ("sm_80", "derived", MMA), ("sm_90", "live", REFUSED)):
        results.write(published().measurement(*key))
    for opcode in ("HMMA.16816.F32",):
        data = published().opcodes("sm_90")[opcode]
        tables = {operand: published().layout(layout) for operand, layout in data["layouts"].items()}
        results.write_opcodes("sm_90", "c", {opcode: (tables, data["source"])})
    lowered = published().lowering("sm_90")["instructions"]
    results.write_lowering("sm_90", "c", {id_: lowered[id_] for id_ in (MMA, REFUSED)})
    return root


def put(root, field, text):
    """A text into one field of every file that has it, sealed again."""
    results = Results(root)
    if field in MEASURED:
        for arch, method in (("sm_90", "live"), ("sm_80", "derived")):
            change(results.path(arch, method, MMA), field.split("."), text)
    elif field == "words":
        change(results.path("sm_90", "live", REFUSED), ["words"], text)
    elif field == "opcodes compiler":
        change(results.opcodes_path("sm_90"), ["opcodes", "HMMA.16816.F32", "compiler"], text)
    else:
        keys = ["compiler"] if field == "lowering compiler" else ["instructions", REFUSED, "refused"]
        change(results.lowering_path("sm_90"), keys, text)


def change(path, keys, text):
    content = json.loads(path.read_text())
    kind = content.pop("kind")
    del content["schema"], content["sha256"]
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = text
    if "\ud800" in text:  # not to be written as UTF-8, but JSON has a way
        sealed = seal(kind, json.loads(json.dumps(content).replace("\\ud800", "SURROGATE"))).replace(
            "SURROGATE", "\\ud800"
        )
        path.write_text(resealed(sealed))
    else:
        path.write_text(seal(kind, content))


def readable(text):
    """Only characters that can be printed, and ends of lines."""
    return text.replace("\n", "").isprintable()


def stripped(text):
    """C code without comments, as a compiler reads it: trigraphs, then lines joined, then comments."""
    text = re.sub(r"\\[ \t]*\n", "", text.replace("??/", "\\"))
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m[1] or "", text, flags=re.DOTALL)
