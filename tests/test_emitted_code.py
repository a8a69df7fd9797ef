"""What commands print as code is compiled and run by all its threads, 32 or 128, and gives what the table says.

A sample of every family here, everything with --all.
"""

import itertools
import re
import shutil
import subprocess
from contextlib import suppress

import emitted
import emitted_layouts
import emitted_reductions
import pytest
from machine_code import TOOLS, needs_tools

from tcprobe import emit
from tcprobe.ask.convert.code import cast
from tcprobe.ask.convert.conversion import require_matrix
from tcprobe.ask.tensormap import MapOptions
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.operand import Role
from tcprobe.store.cell import emittable, selected
from tcprobe.store.choose import layers
from tcprobe.store.names import find_cell
from tcprobe.store.results import published

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")


def check(folder, what, cases, least, before=""):
    found = emitted.tried(folder, cases, before)
    print(f"{what}: {found}")
    assert found.wrong == []
    assert found.functions >= least


def test_every_family_is_there():
    assert {cell.fragment.family for cell in emitted.cells()} >= emitted.FAMILIES


def test_reductions(tmp_path, sample):
    check(tmp_path, "reduce --over", emitted_reductions.reductions(sample(emitted.cells(), 107, emitted.spread)), 30)


@pytest.mark.full
def test_reductions_of_tiles(tmp_path, sample):
    cells = [cell for cell in emitted.cells() if cell.table.elements <= 64 and cell.fragment.operand == "d"]
    tiles = ((1, 3), (4, 1), (2, 2))
    check(
        tmp_path,
        "reduce --over --tile",
        emitted_reductions.reductions(sample(cells, 59, emitted.spread), tiles_=tiles),
        30,
    )


def test_softmax(tmp_path, sample):
    cells = [cell for cell in emitted.cells() if cell.table.elements <= 64 and cell.fragment.operand == "d"]
    check(tmp_path, "reduce --op softmax", emitted_reductions.softmaxes(sample(cells, 61, emitted.spread)), 5)


def test_masks_and_fills(tmp_path, sample):
    whole = [c for c in emitted.cells() if not (".sp" in c.fragment.family and c.fragment.operand == "a")]
    kinds = {(c.table.id, dtype(c.fragment.type).is_float, c.fragment.type == "f64"): c for c in whole}
    cells = sample(kinds.values(), 23, emitted.spread)
    ways = sample(itertools.product(emitted_reductions.MASKS, emitted_reductions.FILLS), 16)
    cases = (case for mask, fill in ways for case in emitted_reductions.masks(cells, [mask], [fill]))
    check(tmp_path, "reduce --mask, --fill", cases, 40)


def test_loads(tmp_path, sample):
    cells = [cell for cell in emitted.cells() if cell.fragment.products == 1]
    check(tmp_path, "load", emitted_layouts.loads(sample(cells, 127, emitted.spread)), 30)


def test_a_warp_s_lane_in_place_of_the_thread_is_noticed(tmp_path):
    """As masks of a warpgroup were once."""
    d = next(c for c in emitted.cells() if c.fragment.family == "wgmma" and c.fragment.operand == "d")
    [case] = emitted_reductions.masks([d], ["row >= col"], [None])
    wrong = case._replace(code=case.code.replace("threadIdx.x % 128", "threadIdx.x % 32"))
    assert wrong.code != case.code
    assert emitted.tried(tmp_path, [case, wrong]).wrong == [wrong.of]


def matrices(name, large):
    """A matrix of every layout and type on an arch."""
    found = {}
    for cell in emitted.on(name):
        if cell.fragment.products == 1 and cell.fragment.rows * cell.fragment.cols <= large:
            with suppress(UsageError):
                require_matrix(cell)
                found.setdefault((cell.table.id, cell.fragment.type), cell)
    return found.values()


def convertible(name, large):
    """Pairs of matrices whose types convert."""
    for source, target in itertools.product(matrices(name, large), repeat=2):
        with suppress(UsageError):
            cast(source.fragment, target.fragment, arch(name))
            yield source, target


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "every"), [("sm_70", 47), ("sm_80", 121), ("sm_90", 193), ("sm_120", 121)])
def test_conversions(tmp_path, request, sample, name, every):
    whole = request.config.getoption("--all")
    pairs = sample(convertible(name, 4096 if whole else 1024), every)
    ways = list(itertools.product((False, True), (False, True)))
    cases = (
        case
        for number, pair in enumerate(pairs)
        for turned, permuted in (ways if whole else [ways[number % 4], ways[0]])
        for case in emitted.conversions([pair], [turned], [permuted])
    )
    check(tmp_path, f"convert on {name}", cases, 8)


def test_stores(tmp_path, sample):
    options = list(
        itertools.product(
            ("stmatrix", "stmatrix.x1", "stmatrix.x2.trans"),
            (None, "bf16", "e4m3", "s8"),
            ("row", "col"),
            ("plain", "pad:16", "SWIZZLE_128B", "boxes:64"),
        )
    )
    results = [
        c
        for c in emitted.on("sm_90")
        if c.fragment.operand == "d"
        and c.fragment.cols <= 128
        and c.fragment.family in emitted.FAMILIES - {"ldmatrix", "movmatrix"}
    ]
    cells = sample({(c.table.id, c.fragment.type): c for c in results}.values(), 9, emitted.spread)
    check(tmp_path, "convert to stmatrix", emitted.stores(cells, sample(options, 41)), 5)


def test_headers(tmp_path, sample):
    metadata = emitted.of_role(Role.METADATA)
    cells = sample(emitted.cells() + metadata, 83, emitted.spread)
    check(tmp_path, "emit --to cuda", emitted_layouts.headers(cells), 15)


def test_headers_of_texts(tmp_path):
    texts = ["((4,8),(2,2,2)):((32,1),(16,8,128)) over 16x16", "(128,8):(8,1) over 32x32 of f16"]
    warps = "mma.m16n8k16.row.col.f32.f16.f16.f32.d warps 2x2 over 64x32x16"
    cells = [find_cell(text, "sm_90", layers(None)).cell for text in (*texts, warps)]
    check(tmp_path, "emit --to cuda of texts", emitted_layouts.headers(cells), 3)


@pytest.mark.full
def test_types_of_cute(tmp_path, sample):
    cases = emitted_layouts.cute_types(sample(emitted.cells(), 9, emitted.spread))
    check(tmp_path, "emit --to cute", cases, 60, emitted_layouts.CUTE)


def test_paths(tmp_path, sample):
    small = {
        (c.fragment.family, c.fragment.operand, c.fragment.type): c
        for c in reversed(emitted.cells())
        if c.fragment.rows * c.fragment.cols <= 1024
    }
    asked = sample(emitted_layouts.asked_paths(small.values()), 97)
    check(tmp_path, "path --code cuda", emitted_layouts.paths(asked), 8)


@pytest.mark.full
def test_paths_through_tensor_maps(tmp_path):
    asked = [case for case in emitted_layouts.path_cases.CASES if case.fill == "tma"]
    check(tmp_path, "path --fill tma --code cuda", emitted_layouts.paths(asked), 8)


def test_calls_of_the_driver(tmp_path, sample):
    ways = itertools.product(
        ("bf16", "f32", "u8", "f64"),
        ((32, 64), (64, 128), (256,), (4, 8, 32), (2, 2, 2, 4, 16)),
        ("NONE", "32B", "128B"),
        ("NONE", "L2_128B"),
        (16, 32),
    )
    options = [
        MapOptions(kind, tile=tile, swizzle=swizzle, promotion=promotion, address=address)
        for kind, tile, swizzle, promotion, address in ways
    ]
    options += [MapOptions(kind, tile=(32, 64), of=(4096, 2048)) for kind in ("bf16", "u8")] * 5
    check(tmp_path, "tensormap", emitted_layouts.calls(sample(options, 5)), 15, emitted_layouts.DRIVER)


@needs_tools
def test_ptxas_takes_the_ptx(tmp_path, sample):
    """Of instructions whose tables one arch has, and whose target this ptxas knows."""
    tried = {}
    known = inventory.instructions()
    repeated = (known[f"{id_}.x{n}"] for id_, row in known.items() for n in row.stated.get("num", ()))
    for row in sample([row for row in (*known.values(), *repeated) if row.fragments], 107):
        choice = max((fragment.selectors for fragment in row.fragments), key=len)
        try:
            tables, _ = emittable(list(row.fragments), None, published())
            text = emit.emit("ptx", selected(tables, choice[0] if len(choice) > 1 else None))
        except UsageError:
            continue
        module, target = emitted_layouts.module(text)
        (tmp_path / "f.ptx").write_text(module)
        command = [TOOLS.ptxas, "-arch", target, str(tmp_path / "f.ptx"), "-o", str(tmp_path / "f.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "Unsupported .version" not in done.stderr and "not defined for option 'gpu-name'" not in done.stderr:
            tried[row.id] = done.returncode and done.stderr
    wrong = {name: words for name, words in tried.items() if words}
    print(f"emit --to ptx: {len(tried)} texts tried, {len(wrong)} wrong")
    assert wrong == {}
    assert len(tried) > 5


@needs_tools
def test_ptxas_takes_the_ptx_of_every_move_of_tensor_memory(tmp_path):
    """Of each load, store and reduction at every number of repetitions, all of a target in one module."""
    known = inventory.instructions()
    rows = [
        known[f"{id_}.x{n}"] for id_, row in known.items() if row.family == "tcgen05" for n in row.stated.get("num", ())
    ]
    by_target = {}
    for row in rows:
        by_target.setdefault(row.target.name, []).extend(row.fragments)
    assert len(rows) == 2 * 37 + 14
    for fragments in by_target.values():
        tables, _ = emittable(fragments, None, published())
        text = emit.emit("ptx", tables)
        assert not re.search(
            r"(?m)^[^/]*\{[^%}]|^[^/]*\|", re.sub(r"(?m)^[{}]$", "", text)
        )  # no brace of PTX's syntax is left
        module, target = emitted_layouts.module(text)
        (tmp_path / "f.ptx").write_text(module)
        command = [TOOLS.ptxas, "-arch", target, str(tmp_path / "f.ptx"), "-o", str(tmp_path / "f.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:2000]
