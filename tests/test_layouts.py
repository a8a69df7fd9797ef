"""Layouts as people write them: CuTe's, Triton's and Gluon's texts, tiles of multiplies; what is refused, and where."""

import json
import re
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import tcprobe
from tcprobe.ask.layouts import layouts
from tcprobe.ask.written import warp_picture
from tcprobe.cli import main
from tcprobe.errors import TcprobeError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import ARCHS
from tcprobe.isa.dtypes import DTYPES
from tcprobe.kernel.staged import SCALED
from tcprobe.notation import cute, triton
from tcprobe.references.cute import L, apply, atoms, modes, name_of, size
from tcprobe.store.choose import layers
from tcprobe.store.names import find_cell

A = "((4,8),(2,2,2)):((32,1),(16,8,128))"
MULTIPLY = "mma.m16n8k16.row.col.f32.f16.f16.f32"
FOUR_WARPS = "threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]"
LANES = "[[1, 0], [2, 0], [4, 0], [8, 0], [0, 1]]"
MMA2 = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"


def said(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert not done.exception or isinstance(done.exception, SystemExit), done.output
    return done


def shown(*words):
    done = said("show", *words, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def held(text):
    table = find_cell(text, None, layers(None)).cell.table
    return tuple(np.array(table.values[name]).reshape(table.threads, -1) for name in ("row", "col"))


# layouts as names
def test_a_text_of_cute_is_the_fragment_that_it_is():
    [entry] = shown(A, "--tile", "16x16")
    own = tcprobe.fragment(f"{MULTIPLY}.a")
    assert entry["layout_id"] == own.table.id
    assert f"{MULTIPLY}.a" in entry["same_layout"]
    assert entry["bases"] == {name: [list(base) for base in bases] for name, bases in own.bases.items()}
    assert entry["table"][12][5] == [3, 9]
    assert "this is A of mma.m16n8k16" in said("show", A, "--tile", "16x16").output


def test_every_operand_that_cute_states_is_found_by_its_text(sample):
    """CuTe's own layouts, over M x K, N x K and M x N: each is the fragment that it states, B as N x K."""
    folders, tried = layers(None), 0
    for fragment in sample([f for f in inventory.of_a_warp().values() if f.family == "mma" and f.operand in "abd"], 9):
        row = inventory.instructions()[fragment.experiment]
        atom = next((a for a in atoms() for n in a.names if n.partition("_")[2] == name_of(row)), None)
        layout = atom and atom.layout(fragment.operand)
        if not layout or fragment.products > 1 or size(atom.threads.shape) != 32 or fragment.selectors:
            continue
        rows, cols = (fragment.cols, fragment.rows) if fragment.operand == "b" else (fragment.rows, fragment.cols)
        if size(layout.shape) != rows * cols:
            continue
        found = tcprobe.layout(
            cute.written(layout), tile=(rows, cols), arch="sm_90" if row.target.on(tcprobe.arch("sm_90")) else None
        )
        tried += 1
        if folders.layout(fragment, found.arch) is not None:
            assert fragment.id in found.same_layout, fragment.id
    assert tried > 3


@given(st.lists(st.sampled_from([2, 2, 4, 8]), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_a_layout_of_threads_and_values_is_its_strides(sides, rng):
    """Random bijections: what a slot holds is the sum of its digits times strides, split by the tile's rows."""
    order = rng.sample(range(len(sides)), len(sides))
    strides, at = [0] * len(sides), 1
    for mode in order:
        strides[mode] = at
        at *= sides[mode]
    cut = rng.randint(1, len(sides) - 1)
    layout = L((tuple(sides[:cut]), tuple(sides[cut:])), (tuple(strides[:cut]), tuple(strides[cut:])))
    rows = rng.choice([1 << bit for bit in range(at.bit_length())])
    if size(layout.shape[0]) > 4096:
        return
    row, col = held(f"{cute.written(layout)} over {rows}x{at // rows}")
    threads, values = modes(layout)
    for thread in range(0, row.shape[0], 7):
        for i in range(0, row.shape[1], 3):
            number = apply(threads, thread) + apply(values, i)
            assert (row[thread, i], col[thread, i]) == (number % rows, number // rows)


def test_stride_0_over_threads_is_a_broadcast():
    [entry] = shown("((2,4,4),2):((0,8,2),1)", "--tile", "4x8")
    assert entry["table"][0] == entry["table"][1]
    where = said("where", "((2,4,4),2):((0,8,2),1)", "--tile", "4x8", "--row", "1", "--col", "0", "--json")
    assert [h["thread"] for h in json.loads(where.output)["holders"]] == [0, 1]


def test_a_layout_of_memory_has_one_row_by_offset():
    for text in ("Sw<3,3,3> o 0 o (8,64):(64,1)", "S<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)"):
        [entry] = shown(text)
        assert len(entry["table"]) == 1
        assert entry["table"][0][72] == [1, 0]
        assert entry["table"][0][:2] == [[0, 0], [0, 1]]
    [gaps] = shown("Sw<0,0,0> o 0 o (2,4):(8,1)")
    assert gaps["table"][0] == [[0, c] for c in range(4)] + [None] * 4 + [[1, c] for c in range(4)]


def test_memory_is_no_operand_of_registers():
    done = said("banks", "Sw<3,3,3> o 0 o (8,64):(64,1)", "--tile", "8x64", "--type", "f16", "--with", "ldmatrix.x4")
    assert done.exit_code == 2
    assert "memory" in done.output


@pytest.mark.parametrize("each", layouts(), ids=lambda each: each.example[:40])
def test_every_notation_that_is_listed_is_read(each):
    done = said("show", each.example, *shlex.split(each.options), "--json")
    assert done.exit_code == 0, done.output
    for line in done.stdout.splitlines():
        assert json.loads(line)["layout_id"]


def test_triton_and_gluon_and_cute_say_the_same():
    d = tcprobe.layout(MMA2, tile=(64, 64))
    assert d.agrees("gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])")
    assert d.agrees("#x = " + MMA2 + " #x")
    one = tcprobe.layout(
        "gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[16, 8])", tile=(16, 8)
    )
    assert one.agrees(f"{MULTIPLY}.d")
    assert one.agrees(tcprobe.fragment(f"{MULTIPLY}.d"))
    b = tcprobe.layout("((4,8),(2,2)):((16,1),(8,64))", tile=(8, 16))
    assert b.agrees(f"{MULTIPLY}.b")
    assert not b.agrees(f"{MULTIPLY}.a")


def test_swizzled_memory_of_triton_is_cutes_and_a_tensor_maps():
    shared = tcprobe.layout("#ttg.nvmma_shared<{swizzlingByteWidth = 128, elementBitWidth = 16}>", tile=(64, 64))
    assert shared.agrees("#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>")
    assert shared.agrees("Sw<3,4,3> o smem_ptr[16b](unset) o (64,64):(64,1)")
    assert not shared.agrees("Sw<2,4,3> o smem_ptr[16b](unset) o (64,64):(64,1)")


def test_a_layout_goes_where_a_fragment_goes(tmp_path):
    text = [A, "--tile", "16x16"]
    for words in (
        ["where", *text, "--row", "3", "--col", "9"],
        ["banks", A, "--type", "f16", "--tile", "16x16", "--with", "ldmatrix.x4"],
        ["convert", A, f"{MULTIPLY}.a", "--tile", "16x16"],
        ["reduce", "((4,8),(2,2)):((32,1),(16,8))", "--tile", "16x8", "--over", "row"],
        ["compare", A, f"{MULTIPLY}.a", "--tile", "16x16"],
        ["path", f"{A} over 16x16 of f16", "--tile", "64x64"],
        ["load", f"{A} of f16", "--tile", "16x16", "--ld", "64"],
        ["emit", *text, "--to", "csv"],
    ):
        done = said(*words)
        assert done.exit_code == 0, (words, done.output)
    table = tmp_path / "own.csv"
    table.write_text(said("emit", *text, "--to", "csv").stdout)
    assert tcprobe.layout(str(table)).agrees(f"{MULTIPLY}.a")
    plain = tmp_path / "own.json"
    plain.write_text(said("show", *text, "--json").stdout)
    assert tcprobe.layout(str(plain)).agrees(f"{MULTIPLY}.a")


def test_one_that_nearly_is_a_fragment_gets_the_diagnosis():
    done = said("show", "((8,4),(2,2,2)):((1,32),(16,8,128))", "--tile", "16x16")
    assert "lane bits in another order" in done.output


# tiles of instructions
def tiled(row, col, atom, count, repeats):
    """Thread and i of element (row, col) of D by CuTe's definition: warps m fastest, repetitions along m, then n."""
    (am, an), (wm, wn), (rm, _) = atom, count, repeats
    warp = row // am % wm + wm * (col // an % wn)
    return warp, row // (am * wm) + rm * (col // (an * wn)), row % am, col % an


@pytest.mark.parametrize("warps", ["1x1", "2x4", "4x1", "1x8", "3x2"])
def test_where_an_element_of_a_tile_is(warps):
    wm, wn = map(int, warps.split("x"))
    tile = (16 * wm * 2, 8 * wn * 3, 16)
    one = tcprobe.fragment(f"{MULTIPLY}.d")
    whole = tcprobe.layout(f"{MULTIPLY}.d", warps=warps, tile=tile)
    assert (whole.table.threads, whole.table.elements) == (32 * wm * wn, 4 * 6)
    for row in range(0, tile[0], 5):
        for col in range(0, tile[1], 3):
            warp, repeat, r, c = tiled(row, col, (16, 8), (wm, wn), (2, 3))
            [own] = one.where(r, c)
            assert whole.table.holders(row=row, col=col) == [(32 * warp + own.lane, own.i + 4 * repeat)]


def test_json_of_where_has_thread_and_warp():
    words = ["where", f"{MULTIPLY}.d", "--warps", "2x4", "--tile", "128x128x64"]
    found = json.loads(said(*words, "--row", "35", "--col", "9", "--json").stdout)
    [holder] = found["holders"]
    assert (holder["thread"], holder["warp"], holder["lane"], holder["i"], holder["register"]) == (76, 2, 12, 5, 5)
    back = json.loads(said(*words, "--lane", "76", "--i", "5", "--json").stdout)["holders"][0]
    assert (back["row"], back["col"]) == (35, 9)
    same = json.loads(said(*words, "--lane", "12", "--warp", "2", "--i", "5", "--json").stdout)["holders"][0]
    assert same == back
    turned = json.loads(said(*words[:3], "2x4:4,1", *words[4:], "--row", "35", "--col", "9", "--json").stdout)
    assert turned["holders"][0]["warp"] == 1


def test_the_operands_of_a_tile_are_shared_by_warps():
    a = tcprobe.layout(f"{MULTIPLY}.a", warps="2x4", tile="64x64x32")
    b = tcprobe.layout(f"{MULTIPLY}.b", warps="2x4", tile="64x64x32")
    assert sorted(thread // 32 for thread, _ in a.table.holders(row=0, col=0)) == [0, 2, 4, 6]
    assert sorted(thread // 32 for thread, _ in b.table.holders(row=0, col=0)) == [0, 1]
    assert (b.fragment.rows, b.fragment.cols) == (32, 64)
    assert a.table.holders(row=0, col=16)[0] == (0, 16)  # m goes first: two repetitions of m, then k


def test_a_wgmma_counts_warpgroups():
    whole = tcprobe.layout("wgmma.mma_async.m64n64k16.f32.f16.f16.d", warps="2x1", tile="128x64x16")
    one = tcprobe.fragment("wgmma.mma_async.m64n64k16.f32.f16.f16.d")
    assert whole.table.threads == 256
    [own] = one.where(5, 9)
    assert whole.table.holders(row=69, col=9) == [(128 + own.lane, own.i)]


def test_make_tiled_mma_is_the_same_as_the_options():
    text = "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2,_4,_1>>{}, Tile<_32,_32,_16>{})"
    for operand in "abd":
        of_text = tcprobe.layout(f"{text} {operand}", tile="64x64x32")
        assert of_text.table == tcprobe.layout(f"{MULTIPLY}.{operand}", warps="2x4", tile="64x64x32").table
        printed = re.search(r"CuTe: (make_tiled_mma.*)", said("show", f"{text} {operand}", "--tile", "64x64x32").output)
        again = tcprobe.layout(f"{printed[1]} {operand}", tile="64x64x32")
        assert again.table == of_text.table
    assert len(shown(text, "--tile", "64x64x32")) == 4


def test_a_permutation_reorders_a_dimension():
    plain = tcprobe.layout(f"{MULTIPLY}.d", warps="1x2", tile="16x32x16")
    turned = tcprobe.layout(f"{MULTIPLY}.d", warps="1x2", tile="16x32x16", permute="_,(8,2,2):(1,16,8),_")
    at = [0, 16, 8, 24]  # blocks of 8 columns, in the order in which atoms take them
    for col in range(32):
        block, inside = divmod(col, 8)
        assert turned.table.holders(row=3, col=at[block] + inside) == plain.table.holders(row=3, col=col)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arch", "kind"), [("sm_80", "f16"), ("sm_120", "bf16"), ("sm_90", "bf16")])
def test_a_kernel_says_its_warps_as_where_takes_them(arch, kind):
    """The numbering that `kernel gemm` prints, pasted, leads to the thread and register that the kernel explains."""
    made = tcprobe.kernel(arch, kind)
    warps, permute = made.gemm.numbering
    tile = tcprobe.layout(
        f"{made.gemm.instruction.id}.d", warps=warps, permute=permute or None, tile=made.gemm.tile, arch=arch
    )
    printed = said("kernel", "gemm", "--arch", arch, "--type", kind, "--explain").output
    words = shlex.split(re.search(r"tcprobe (where .*)", printed)[1])
    for row, col in ((0, 0), (70, 100), (127, 127), (33, 64)):
        text = next(way for way in made.explain(row, col, 0) if way["element"].startswith("D"))["steps"][0]
        [(thread, i)] = tile.table.holders(row=row, col=col)
        if arch == "sm_90":
            group, lane, number = re.search(r"warpgroup (\d+), thread (\d+).*d\[0\]\[(\d+)\]", text).groups()
            assert (thread, i) == (128 * (int(group) - 1) + int(lane), int(number))
        else:
            warp, lane, down, across, number = re.search(
                r"warp (\d+), lane (\d+), d\[(\d+)\]\[(\d+)\]\[(\d+)\]", text
            ).groups()
            assert thread == 32 * int(warp) + int(lane)
            assert i == int(number) + 4 * (int(down) + made.gemm.fragments[0] * int(across))
        pasted = json.loads(said(*words[:-4], "--row", row, "--col", col, "--json").stdout)
        assert pasted["holders"][0]["thread"] == thread


def test_a_tile_is_converted_by_each_warp_for_itself():
    done = said("convert", f"{MULTIPLY}.d", f"{MULTIPLY}.a", "--warps", "4x1", "--tile", "128x16x16", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[0])["costs"] == {"cvt": 8}
    apart = said("convert", f"{MULTIPLY}.d", f"{MULTIPLY}.a", "--warps", "1x4", "--tile", "16x64x64")
    assert apart.exit_code == 2
    assert "shared memory" in apart.output


def test_pictures_of_a_tile_by_warps():
    whole = tcprobe.layout(f"{MULTIPLY}.d", warps="2x4", tile="64x64x16")
    text = "\n".join(warp_picture(whole.table, 80))
    assert text.split("\n")[1].split() == ["0-15", *"02460246"]
    assert text.split("\n")[2].split() == ["16-31", *"13571357"]
    drawn = said("emit", f"{MULTIPLY}.d", "--warps", "2x4", "--tile", "64x64x16", "--to", "svg-warps")
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout.startswith("<svg")
    assert drawn.stdout.count("<rect") >= 8


# what is refused
DEEP = "(" * 60 + "1" + ")" * 60
WRONG = {
    A: "needs the tile",
    f"{A} over 16x8": "does not divide",
    f"{A} over 32x16": "does not divide",
    "(32,4):(1,1) over 8x16": "two slots hold one element",
    "(32,4):(4,0) over 8x16": "two slots hold one element",
    f"{DEEP}:{DEEP} over 8x8": "column 42",
    "(4,9999999999):(1,4) over 8x8": "column 4",
    "(2048,(2048,1024)):(1,(2048,4194304)) over 8x8": "2**31",
    "(32,4):(4,(1)) over 8x16": "nest alike",
    "(32,4):(4,1 over 8x16": "column",
    "(32,x):(4,1) over 8x16": "column 5",
    "(32,0):(4,1) over 8x16": "side of 0",
    "(2,3,4):(1,2,6) over 4x6": "outer modes",
    "Sw<3,3,2> o 0 o (8,64):(64,1)": "column 1",
    "Sw<3,3,3> o 1 o (8,64):(64,1)": "offset",
    "Sw<3,3,3> o 0 o (8,64):(64,1) over 12x64": "does not divide",
    "Sw<0,0,0> o 0 o (8,8):(4,1)": "two slots hold one element",
    "#ttg.nothing<{a = 1}> over 8x8": "column 1",
    f"#ttg.blocked<{{sizePerThread = [1, 4], {FOUR_WARPS}, x = 1}}>": "x is not",
    f"#ttg.blocked<{{sizePerThread = [1, 3], {FOUR_WARPS}}}>": "powers of two",
    "#ttg.blocked<{sizePerThread = [1, 4]}>": "missing",
    f"{MMA2.replace('versionMajor = 2', 'versionMajor = 5')} over 64x64": "version 5",
    f"{MMA2} over 48x64": "powers of two",
    f"{MMA2} over 8x8": "two slots hold one element",
    f"#ttg.linear<{{register = [[0, 0]], lane = {LANES}, warp = [], block = []}}>": "two slots",
    "gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0], [], 5)": "more than 5",
    "gl.BlockedLayout(size=[1, 4])": "size is not",
    "gl.NoLayout([1])": "is not a layout",
    "make_tiled_mma(NOTHING_ATOM, (2,2,1)) d over 64x64x16": "NOTHING_ATOM",
    "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN, (2,2,1):(1,1,1)) d over 64x64x16": "do not number",
    "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN, (2,4,1), (48,_,_)) d over 64x64x16": "48",
    "make_tiled_copy(Copy_Atom<UniversalCopy<uint128_t>, half_t>, (32,1):(1,32), (1,4):(4,1))": "not whole",
    f"{MULTIPLY}.d warps 2x4 over 100x64x16": "not a multiple",
    f"{MULTIPLY}.d warps 2x4 over 64x64": "MxNxK",
    f"{MULTIPLY}.d warps 0x4 over 64x64x16": "at least one",
    f"{MULTIPLY}.d warps 2x4:1,1 over 64x64x16": "do not number",
    f"{MULTIPLY}.d warps 2x4 over 99999999x99999999x16": "at most",
    f"{MULTIPLY}.d warps 2x4 over 64x64x16 over 3x3": "said twice",
    "mma.m8n8k4.row.col.f32.f16.f16.f32.d warps 2x2 over 64x64x16": "make_tiled_mma",
    "missing.json": "",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:50])
def test_what_is_no_layout_is_refused_in_one_line(text):
    done = CliRunner().invoke(main, ["show", text])
    assert done.exit_code in (2, 4), (text, done.output)
    assert WRONG[text] in done.output
    assert done.output.count("\n") == 1


def test_options_that_do_not_go_with_a_name():
    for words in (
        ["show", f"{MULTIPLY}.d", "--tile", "64x64"],
        ["show", f"{MULTIPLY}.d", "--permute", "32,_,_"],
        ["show", f"{MULTIPLY}.d", "--warps", "x"],
        ["show", A, "--tile", "16x16", "--warps", "2x2"],
        ["where", A, "--tile", "16x16", "--row", "16", "--col", "0"],
        ["banks", "--tile", "8x8", "--type", "f16", "--warps", "2x2", "--with", "cp.async.16"],
        ["compare", f"{MULTIPLY}.a", "--tile", "16x16"],
    ):
        assert said(*words).exit_code == 2, words


@given(st.text(alphabet="(),:<>{}[]=#_ o0123456789aLSw.", max_size=60))
def test_any_text_is_read_or_refused(text):
    for read in (cute.read, triton.read, cute.read_tiler):
        with suppress(UsageError):
            read(text)


@pytest.mark.parametrize("damage", range(0, 60, 3))
def test_a_damaged_text_is_never_a_traceback(damage):
    for text in (A, MMA2, "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2,_4,_1>>{}) d"):
        for broken in (text[:damage], text[:damage] + "," + text[damage:], text[damage:]):
            with suppress(TcprobeError):
                find_cell(f"({broken} over 16x16", None, layers(None))


def test_plain_names_load_none_of_it():
    """What `show` and `where` of a plain name import has neither NumPy nor a grammar of layouts."""
    import subprocess

    code = (
        "import sys; from tcprobe.cli import main\n"
        f"try: main(['where', '{MULTIPLY}.a', '--row', '3', '--col', '9'])\n"
        "except SystemExit: pass\n"
        "found = [n for n in sys.modules if n in ('numpy', 'tcprobe.store.written')]\n"
        "found += [n for n in sys.modules if n.startswith('tcprobe.notation.')]\n"
        "print(found, file=sys.stderr); sys.exit(len(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arch", [row.name for row in ARCHS])
def test_a_budget_of_every_type_is_an_answer_or_a_refusal(arch, sample):
    """Types that no kernel of ours multiplies among them: such a plan lacks what brings A and B to registers."""
    answered = []
    for kind in [*sample([row.name for row in DTYPES], 6), *SCALED, "f17"]:
        for multiply in (None, "mma"):
            with suppress(UsageError):
                tcprobe.plan(arch, (128, 256, 256), kind, 1, warps=(4, 2), multiply=multiply)
                answered.append(kind)
    assert "f17" not in answered
    if arch in ("sm_100", "sm_103"):
        assert set(SCALED) <= set(answered)


def test_a_budget_with_scales_is_that_of_their_elements():
    for kind, of in SCALED.items():
        plain = tcprobe.plan("sm_100", (128, 128, 128), of.element, scale_block=of.block)
        assert tcprobe.plan("sm_100", (128, 128, 128), kind).to_json() == plain.to_json()
    with pytest.raises(UsageError, match="scales of nvf4 are of 16"):
        tcprobe.plan("sm_100", (128, 128, 128), "nvf4", scale_block=32)


def test_the_budget_of_a_tile():
    found = tcprobe.plan("sm_90", (128, 256, 64), "bf16", 4)
    assert (found.registers["accumulators"], found.shared_bytes, found.threads) == (128, 4 * (128 + 256) * 64 * 2, 384)
    own = tcprobe.kernel("sm_80", "f16")
    plain = tcprobe.plan("sm_80", own.gemm.tile, "f16", own.gemm.stages)
    assert {name: plain.registers[name] for name in own.gemm.registers} == own.gemm.registers
    assert plain.shared_bytes <= own.shared_bytes
    assert tcprobe.plan("sm_100", (128, 256, 64), "bf16", 2, accumulators=2).columns == 512
    assert tcprobe.plan("sm_107", (128, 256, 64), "bf16", 2, accumulators=2, columns=64).columns == 576
    for columns, words in ((96, "608"), (128, "640")):
        with pytest.raises(UsageError, match=f"{words} columns of tensor memory .*; at most 512"):
            tcprobe.plan("sm_100", (128, 256, 64), "bf16", 2, accumulators=2, columns=columns)
    with pytest.raises(UsageError, match="registers per thread; at most 255"):
        tcprobe.plan("sm_80", (256, 256, 32), "f16", 2)
    with pytest.raises(UsageError, match="bytes of shared memory"):
        tcprobe.plan("sm_75", (128, 128, 64), "f16", 4)


def test_the_wider_count_of_the_benchmark_stands_in_the_docs():
    page = (Path(__file__).parent.parent / "benchmarks" / "notes" / "layouts.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| CuTe", "| Triton"))]
    assert len(rows) >= 4
    assert all(row[-1] == "0" for row in rows), rows
