"""Conversions: every plan, run on the names of elements, ends with each element in its place; few shuffles."""

import itertools
import json
import re
import shutil
import subprocess

import emitted
import nvrtc
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_code import TOOLS, needs_tools
from sampling import examples

from tcprobe.ask.convert.code import CASTS, PACKED, cast
from tcprobe.ask.convert.conversion import MOVMATRIX, NOTHING, QUAD, RENAMED, SHARED, other_factor, plan_conversion
from tcprobe.ask.convert.moves import LANES, degree, rounds, run
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.fit import fit
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve, select
from tcprobe.store.cell import cell, load
from tcprobe.store.results import published


def arrives(found):
    """Whether every slot of the target ends with the element that it needs."""
    held, units = run(found.plan, found.tiling), found.plan.units
    return all(
        word[unit] == found.tiling.needed_unit(lane, (tile, register * units + unit))
        for lane in range(LANES)
        for (tile, register), word in held[lane].items()
        for unit in range(units)
    )


D = "mma.m16n8k16.row.col.f32.f16.f16.f32.d"


@pytest.mark.parametrize(
    ("source", "target", "summary", "costs"),
    [
        (D, "mma.m16n8k16.row.col.f32.f16.f16.f32.a", RENAMED, {"cvt": 4}),
        (D, "mma.m16n8k16.row.col.f32.bf16.bf16.f32.a", RENAMED, {"cvt": 4}),
        (D, "mma.m16n8k16.row.col.f32.f16.f16.f32.c", NOTHING, {}),
        (D, "mma.m16n8k16.row.col.f32.f16.f16.f32.b", MOVMATRIX, {"movmatrix": 2, "cvt": 2}),
        (D, "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", QUAD, {"shuffle": 4, "cvt": 4, "select": 12}),
        (D, "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a", QUAD, {"shuffle": 4, "cvt": 8, "prmt": 8, "select": 12}),
        ("wmma.m16n16k16.d.f32", "mma.m16n8k16.row.col.f32.f16.f16.f32.a", RENAMED, {"cvt": 4}),
        ("wmma.m16n16k16.a.row.f16", "wmma.m16n16k16.a.row.f16", NOTHING, {}),
        ("mma.m16n8k16.row.col.f64.f64.f64.f64.d", "mma.m16n8k16.row.col.f64.f64.f64.f64.c", NOTHING, {}),
    ],
)
def test_known_cases(source, target, summary, costs):
    found = plan_conversion(load(source, "sm_90"), load(target, "sm_90"))
    assert (found.summary, found.costs) == (summary, costs)
    assert arrives(found)


def distinct(name):
    """One fragment for each (layout, type) of an arch, of at most 512 elements."""
    found = {}
    multiplied = {
        f.id for row in inventory.executed_by(32) if row.multiplies and not row.metadata for f in row.fragments
    }
    for fragment in select(device=arch(name)):
        if fragment.id in multiplied and fragment.products == 1 and fragment.rows * fragment.cols <= 512:
            table = cell(fragment, name, published())
            found.setdefault((table.table.id, fragment.type), table)
    return list(found.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["sm_70", "sm_90"])
def test_every_element_arrives(name, sample):
    """All pairs whose types convert; on sm_70 Volta's layouts with their copies."""
    tables = distinct(name)
    pairs = [p for p in itertools.product(tables, tables) if _convertible(*p)]
    assert len(pairs) > 60
    for source, target in sample(pairs, 17):
        found = plan_conversion(source, target)
        assert (found.plan is None) == (found.summary == SHARED)
        assert found.plan is None or arrives(found), (source.fragment.id, target.fragment.id)


def _convertible(source, target):
    try:
        cast(source.fragment, target.fragment, arch(source.arch))
    except UsageError:
        return False
    return True


def test_transposed():
    d = load(D)
    found = plan_conversion(d, load("mma.m16n8k16.row.col.f32.f16.f16.f32.a"), transpose=True)
    assert (found.tiling.rows, found.tiling.cols) == (16, 16)
    assert (found.summary, found.costs) == (MOVMATRIX, {"movmatrix": 4, "cvt": 4})
    assert arrives(found)


def test_old_archs_go_without_movmatrix_and_the_newest_cvt():
    volta = plan_conversion(load("wmma.m16n16k16.d.f32", "sm_70"), load("wmma.m16n16k16.a.row.f16", "sm_70"))
    assert "movmatrix" not in volta.costs
    assert "cvt.rn.f16.f32" in volta.code
    with pytest.raises(UsageError, match="sm_80 has no instruction from f32 to e4m3; sm_89 has"):
        cast(
            load("wmma.m16n16k16.d.f32").fragment,
            load("mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a").fragment,
            arch("sm_80"),
        )


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("mma.m8n8k4.row.col.f32.f16.f16.f32.d", "wmma.m16n16k16.a.row.f16", "holds 4 matrices"),
        ("mma.m16n8k32.row.col.s32.s8.s8.s32.d", "wmma.m16n16k16.a.row.f16", "no conversion from s32 to f16"),
    ],
)
def test_refusals(source, target, words):
    with pytest.raises(UsageError, match=words):
        plan_conversion(load(source), load(target))


def test_bytes_that_do_not_exist_need_shared_memory():
    """B of 4-bit types holds k side by side; its transpose would need other pairs in a byte."""
    b = load("mma.m16n8k32.row.col.s32.s4.s4.s32.b")
    found = plan_conversion(b, b, transpose=True)
    assert found.summary == SHARED
    assert "different bytes" in found.reason


EDGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


@given(EDGES)
@settings(deadline=None)
def test_rounds_are_a_colouring_with_the_least_number_of_colours(edges):
    found = rounds(edges)
    assert len(set(found)) <= degree(edges)
    for side in (0, 1):
        used = [(edge[side], colour) for edge, colour in zip(edges, found, strict=True)]
        assert len(set(used)) == len(used)


@given(EDGES.filter(lambda edges: 1 <= len(edges) <= 6))
@examples(60)
def test_no_schedule_has_fewer_rounds(edges):
    """Exhaustive: every assignment of fewer rounds makes some lane send or receive two words at once."""
    fewer = degree(edges) - 1
    for colours in itertools.product(range(max(0, fewer)), repeat=len(edges)):
        sent = {(edge[0], colour) for edge, colour in zip(edges, colours, strict=True)}
        received = {(edge[1], colour) for edge, colour in zip(edges, colours, strict=True)}
        assert len(sent) < len(edges) or len(received) < len(edges)


def test_the_command_prints_code_and_costs():
    done = CliRunner().invoke(main, ["convert", D, "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32.a"])
    assert done.exit_code == 0, done.output
    assert "quad" in done.stderr
    assert (
        "per lane: 4 shuffle, 8 cvt, 8 prmt, 12 select; no exchange of 32-bit words needs fewer shuffles" in done.stderr
    )
    assert len(re.findall("__shfl_sync", done.stdout)) == 4
    data = json.loads(CliRunner().invoke(main, ["convert", D, D.replace(".d", ".a"), "--json"]).stdout)
    assert (data["summary"], data["from"]["tiles"], data["to"]["tiles"]) == (RENAMED, 2, 1)


def test_all_casts_name_real_types():
    types = {f.type for f in inventory.fragments().values()}
    assert {name for pair in (*CASTS, *PACKED) for name in pair} <= types


NARROW = {
    "packed": "mma.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    "contained": "mma.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("id_", NARROW.values(), ids=NARROW)
@pytest.mark.parametrize(("operand", "transpose"), [("a", False), ("b", True)])
def test_results_become_numbers_of_four_bits(id_, operand, transpose, tmp_path):
    """Two per byte where the multiply wants them so, else two bits up in a byte; run on the host, bit by bit."""
    source, target = (load(f"{id_}.{name}", "sm_120") for name in ("d", operand))
    found = plan_conversion(source, target, transpose)
    assert arrives(found)
    assert found.costs["cvt"] == found.tiling.target_tiles * target.fragment.elements // 2
    cases = list(emitted.conversions([(source, target)], [transpose]))
    run_on_host = emitted.tried(tmp_path, cases, "")
    assert (len(cases), run_on_host.wrong) == (1, [])


@needs_tools
@pytest.mark.parametrize(("target", "taken"), [("sm_90a", False), ("sm_100a", True), ("sm_120a", True)])
def test_the_conversion_to_four_bits_is_one_that_ptxas_takes(target, taken, tmp_path):
    """The text of the asm statement, its operands in registers of a kernel."""
    text = re.search(r'asm\("(.*?)"', PACKED["f32", "e2m1"].unit)[1]
    for number, name in enumerate(("%d", "%x", "%y")):
        text = text.replace(f"%{number}", name)
    body = ".param .u64 p) { .reg .b64 %p; .reg .b32 %d; .reg .f32 %x, %y; ld.param.u64 %p, [p]; "
    body += f"ld.global.f32 %x, [%p]; ld.global.f32 %y, [%p+4]; {text} st.global.b32 [%p], %d; ret; }}"
    source = tmp_path / "k.ptx"
    source.write_text(f".version 8.7\n.target {target}\n.address_size 64\n.visible .entry k({body}\n")
    command = [TOOLS.ptxas, "-arch", target, str(source), "-o", str(tmp_path / "k.cubin")]
    assert (subprocess.run(command, capture_output=True, check=False).returncode == 0) == taken


E4M3 = "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"


ORDERED = [
    (f"{E4M3}.d", f"{E4M3}.a", {"cvt": 8, "prmt": 4}),
    (D, "mma.m16n8k8.row.col.f32.tf32.tf32.f32.a", {"cvt": 4}),
    (D, "mma.m16n8k16.row.col.f32.f16.f16.f32.a", {"cvt": 4}),
    ("mma.m16n8k32.row.col.s32.s8.s8.s32.d", "mma.m16n8k32.row.col.s32.s8.s8.s32.a", {"cvt": 8}),
]


@pytest.mark.parametrize(("source", "target", "costs"), ORDERED)
def test_an_order_of_k_that_spares_all_exchange_is_offered(source, target, costs):
    """Whenever there is one and lanes exchange: at what it costs when it is asked for; else it is not named."""
    plain, turned = (
        plan_conversion(load(source, "sm_90"), load(target, "sm_90"), permute_k=permute) for permute in (False, True)
    )
    exchanges = not {"shuffle", "movmatrix"}.isdisjoint(plain.costs)
    assert (plain.permuted is not None) == exchanges
    assert ("--permute-k" in str(plain)) == exchanges
    assert turned.permuted is None
    if plain.permuted:
        assert (plain.permuted.costs, plain.permuted.tiling.order) == (costs, turned.tiling.order)
        assert f"--permute-k: {turned.words}" in CliRunner().invoke(main, ["convert", source, target]).stderr


@pytest.mark.parametrize(("source", "target", "costs"), ORDERED)
def test_an_order_of_k_spares_all_exchange(source, target, costs):
    """The plan run on names brings k order[k] to place k; the other factor, loaded as said, meets it in the product."""
    found = plan_conversion(load(source, "sm_90"), load(target, "sm_90"), permute_k=True)
    order, row = found.tiling.order, resolve(target.removesuffix(".a")).instruction
    assert found.costs == costs
    assert sorted(order) == list(range(row.shape.k))
    assert arrives(found)
    held = run(found.plan, found.tiling)
    a, b = found.tiling.target.table, load(f"{row.id}.b", "sm_90").table
    at = {
        a.cells[lane * a.elements + register * found.plan.units + unit]: element[0]
        for lane in range(LANES)
        for (_, register), word in held[lane].items()
        for unit, element in enumerate(word)
    }
    assert at == {(m, k): (m, order[k]) for m in range(16) for k in range(row.shape.k)}
    _, loaded = other_factor(found.tiling)
    assert [cell[0] for cell in loaded.cells] == [order[k] for k, _ in b.cells]
    assert found.load["row"] == str(fit(loaded).formulas["row"])
    data = json.loads(CliRunner().invoke(main, ["convert", source, target, "--permute-k", "--json"]).stdout)
    assert (data["k_order"], data["costs"]) == (list(order), costs)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (D, f"{E4M3}.c", "has no k"),
        (D, "mma.m16n8k16.row.col.f32.f16.f16.f32.b", "no order of k avoids"),
        ("wmma.m16n16k16.d.f32", "wmma.m16n16k16.a.row.f16", "no order of k avoids"),
    ],
)
def test_orders_of_k_that_do_not_exist(source, target, words):
    name = "sm_70" if source.startswith("wmma") else None
    with pytest.raises(UsageError, match=words):
        plan_conversion(load(source, name), load(target, name), permute_k=True)


def test_in_the_order_of_k_no_table_needs_what_it_would_not_need_without():
    """Where nothing has to move as it is, an order exists (k as it is, or as good), and costs no more."""
    device = arch("sm_90")
    for fragment in select("mma.*.a", device=device)[::5]:
        row = inventory.instructions()[fragment.experiment]
        try:
            plain = plan_conversion(load(f"{row.id}.d", "sm_90"), load(fragment.id, "sm_90"))
        except UsageError:
            continue
        if "shuffle" not in plain.costs and plain.plan:
            turned = plan_conversion(plain.tiling.source, plain.tiling.target, permute_k=True)
            assert sum(turned.costs.values()) <= sum(plain.costs.values())


def headers(folder):
    """Files that share helpers, a whole conversion twice, two conversions in one, a namespace, an older arch."""
    a, d = D.replace(".d", ".a"), D
    wide = f"{E4M3}.d"
    calls = [
        (d, a, "--name", "p_to_a"),
        (d, a, "--name", "p_to_a"),
        (wide, f"{E4M3}.a", "--name", "quad"),
        (wide, f"{E4M3}.a", "--permute-k", "--name", "spared"),
        (d, a, "--namespace", "mine::deep"),
        (d, a, d, d.replace(".d", ".b"), "--name", "one", "--name", "two"),
        ("wmma.m16n16k16.d.f32", "wmma.m16n16k16.a.row.f16", "--arch", "sm_70"),
    ]
    for number, call in enumerate(calls):
        done = CliRunner().invoke(main, ["convert", *call, "-o", str(folder / f"{number}.h")])
        assert done.exit_code == 0, done.output
        assert done.stdout == ""
    return [f"{number}.h" for number in range(len(calls))]


USE = """
__global__ void use(float* p, unsigned* q) {
  float x[2][4], y[4][4];
  unsigned a[1][4], b[1][4];
  for (int i = 0; i < 8; ++i) x[i / 4][i % 4] = p[i];
  for (int i = 0; i < 16; ++i) y[i / 4][i % 4] = p[i];
  p_to_a(x, a);
  spared(y, b);
  q[0] = a[0][0] + b[0][1] + spared_k(9);
}
"""


@pytest.mark.full
def test_headers_go_together_in_every_compiler(tmp_path):
    names = headers(tmp_path)
    together = "".join((tmp_path / name).read_text() for name in names)
    lib = nvrtc.library()
    assert lib
    done, log = nvrtc.compile_cuda(lib, together + USE, "-arch=sm_90", "-std=c++17")
    assert (done, log) == (True, "")
    (tmp_path / "all.cu").write_text("".join(f'#include "{name}"\n' for name in names) + "int main() { return 0; }\n")
    for compiler, *options in (["g++", "-x", "c++", "-Wall", "-Werror"], ["nvcc", "-arch=sm_90"]):
        if shutil.which(compiler):
            command = [compiler, *options, "-std=c++17", "-c", "all.cu", "-o", "all.o"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([D], "1 fragment: each FROM needs a TO"),
        ([D, D, "--name", "a", "--name", "b"], "2 fragments and 2 --name"),
        ([D, D, "--name", "a b"], "is not a name of a function"),
        ([D, D, "--namespace", "a;b", "-o", "x.h"], "is not a namespace"),
        ([D, D, "--arch", "all"], "one arch is needed"),
    ],
)
def test_mistakes_of_convert(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["convert", *arguments])
    assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert not list(tmp_path.iterdir())


def test_redirected_output_is_code_alone():
    done = CliRunner().invoke(main, ["convert", D, D.replace(".d", ".a")])
    lib = nvrtc.library()
    assert nvrtc.compile_cuda(lib, done.stdout, "-arch=sm_90", "-std=c++17") == (True, "")
    assert "void convert(const float (&from)[2][4]" in done.stdout
    assert RENAMED in done.stderr
