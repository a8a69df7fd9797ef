"""Warpgroup multiplies: rows and names, what references state, stored layouts, formats, and what is published."""

import json
import random
import subprocess
import sys
from dataclasses import replace

import nvrtc
import pytest
from command import tcprobe
from emulation import shuffled
from machine_code import TOOLS, needs_tools
from warpgroup import FORMS, LAYERS

from tcprobe import emit
from tcprobe.ask.convert.conversion import plan_conversion
from tcprobe.ask.convert.moves import band
from tcprobe.ask.shared_operand import shared_map
from tcprobe.errors import DataError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.names import resolve
from tcprobe.references import cute
from tcprobe.store import results
from tcprobe.store.acceptance import misfit
from tcprobe.store.cell import cell, measured_cell, stated
from tcprobe.store.cell import selected as selected_cells
from tcprobe.store.choose import layers
from tcprobe.store.findings import every
from tcprobe.store.results import published


def test_counts_of_ptx_isa_9_1():
    """A in registers and A in shared memory are two forms of one name."""
    forms = {
        family: [
            (row.name, o.name)
            for row in FORMS.values()
            if row.family == family
            for o in row.operands
            if o.name in ("a", "a_smem")
        ]
        for family in ("wgmma", "wgmma.sp")
    }
    assert {family: len(set(found)) for family, found in forms.items()} == {"wgmma": 948, "wgmma.sp": 912}
    by_type = {}
    for row in FORMS.values():
        by_type.setdefault((row.family, *(row.type(o) for o in ("d", "a", "b_smem"))), []).append(row.shape.n)
    assert {len(numbers) for types, numbers in by_type.items() if types[1] != "s32"} == {32}
    assert {tuple(numbers) for types, numbers in by_type.items() if types[1] == "s32"} == {
        (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
    }
    assert len(by_type) == 17 + 16


def test_fields_of_the_rows():
    row = FORMS["wgmma.mma_async.m64n24k16.f32.f16.f16"]
    assert row.name == "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16"
    assert {f.operand: (f.rows, f.cols, f.registers, f.elements) for f in row.fragments} == {
        "a": (64, 16, 4, 8),
        "d": (64, 24, 12, 12),
    }
    assert [(one.id, one.held.rows, one.held.cols, one.held.majors) for one in row.described] == [
        (f"{row.id}.a_smem", 64, 16, ("k", "mn")),
        (f"{row.id}.b_smem", 16, 24, ("k", "mn")),
    ]
    sparse = FORMS["wgmma.mma_async.sp.m64n8k64.s32.u8.s8"]
    assert {f.operand: (f.rows, f.cols, f.registers, f.selectors) for f in sparse.fragments} == {
        "a": (64, 32, 4, ()),
        "d": (64, 8, 4, ()),
        "e": (64, 32, 1, (0,)),
    }
    assert (sparse.target.ptx, row.target.name, row.threads) == ("8.4", "sm_90a", 128)


def test_a_question_on_a_formof_a_warp_makes_none_of_these():
    inventory.instructions.cache_clear()
    inventory.of_a_warp.cache_clear()
    before = inventory.instructions().parts[-1].made
    assert resolve("m16n8k16.row.col.f32.bf16.bf16.f32.a").fragments
    fragment = inventory.fragment("mma.m16n8k16.row.col.f32.f16.f16.f32.a")
    published = layers(None)
    assert measured_cell(fragment, published.choose(fragment, ["sm_90"]), published).alike
    assert inventory.instructions().parts[-1].made == before


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("wgmma.m64n24k16.f32.f16.f16.d", "wgmma.mma_async.m64n24k16.f32.f16.f16.d"),
        ("wgmma.sp.m64n24k32.bf16.e", "wgmma.mma_async.sp.m64n24k32.f32.bf16.bf16.e"),
    ],
)
def test_shortened_names(short, full):
    assert resolve(short).fragment.id == full


def test_a_shortened_name_keeps_wgmma():
    with pytest.raises(UsageError, match="no fragment or instruction is called"):
        assert resolve("m64n24k16.f32.f16.f16.d").fragment


def test_references_state_tables_that_can_be():
    device, silent = arch("sm_90"), set()
    for row in FORMS.values():
        for fragment in row.fragments if row.shape.n in (8, 24, 256) else ():
            found = stated(fragment, device)
            if found is None:
                silent.add(fragment.shape.k)
            else:
                assert misfit(fragment, found[1].meant) is None
    assert silent == {256}  # b1


@pytest.mark.parametrize("n", [8, 24, 256])
def test_a_layout_is_written_by_its_bases(n):
    fragment = inventory.fragment(f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d")
    table = stated(fragment, arch("sm_90"))[1].meant
    written = results.layout_json(table)
    assert results.read_layout(json.loads(json.dumps(written))) == table
    assert len(json.dumps(written)) < 400


@pytest.mark.parametrize(
    "damage",
    [
        {"threads": 127},
        {"elements": 0},
        {"outputs": ["col", "row"]},
        {"origin": [0]},
        {"origin": [0, 1 << 30]},
        {"bases": {"lane": [], "i": []}},
        {"bases": []},
        {"extra": 1},
        {"threads": "128"},
        {"elements": 1 << 40},
    ],
)
def test_a_damaged_layout_is_refused(damage):
    fragment = inventory.fragment("wgmma.mma_async.m64n24k16.f32.f16.f16.d")
    written = results.layout_json(stated(fragment, arch("sm_90"))[1].meant)
    with pytest.raises((DataError, TypeError, KeyError)):  # what `documents.naming` turns into a DataError
        results.read_layout({**written, **damage})


# formats


@pytest.mark.parametrize("n", [8, 24, 40, 256])
def test_cute_layouts_lead_to_every_element(n):
    from tcprobe.emit.cute import thread_value

    table = cell(inventory.fragment(f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.d"), "sm_90", published())
    shape, stride = thread_value(table)
    layout = [cute.L(s, d) for s, d in zip(shape, stride, strict=True)]
    found = [
        divmod(cute.apply(layout[0], lane) + cute.apply(layout[1], i), 64) for lane in range(128) for i in range(n // 2)
    ]
    assert [(row, col) for col, row in found] == list(table.table.cells)


def test_triton_tells_lane_and_warp_apart():
    table = cell(inventory.fragment("wgmma.mma_async.m64n8k16.f32.f16.f16.d"), "sm_90", published())
    text = emit.emit("triton", [table])
    assert "lane_bases=[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]" in text
    assert "warp_bases=[[16, 0], [32, 0]]" in text


@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
@pytest.mark.parametrize("n", [24, 256])
def test_the_header_proves_itself_for_a_warpgroup(n):
    names = [f"wgmma.mma_async.m64n{n}k16.f32.f16.f16.{operand}" for operand in "ad"]
    text = emit.emit("cuda", [cell(inventory.fragment(name), "sm_90", published()) for name in names])
    assert nvrtc.compile_cuda(nvrtc.library(), text, "-arch=sm_90a", "-std=c++17") == (True, "")
    assert "static constexpr int lanes = 128;" in text


@pytest.mark.parametrize(("n", "kind", "words"), [(16, "f32.f16.f16", "renamed"), (48, "f32.bf16.bf16", "renamed")])
def test_d_becomes_a_of_the_next_multiply(n, kind, words):
    d, a = (cell(inventory.fragment(f"wgmma.mma_async.m64n{n}k16.{kind}.{o}"), "sm_90", published()) for o in "da")
    found = plan_conversion(d, a)
    assert words in found.summary
    assert (found.tiling.rows, found.tiling.cols, found.costs) == (16, n, {"cvt": n // 4})
    with pytest.raises(UsageError, match="between warps"):
        plan_conversion(d, a, transpose=True)


def test_warps_that_hold_no_bands_are_refused():
    table = cell(inventory.fragment("wgmma.mma_async.m64n8k16.f32.f16.f16.d"), "sm_90", published())
    odd = replace(table, table=shuffled(table.fragment, random.Random(1)))
    with pytest.raises(UsageError, match="does not hold the band"):
        band(odd)


# what is published


@pytest.mark.full
def test_everything_is_published_and_agrees(sample):
    found = list(every(published(), "descriptors", "sm_90"))
    assert {(one.method, one.status) for one in found} == {("live", "measured")}
    cases = [one.body.case for one in found if one.body.case]
    assert all(case.agree == case.elements for case in cases)
    assert {one.body.products.wrong for one in found if one.body.products} == {0}
    assert sum(case.descriptors for case in cases) > 5000
    told = [case.base_offset for case in cases if case.swizzle in (64, 128)]
    assert all(of["subtracted"][0] == of["subtracted"][1] > 0 and not of["added"][0] for of in told if of["added"][1])
    for row in sample(FORMS.values(), 37):
        for one in row.described:
            assert shared_map(one, LAYERS, "k", 128).measured, one.id


def test_all_n_have_one_formula():
    for kind in ("f32.f16.f16", "f16.f16.f16", "f32.bf16.bf16"):
        large = published().table("sm_90", "live", inventory.fragment(f"wgmma.mma_async.m64n256k16.{kind}.d"))
        for n in range(8, 257, 8):
            small = published().table("sm_90", "live", inventory.fragment(f"wgmma.mma_async.m64n{n}k16.{kind}.d"))
            assert all(
                small.cells[lane * n // 2 + i] == large.cells[lane * 128 + i] for lane in (0, 77) for i in range(n // 2)
            )


@needs_tools
def test_ptxas_takes_the_snippets(tmp_path):
    """Of every type for the narrowest and the widest N, and N = 24: dense ones in one text, sparse by selector."""
    cells = {
        row: [cell(fragment, "sm_90", published()) for fragment in row.fragments]
        for row in (row for row in FORMS.values() if row.shape.n in (8, 24, 256))
    }
    texts = [emit.emit("ptx", [one for row, held in cells.items() if not row.metadata for one in held])]
    for row in (row for row in cells if row.metadata):
        chosen = (selected_cells(cells[row], selector) for selector in row.metadata.selectors)
        texts += [f"{{\n{emit.emit('ptx', one)}\n}}" for one in chosen]
    source, text = tmp_path / "snippets.ptx", "\n".join(texts)
    source.write_text(f".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry f() {{\n{text}\nret;\n}}\n")
    done = subprocess.run(
        [TOOLS.ptxas, "-arch", "sm_90a", str(source), "-o", str(tmp_path / "x.cubin")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:2000]
    assert text.count("wgmma.fence") > 90


def test_a_warpgroups_multiply_says_where_its_b_is():
    text = tcprobe("emit", "wgmma.m64n24k16.f32.f16.f16", "--to", "ptx").stdout
    assert "%d10, %d11}, {%a0, %a1, %a2, %a3}, %b_desc, %add, 1, 1, 0;" in text
    assert "D[8][17]" in next(line for line in text.splitlines() if "%d11;" in line)
    assert "shared memory" in tcprobe("emit", "wgmma.m64n24k16.f32.f16.f16", "--to", "tinygrad", code=2).stderr


def test_results_stay_small():
    files = [p for p in published().root.rglob("*.json") if "wgmma" in p.name or p.parent.name == "layouts"]
    assert max(p.stat().st_size for p in files) <= 64 << 10
