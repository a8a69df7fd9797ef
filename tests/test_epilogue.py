"""The epilogue of docs/tensor_memory.md: from tensor memory through registers and stmatrix to a tensor map's tile."""

import re
from pathlib import Path

import emitted
import numpy as np
import nvrtc
import pytest
from machine_code import TOOLS, needs_tools

from tcprobe.ask.convert.code import header
from tcprobe.ask.convert.conversion import with_register_type
from tcprobe.ask.convert.stmatrix import StoreOptions, plan_store, plan_store_code
from tcprobe.errors import UsageError
from tcprobe.isa.arch import arch
from tcprobe.references import cute
from tcprobe.sass.toolchain import Ptxas
from tcprobe.store.cell import load

PAGE = Path(__file__).parent.parent / "docs" / "tensor_memory.md"
OPTIONS = StoreOptions("stmatrix", "bf16", "row", "SWIZZLE_128B")
KERNEL = 'extern "C" __global__ void kernel(unsigned tmem, const void* map) {\n' + (
    "  __shared__ __align__(1024) unsigned char tile[16384];\n"
    "  epilogue(tmem, (unsigned)__cvta_generic_to_shared(tile), map, 0, 0);\n}\n"
)


def registers(shape="16x256b", number=8):
    return with_register_type(load(f"tcgen05.ld.{shape}.x{number}.d"), "f32")


def text():
    (block,) = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return header([plan_store_code(registers(), OPTIONS, "store").conversion], "") + block + KERNEL


@needs_tools
def test_it_is_assembled_for_sm_100a():
    """By NVRTC and ptxas of the wheels, with the opcodes that the page is about."""
    ptx = nvrtc.ptx(nvrtc.library(), text(), "-arch=compute_100a")
    made, log = Ptxas(TOOLS.ptxas, 60.0).assemble(arch("sm_100"), ptx, True)
    assert made, log
    for name in ("tcgen05.ld", "stmatrix", "cp.async.bulk.tensor"):
        assert name in ptx


@pytest.mark.full
def test_on_the_emulator_every_element_comes_to_its_place(tmp_path):
    """Each warp's two loads of D, layout D, as the tables have them; the code, run on the host, stores the tile."""
    rng, cell = np.random.default_rng(0), registers()
    d = rng.integers(0, 1 << 16, (128, 64))
    table, cases = cute.tensor_memory_table("16x256b", 8), []
    for row in range(0, 128, 16):
        found = plan_store_code(cell, OPTIONS, "f")
        at = [d[row + r, c] for r, c in table.cells]
        given = emitted.as_given(np.array(at).reshape(32, -1), 32, "float")
        body = emitted.STORE.format(type="float", count=table.elements)
        memory = emitted.stored(found, d[row : row + 16])
        cases.append(
            emitted.Case(
                f"rows from {row}",
                emitted.uncommented(found.conversion.code),
                body,
                32,
                given.tobytes(),
                memory.tobytes(),
                "memory",
            )
        )
    tried = emitted.tried(tmp_path, cases)
    assert (tried.functions, tried.wrong) == (8, [])


@pytest.mark.full
@pytest.mark.parametrize("shape", cute.MEMORY_ATOMS)
def test_every_shape_can_be_stored(shape, tmp_path):
    """By whatever exchange of lanes it takes."""
    cell = registers(shape, 32 if shape in ("32x32b", "16x32bx2", "16x64b") else 8)
    cases = list(emitted.stores([cell], [StoreOptions("stmatrix", "bf16"), OPTIONS]))
    assert cases
    assert emitted.tried(tmp_path, cases).wrong == []


def test_words_have_no_type_of_their_own():
    with pytest.raises(UsageError, match="`register_type` f32"):
        with_register_type(load("tcgen05.ld.32x32b.d"), None)
    with pytest.raises(UsageError, match="`register_type` f32"):
        with_register_type(load("tcgen05.ld.32x32b.d"), "bf16")
    with pytest.raises(UsageError, match=r"`register_type` is for registers of tcgen05\.ld"):
        with_register_type(load("mma.m16n8k16.row.col.f32.f16.f16.f32.d"), "f32")
    assert plan_store(registers(), OPTIONS).conversion.costs == {"cvt": 16}
