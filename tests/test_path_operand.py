"""Paths behind descriptors: gone again from their JSON alone, their code run on the host, what there is none of."""

import json
import re
import shutil
from functools import cache
from itertools import product

import emitted
import emitted_layouts
import host_cuda
import nvrtc
import path_reference
import pytest
import wgmma_products
from click.testing import CliRunner
from wgmma_products import PRODUCTS

from tcprobe.ask.path.code import operand_cute as cute
from tcprobe.ask.path.code import operand_source as source
from tcprobe.ask.path.code import struct_of
from tcprobe.ask.path.operand import operand_path
from tcprobe.ask.path.plan import PathOptions
from tcprobe.cli import main
from tcprobe.errors import UsageError
from tcprobe.isa.names import resolve
from tcprobe.store.choose import alone
from tcprobe.store.results import published

BF16, E4M3, TF32 = "wgmma.m64n24k16.f32.bf16.bf16", "wgmma.m64n64k32.f32.e4m3.e4m3", "wgmma.m64n16k8.f32.tf32.tf32"
S8, SPARSE = "wgmma.m64n32k32.s32.s8.s8", "wgmma.sp.m64n64k32.f32.bf16.bf16"
PLACES = ("plain", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B")


LAYERS = alone(published())


def plan(name, *options, arch=None, **more):
    return operand_path(resolve(name).shared_operand, LAYERS, PathOptions(*options, **more), arch)


@cache
def cases():
    return tuple(planned())


def planned():
    """Every place and major that an operand has, and fills, of tiles of several operands."""
    for (name, size), fill in product(
        (
            (f"{BF16}.a_smem", "128x64"),
            (f"{BF16}.b_smem", "64x48"),
            (f"{E4M3}.a_smem", "64x128"),
            (f"{E4M3}.b_smem", "128x64"),
            (f"{TF32}.b_smem", "32x32"),
            (f"{S8}.a_smem", "64x64"),
            (f"{SPARSE}.a_smem", "64x64"),
            (f"{SPARSE}.b_smem", "64x64"),
        ),
        ("tma", "cp.async", "plain.4"),
    ):
        for major, placed in product(("row", "col"), PLACES):
            try:
                yield plan(name, size, major, placed, fill=fill)
            except UsageError:
                continue


class Simulated(path_reference.Simulated):
    """The fill, issue by issue; and what each descriptor leads to, by the 64 bits alone."""

    def fill(self):
        self.back = self.whole()
        for issue in self.answer["steps"][0]["issues"]:
            self.issue(self.answer["steps"][0], issue)

    def at(self, bits, major, line, byte):
        """The byte of memory of (line, byte of k), or with major mn of (byte of lines, k); as PTX ISA has it."""
        start, lbo, sbo = ((bits >> low & 0x3FFF) << 4 for low in (0, 16, 32))
        mode = {0: 0, 1: 3, 2: 2, 3: 1}[bits >> 62]
        width = 16 << mode
        assert bits >> 49 & 7 == 0
        if major == "k":
            linear = line % 8 * width + line // 8 * sbo + byte % width + byte // width * lbo
        else:
            along, across = (sbo, lbo) if mode else (lbo, sbo)
            linear = byte % 8 * width + byte // 8 * along + line % width + line // width * across
        return path_reference.swizzled(start + linear, (mode, 4, 3))

    def check(self, operand, major):
        """Every byte of every operand is where its multiply looks."""
        step, size = self.answer["steps"][1], self.bits // 8
        turned = operand.name == "b_smem"
        lines, k = (operand.cols, operand.rows) if turned else (operand.rows, operand.cols)
        for issue in step["issues"]:
            bits = int(issue["descriptor"], 16)
            assert (bits & 0x3FFF) << 4 == issue["shared"]
            for line, depth, part in product(range(lines), range(k), range(size)):
                args = (line, depth * size + part) if major == "k" else (line * size + part, depth)
                row, col = (depth, line) if turned else (line, depth)
                found = self.shared[8 * self.at(bits, major, *args)]
                assert found == (issue["at"][0] + row, issue["at"][1] + col, part)


@pytest.mark.full
def test_every_path_is_gone_again():
    """By its JSON and the 64 bits of its descriptors; of all majors, places and fills."""
    seen = set()
    for number, found in enumerate(cases()):
        answer, asked = json.loads(json.dumps(found.to_json())), found.request
        seen.add((asked.operand.held.name, answer["major"], answer["shared"], asked.fill_kind))
        if number % 9:  # all are proven; some are gone again
            continue
        simulated = Simulated(answer, None, asked.tile.bits)
        simulated.fill()
        simulated.check(asked.operand.held, answer["major"])
        assert answer["alignment"] % (128 if asked.fill_kind == "tma" else 16) == 0
    assert len(seen) == 2 * 2 * 4 * 3


def test_a_k_step_is_the_start_address_moved_on():
    found = plan(f"{BF16}.a_smem", "128x64", "row", "SWIZZLE_128B", fill="tma")
    ahead = found.to_json()["k"]
    assert ahead == {"axis": "col", "steps": 4, "issues": 2, "op": "+", "shared": [0, 32, 64, 96], "global": 128}
    starts = [issue["shared"] for issue in found.reads.issues()]
    assert starts == [start + block for start in ahead["shared"] for block in (0, 8192)]
    wide = plan(f"{BF16}.a_smem", "64x128", "row", "SWIZZLE_64B")
    assert wide.advance.shared == (0, 32, 4096, 4128, 8192, 8224, 12288, 12320)
    assert (
        plan("wgmma.m64n64k16.f32.f16.f16.b_smem", "32x64", "row", "SWIZZLE_128B", ld=80, fill="tma").advance.global_
        == 32 * 160
    )


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_the_code_gives_the_descriptors(tmp_path):
    headers, calls, wanted = [], [], []
    for number, found in enumerate(cases()):
        if number % 3 == 0:
            name = struct_of(found.request)
            header = source(found)
            headers.append(header[: header.index("  ///")] + header[header.rindex("  __device__") :])
            for j, issue in enumerate(found.reads.issues()):
                k, block = divmod(j, found.blocks)
                calls.append(f'printf("%llx\\n", {name}::descriptor(4096, {k}, {block}));')
                wanted.append(int(issue["descriptor"], 16) + (4096 >> 4))
    out = host_cuda.execute(tmp_path, headers, calls, b"").decode().split()
    assert [int(text, 16) for text in out] == wanted


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_fills_bring_every_byte(tmp_path, sample):
    found = emitted.tried(tmp_path, emitted_layouts.operand_fills(sample(cases(), 7)))
    print(f"path to a descriptor --code cuda: {found}")
    assert found.wrong == []
    assert found.functions > 10
    lines = emitted_layouts.descriptors(plan.request.smem_tile for plan in cases())
    found = emitted.tried(tmp_path, lines, emitted_layouts.DRIVER)
    print(f"descriptor: {found}")
    assert found.wrong == []


@pytest.mark.parametrize("product", PRODUCTS[:: len(PRODUCTS) - 1], ids=str)
def test_code_compiles(product):
    lib = nvrtc.library()
    if lib is None:
        pytest.skip("no NVRTC here")
    done, log = nvrtc.compile_cuda(lib, wgmma_products.program(product), "-arch=sm_90a", "-std=c++17")
    assert done, log


def test_cute_names_the_atom():
    text = cute(plan(f"{BF16}.b_smem", "64x48", "col", "SWIZZLE_128B", fill="tma"))
    assert "tile_to_shape(GMMA::Layout_K_SW128_Atom<cutlass::bfloat16_t>{}, Shape<_48,_64>{}, Step<_1,_2>{})" in text
    assert "make_tma_copy" in text
    assert "make_tiled_copy" in cute(plan(f"{BF16}.a_smem", "64x64", "row", "SWIZZLE_128B"))
    with pytest.raises(UsageError, match="no wgmma of b1"):
        cute(plan("wgmma.m64n8k256.s32.b1.b1.and.popc.b_smem", "256x8", "col", "plain"))


REFUSED = [
    (("pad:16",), {}, "descriptors know no padding"),
    (("sw:2,5,2",), {}, "descriptors know no padding, and of swizzles"),
    (("SWIZZLE_128B", "ldmatrix.x4"), {}, "read only by its multiply"),
    (("SWIZZLE_128B",), {"fill": "tma", "ld": 65}, "not a multiple of 16"),
    (("SWIZZLE_128B",), {"arch": "sm_100"}, "does not have it"),
    (("SWIZZLE_128B",), {"arch": "sm_80"}, "does not have it"),
    (("SWIZZLE_128B",), {"fill": "dma"}, "is not one of cp.async, tma, plain"),
]


@pytest.mark.parametrize(("options", "more", "words"), REFUSED)
def test_what_there_is_no_path_of(options, more, words):
    with pytest.raises(UsageError, match=words):
        plan(f"{BF16}.a_smem", "64x64", "row", *options, **more)


def test_the_nearest_path_is_named():
    for options, more, near in (
        (("pad:16",), {}, "Nearest that exists: `placed` SWIZZLE_128B."),
        (("SWIZZLE_128B", "ldmatrix.x4"), {}, "Nearest that exists: `access` wgmma."),
        (("SWIZZLE_128B",), {"fill": "dma"}, "Nearest that exists: `fill` cp.async."),
        (
            ("SWIZZLE_128B",),
            {"fill": "tma", "ld": 65},
            "Nearest that exists: no `ld`, or `fill` plain, or `contiguous` col.",
        ),
    ):
        with pytest.raises(UsageError, match=re.escape(near)):
            plan(f"{BF16}.a_smem", "64x64", "row", *options, **more)
    with pytest.raises(UsageError, match="No change of one or two options gives a path"):
        plan(f"{BF16}.a_smem", "32x64", "row", "plain")
    with pytest.raises(UsageError, match="`placed` SWIZZLE_64B `contiguous` col"):
        plan("wgmma.m64n64k32.f32.e4m3.e4m3.b_smem", "64x128", "row", "SWIZZLE_128B")
    assert plan("wgmma.m64n64k32.f32.e4m3.e4m3.b_smem", "64x128", "col", "SWIZZLE_64B").steps


def test_tiles_that_no_descriptor_describes():
    for name, size, major, placed, words in (
        (f"{BF16}.a_smem", "32x64", "row", "plain", "not whole ones"),
        (f"{E4M3}.b_smem", "64x64", "row", "SWIZZLE_64B", "k contiguous only"),
        (f"{BF16}.a_smem", "64x48", "row", "SWIZZLE_128B", "not whole rows of 128 bytes"),
        (f"{BF16}.b_smem", "64x48", "row", "SWIZZLE_32B", "which no descriptor can express"),
    ):
        with pytest.raises(UsageError, match=words):
            plan(name, size, major, placed)


def test_the_command():
    asked = ["path", f"{BF16}.b_smem", "--tile", "64x48", "--global", "col", "--shared", "SWIZZLE_128B"]
    text = CliRunner().invoke(main, [*asked, "--fill", "tma"])
    assert text.exit_code == 0, text.output
    assert "proven: every multiply finds all bytes of 8 operands" in text.stdout
    assert "measured: live on NVIDIA H200" in CliRunner().invoke(main, [*asked, "--fill", "tma", "--why"]).stdout
    code = CliRunner().invoke(main, [*asked, "--code", "cuda"])
    assert "descriptor(unsigned shared, unsigned k, unsigned block = 0)" in code.stdout
    answer = json.loads(CliRunner().invoke(main, [*asked, "--with", "wgmma", "--json"]).stdout)
    assert [step["kind"] for step in answer["steps"]] == ["global->shared", "shared->registers"]
    assert answer["steps"][1]["wavefronts"] is None
    assert answer["descriptor"] == "0x4000004000010000"
