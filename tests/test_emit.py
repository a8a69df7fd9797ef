"""Every format, read by what it is made for: compilers, Python, SymPy, tensor-layouts, Triton, tinygrad."""

import csv
import io
import json
import re
import runpy
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tcprobe import emit
from tcprobe.cli import main
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve, select
from tcprobe.isa.operand import WHOLE
from tcprobe.layout.csv import read_csv
from tcprobe.layout.table import slot_table
from tcprobe.probes import ptx
from tcprobe.references import cute
from tcprobe.sass import toolchain
from tcprobe.store.cell import cell, for_emit, load, operands
from tcprobe.store.results import published

RESULTS = published()


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


WARPGROUP = (
    "m64n8k16.f32.f16.f16.d",
    "m64n24k16.f32.f16.f16.d",
    "m64n256k16.f32.f16.f16.d",
    "m64n8k8.*.a",
    "m64n8k16.*.a",
    "m64n8k32.*.a",
    "m64n8k256.*.a",
    "sp.m64n8k*.a",
)


consumers = pytest.mark.consumer


@cache
def distinct():
    """A table of every published layout, and of every operand."""
    found = {}
    for table in for_emit([f for f in inventory.of_a_warp().values() if f.role in WHOLE], "all", RESULTS):
        found.setdefault((table.table.id, table.fragment.operand), table)
    return list(found.values())


@cache
def warpgroup():
    """Of the 128 threads of wgmma: every layout of A, and D of some N, 24 and its 12 elements a thread among them."""
    found = {}
    for table in for_emit(select(*(f"wgmma.mma_async.{p}" for p in WARPGROUP)), "sm_90", RESULTS):
        found.setdefault((table.table.id, table.fragment.operand), table)
    return list(found.values())


def run_python(text):
    """What a program that was emitted defines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "emitted.py"
        path.write_text(text)
        return runpy.run_path(str(path))


def test_the_walk_finds_all_formats():
    assert set(emit.names()) == set(NAMES)
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


# layouts in the terms of others


def number(fragment, cell):
    """CuTe's number of an element."""
    row, col, product = (*cell, 0)[:3]
    size = fragment.rows * fragment.cols * product
    return size + (col + fragment.cols * row if fragment.operand == "b" else row + fragment.rows * col)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the wheel of tensor-layouts is a Linux one")
def test_tensor_layouts_evaluates_to_the_table():
    for table in [*distinct(), *warpgroup()]:
        found = run_python(emit.emit("tensor-layouts", [table]))[identifier(table.fragment.id)]
        slots = enumerate(table.table.cells)
        assert all(found(*divmod(slot, table.table.elements)) == number(table.fragment, cell) for slot, cell in slots)


def test_cute_text_is_that_of_the_traits():
    """The same as CuTe's own, up to how modes are written: compared as maps."""
    compared = 0
    for fragment in select("mma.m*", device=arch("sm_90")):
        table, claim = cell(fragment, "sm_90", RESULTS), cute.claim(fragment, arch("sm_90"))
        if not isinstance(claim, str):
            assert claim.meant == table.table
            compared += 1
    text = emit.emit("cute", [load("mma.m16n8k16.row.col.f32.f16.f16.f32.a")])
    assert "// ((4, 8), (2, 2, 2)):((32, 1), (16, 8, 128))" in text
    assert compared > 200


@consumers
def test_triton_gives_the_same_map():
    from triton._C.libtriton.linear_layout import LinearLayout

    for table in distinct():
        found = emit.formats()["triton"]
        register, lane = found.bases(table)
        names = ["product", "row", "col"][-len(register[0] if register else lane[0]) :]
        layout = LinearLayout.from_bases([("register", register), ("lane", lane)], names)
        for slot, element in enumerate(table.table.cells):
            at = dict(zip(("lane", "register"), divmod(slot, table.table.elements), strict=True))
            assert [layout.apply(at)[n] for n in ("row", "col")] == list(element[:2])


@consumers
def test_gluon_takes_the_emitted_text():
    for table in distinct()[::6]:
        scope = run_python(emit.emit("triton", [table]))
        made = scope[identifier(table.fragment.id)]
        assert made.shape[-2:] == [table.fragment.rows, table.fragment.cols]


@consumers
@pytest.mark.parametrize(
    ("instruction", "operand"),
    [
        (f"mma.m16n8k{k}.row.col.{types}", o)
        for k, types in (
            (16, "f32.f16.f16.f32"),
            (8, "f32.tf32.tf32.f32"),
            (32, "s32.s8.s8.s32"),
            (32, "f32.e4m3.e4m3.f32"),
        )
        for o in "abd"
    ],
)
def test_tritons_own_mma_layouts_are_the_measured_ones(instruction, operand):
    """One more reference: what Triton's NVMMA and dot-operand layouts say of one instruction's tile."""
    register, lane = triton_mma(instruction, operand)
    row = resolve(instruction).instruction
    table = cell(next(f for f in row.fragments if f.operand == operand), "sm_90", RESULTS)
    ours = emit.formats()["triton"].bases(table)
    assert (register, lane) == ours


def triton_mma(instruction, operand):
    """Bases (register, lane) that Triton computes for one tile of an instruction."""
    from triton.experimental.gluon.language import DotOperandLayout, NVMMADistributedLayout

    row = resolve(instruction).instruction
    m, n, _ = row.shape
    mma = NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[m, n])
    fragment = next(f for f in row.fragments if f.operand == operand)
    layout = mma
    if operand in "ab":
        layout = DotOperandLayout(parent=mma, operand_index="ab".index(operand), k_width=32 // fragment.slot_bits)
    return triton_linear(layout, [fragment.rows, fragment.cols])[:2]


def triton_linear(layout, shape):
    """Bases (register, lane, warp) of a Gluon layout of a matrix."""
    from triton._C.libtriton import ir
    from triton._C.libtriton.gluon_ir import GluonOpBuilder

    context = ir.context()
    ir.load_dialects(context)
    builder = GluonOpBuilder(context)
    linear = builder.to_linear_layout(layout._to_ir(builder), shape)
    return linear.reg_bases, linear.lane_bases, linear.warp_bases


@consumers
def test_tinygrad_has_the_same_rows_and_its_constructor_accepts_all():
    from tinygrad.codegen.opt import tc
    from tinygrad.dtype import dtypes

    theirs = {str(t.dims) + t.dtype_in.name: (t.opts, t.swizzle) for t in (*tc.cuda_sm80, *tc.cuda_sm89)}
    cases = {
        "(8, 16, 16)half": "mma.m16n8k16.row.col.f32.f16.f16.f32",
        "(8, 16, 8)half": "mma.m16n8k8.row.col.f32.f16.f16.f32",
        "(8, 16, 8)float": "mma.m16n8k8.row.col.f32.tf32.tf32.f32",
        "(8, 16, 32)float8_e4m3": "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    }
    for key, name in cases.items():
        made = tinygrad_row(name)
        assert (made["opts"], made["swizzle"]) == theirs[key], name
    for row in inventory.executed_by(32):
        if row.family == "mma" and row.products == 1 and row.target.on(arch("sm_90")):
            tc.TensorCore(**tinygrad_row(row.id), dtype_in=dtypes.half, dtype_out=dtypes.float)


def tinygrad_row(name):
    tables = list(operands(resolve(name).instruction, "sm_90", RESULTS).values())
    return run_python(emit.emit("tinygrad", tables))[identifier(name)]


# what a format cannot say


def scrambled():
    """A table that needs XOR: rows differ by the lane's low bits."""
    table = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
    swizzled = tuple(c ^ (r & 7) for r, c in zip(table.table.values["row"], table.table.values["col"], strict=True))
    import dataclasses

    return dataclasses.replace(table, table=slot_table(32, 4, {"row": table.table.values["row"], "col": swizzled}))


def nonlinear():
    import dataclasses

    table = load("mma.m16n8k16.row.col.f32.f16.f16.f32.d")
    col = list(table.table.values["col"])
    col[5], col[6] = col[6], col[5]
    return dataclasses.replace(table, table=slot_table(32, 4, {"row": table.table.values["row"], "col": tuple(col)}))


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


def test_tinygrad_refuses_copies_and_several_products():
    for name, words in (
        ("wmma.mma.row.col.m16n16k16.f32.f32", "several times"),
        ("mma.m8n8k4.row.col.f32.f16.f16.f32", "4 products"),
    ):
        tables = list(operands(resolve(name).instruction, "sm_90", RESULTS).values())
        with pytest.raises(UsageError, match=words):
            emit.emit("tinygrad", tables)


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
