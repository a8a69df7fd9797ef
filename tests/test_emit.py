"""Every format, read by what it is made for: compilers, Python, SymPy, a browser; and what no format can say."""

import csv
import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner
from emit_tables import RESULTS, distinct, nonlinear, run_python, scrambled, warpgroup

from tcprobe import emit
from tcprobe.cli import main
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa.names import resolve
from tcprobe.layout.csv import read_csv
from tcprobe.probes import ptx
from tcprobe.sass import toolchain
from tcprobe.store.cell import load, operands

NAMES = (
    "cuda",
    "cute",
    "cute-dsl",
    "csv",
    "json",
    "latex",
    "markdown",
    "mosaic",
    "numba",
    "numpy",
    "ptx",
    "python",
    "svg",
    "svg-cute",
    "svg-ptx",
    "sympy",
    "tensor-layouts",
    "tilelang",
    "tinygrad",
    "triton",
)


def test_the_walk_finds_all_formats():
    assert set(emit.names()) == {*NAMES, "svg-warps"}  # which draws a whole CTA's tile: test_layouts.py
    assert all(module.WHAT for module in emit.formats().values())


@pytest.mark.parametrize("name", NAMES)
def test_output_is_the_same_twice_and_names_its_evidence(name):
    tables = list(operands(resolve("mma.m16n8k16.row.col.f32.f16.f16.f32").instruction, "sm_90", RESULTS).values())
    tables = tables[:1] if name == "csv" else tables
    first = emit.emit(name, tables)
    assert first == emit.emit(name, tables)
    assert first.endswith("\n")
    if name not in ("csv", "json"):
        assert "H200" in first
        assert tables[0].table.id in first


# code that is executed


@pytest.mark.full
def test_python_gives_the_table_and_its_inverse():
    for table in [*distinct(), *warpgroup()]:
        scope = run_python(emit.emit("python", [table]))
        made = scope[identifier(table.fragment.id)]
        for slot, element in enumerate(table.table.cells):
            lane, i = divmod(slot, table.table.elements)
            assert (made.row(lane, i), made.col(lane, i)) == element[:2]
        for element, slots in table.table.inverse.items():
            copies = range(len(slots)) if len(slots) > 1 else [None]
            found = [
                (made.lane_of(*element, *extra), made.i_of(*element, *extra))
                for copy in copies
                for extra in [() if copy is None else (copy,)]
            ]
            assert found == [divmod(slot, table.table.elements) for slot in slots]


@pytest.mark.full
def test_numpy_gathers_and_scatters():
    for table in [*distinct(), *warpgroup()]:
        made = run_python(emit.emit("numpy", [table]))[identifier(table.fragment.id)]
        lanes = np.array(table.table.values["row"]).reshape(table.table.threads, -1)
        assert np.array_equal(made.ROW, lanes)
        shape = ((table.fragment.products,) if table.fragment.products > 1 else ()) + (
            table.fragment.rows,
            table.fragment.cols,
        )
        matrix = np.arange(np.prod(shape)).reshape(shape)
        assert np.array_equal(made.scatter(made.gather(matrix)), matrix)


def test_sympy_gives_the_table():
    for table in [*distinct()[::8], *warpgroup()]:
        scope = run_python(emit.emit("sympy", [table]))
        found = scope[identifier(table.fragment.id)]
        lane, i = scope["lane"], scope["i"]
        for slot in range(0, table.table.points, max(1, table.table.points // 16)):
            at = dict(zip((lane, i), divmod(slot, table.table.elements), strict=True))
            assert int(found["row"].subs(at)) == table.table.values["row"][slot]
            assert int(found["col"].subs(at)) == table.table.values["col"][slot]


def test_sympy_expressions_are_sympys(sample):
    """Constant ones, too, in which values are put as in the others."""
    constant = 0
    for table in [*sample(distinct(), 4), *warpgroup(), load("mma.m8n8k4.row.col.f64.d"), *_with_constants()]:
        scope = run_python(emit.emit("sympy", [table]))
        for expression in scope[identifier(table.fragment.id)].values():
            constant += expression.is_number
            assert expression.subs({scope["lane"]: 3, scope["i"]: 0}).is_Integer
    assert constant


def _with_constants():
    """Tables with an output that is the same in every slot."""
    from tcprobe.fit import fitted

    return [t for t in distinct() if any(str(f).isdigit() for f in fitted(t.table).formulas.values() if f)][:3]


def test_a_fit_has_a_short_repr():
    from tcprobe.fit import fitted

    for table in distinct():
        assert len(repr(fitted(table.table))) < 200, table.fragment.id


@pytest.mark.full
def test_csv_is_read_back(tmp_path):
    for table in [*distinct(), *warpgroup()]:
        path = tmp_path / "table.csv"
        path.write_text(emit.emit("csv", [table]))
        assert read_csv(path) == table.table
    rows = list(csv.DictReader(io.StringIO(emit.emit("csv", [load("wmma.m8n8k4.d.f64")]))))
    assert rows[0] == {"lane": "0", "i": "0", "row": "0", "col": "0"}


def test_json_is_what_show_prints():
    (found,) = json.loads(emit.emit("json", [load("wmma.m16n16k16.d.f32")]))
    shown = CliRunner().invoke(main, ["show", "wmma.m16n16k16.d.f32", "--json"]).stdout
    assert found == json.loads(shown)


def test_markdown_has_every_element():
    table = load("mma.m16n8k16.row.col.f32.f16.f16.f32.a")
    lines = emit.emit("markdown", [table]).splitlines()
    rows = [line for line in lines if re.match(r"\| \d+ \|", line)]
    assert len(rows) == 32
    assert rows[5].split(" | ")[1:3] == ["1, 2", "1, 3"]


@pytest.mark.full
def test_svg_is_well_formed_and_names_every_holder():
    for table in [*distinct()[::5], *warpgroup()]:
        root = ET.fromstring(emit.emit("svg", [table]))
        texts = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
        assert any(text.startswith("0:0") for text in texts)
        assert {str(lane) for lane in range(table.table.threads)} <= texts
    wide = ET.fromstring(emit.emit("svg", [load("mma.m16n8k256.row.col.s32.b1.b1.s32.and.popc.a")]))
    assert float(wide.get("width")) < 1600


@pytest.mark.parametrize(
    ("name", "table", "words"),
    [
        ("cute", scrambled, "needs XOR"),
        ("tensor-layouts", scrambled, "needs XOR"),
        ("triton", nonlinear, "not linear"),
        ("cuda", nonlinear, "closed form"),
        ("tinygrad", lambda: load("wmma.m16n16k16.d.f32"), "whole instruction"),
        ("ptx", lambda: load("wmma.m16n16k16.d.f32"), "whole instruction"),
    ],
)
def test_what_cannot_be_said_is_refused(name, table, words):
    with pytest.raises(UsageError, match=words):
        emit.emit(name, [table()])


# PTX


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no ptxas for this platform")
@pytest.mark.parametrize(
    "name",
    [
        "mma.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.m8n8k4.col.row.f32.f16.f16.f16",
        "wmma.mma.row.col.m16n16k16.f16.f32",
        "mma.m16n8k16.row.col.f64.f64.f64.f64",
        "wmma.mma.row.col.m8n8k4.f64.f64.f64.f64",
        "ldmatrix.m8n8.x1.shared.b16",
        "ldmatrix.m8n8.x4.trans.shared.b16",
        "stmatrix.m8n8.x2.shared.b16",
        "movmatrix.m8n8.trans.b16",
    ],
)
def test_ptxas_takes_the_snippet(tmp_path, name):
    tables = list(operands(resolve(name).instruction, "sm_90", RESULTS).values())
    text = emit.emit("ptx", tables)
    extra = "\n".join(f".reg .b64 %p{o}; .reg .b32 %ld{o}; mov.b64 %p{o}, 0; mov.b32 %ld{o}, 16;" for o in "abcd")
    declared = [line for line in text.splitlines() if line.startswith(".reg")]
    zero = "\n".join(
        f"mov.{line.split()[1][1:]} {line.split()[2].rstrip(';')}, 0{'f00000000' if '.f32' in line else 'd0000000000000000' if '.f64' in line else ''};"  # noqa: E501
        for line in declared
    )
    source = tmp_path / "snippet.ptx"
    rest = [line for line in text.splitlines() if not line.startswith(".reg")]
    source.write_text(
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry f() {\n"
        + extra
        + "\n"
        + "\n".join([*declared, zero, *rest])
        + "\nret;\n}\n"
    )
    tools = toolchain.find()
    done = subprocess.run(
        [tools.ptxas, "-arch", "sm_90", str(source), "-o", str(tmp_path / "x.cubin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ptx.identifier(name)
