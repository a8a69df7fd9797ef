"""A path to an operand behind a descriptor, as code: a CUDA header with `fill` and `descriptor`, and CuTe's text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tcprobe import __version__
from tcprobe.ask.descriptor import CPP
from tcprobe.ask.descriptor import cute as canonical
from tcprobe.ask.path.boxes import BoxCopy
from tcprobe.ask.path.cuda import NUMBER, require_formula, struct_of, transfer_code
from tcprobe.ask.path.cute import head, lanes, layout
from tcprobe.ask.path.formula import of_pair
from tcprobe.code.cuda import once, origin_of_tables
from tcprobe.errors import UsageError
from tcprobe.text import comment

if TYPE_CHECKING:
    from tcprobe.ask.path.operand import OperandPlan


def source(plan: OperandPlan) -> str:
    """The header; UsageError where addresses have no closed form."""
    body = [
        f"  {line}".rstrip()
        for line in (*_sizes(plan), *transfer_code(plan.request, plan.transfer), *_descriptor(plan))
    ]
    return "\n".join([*_head(plan), *once([f"struct {struct_of(plan.request)} {{", *body, "};"]), ""])


def _head(plan: OperandPlan) -> Iterator[str]:
    request, tile = plan.request, plan.request.tile
    yield f"// made by tcprobe {__version__}: {tile.rows} x {tile.cols} of {tile.type}, {tile.contiguous}s contiguous"
    yield f"// {comment(' -> '.join(f'{s.kind}: {s.ptx[0]}' for s in plan.steps))}"
    yield (
        f"// shared memory: {request.shared}, blocks of {request.shared.block} bytes of each line; "
        f"proven byte by byte; needs {request.operand.instruction.target.name}"
    )
    yield from (f"// {comment(origin_of_tables(words))}" for words in plan.evidence)


def _sizes(plan: OperandPlan) -> Iterator[str]:
    request, ahead = plan.request, plan.advance
    yield f"{NUMBER} BYTES = {request.shared.bytes(request.tile)};  // of shared memory"
    yield f"{NUMBER} ALIGNMENT = {plan.alignment};  // of the tile's start there"
    yield f"static constexpr long long LD = {request.ld_bytes};  // bytes from line to line in global memory"
    yield f"{NUMBER} STEPS = {ahead.steps};  // of k; the next tile is {ahead.global_} bytes further in global memory"
    yield f"{NUMBER} BLOCKS = {plan.blocks};  // of {request.smem_tile.block} lines each, one multiply's"
    descriptor = request.smem_tile.descriptor
    yield (
        f"static constexpr unsigned long long DESCRIPTOR = {descriptor.encode():#018x};  "
        f"// LBO {descriptor.lbo}, SBO {descriptor.sbo}, swizzle {descriptor.swizzle or 'none'}, start 0"
    )
    yield f"{NUMBER} TRANSPOSED = {int(request.smem_tile.major == 'mn')};  // the multiply's imm-trans of 16-bit types"
    yield ""


def _descriptor(plan: OperandPlan) -> Iterator[str]:
    """The descriptor of one multiply's operand."""
    starts = np.array(plan.reads.starts).reshape(-1, plan.blocks)
    text = require_formula(of_pair(starts, "k", "block"), plan.request)
    unused = "" if plan.blocks > 1 else "  // there is one block"
    yield f"/// Step k and block of lines `block` of the tile at `shared`, an address in the shared window.{unused}"
    if plan.request.fill_kind != "tma":
        yield "/// Before it every thread that filled: fence.proxy.async, when its copies are there, then a barrier."
    yield ("__device__ static inline unsigned long long descriptor(unsigned shared, unsigned k, unsigned block = 0) {")
    yield f"  return DESCRIPTOR | ((shared + {text}) & 0x3ffff) >> 4;"
    yield "}"


def cute(plan: OperandPlan) -> str:
    """CuTe's layouts, the copy, and what makes the descriptor; UsageError where CuTe has no words for it."""
    request, tile, step = plan.request, plan.request.tile, plan.transfer
    if tile.type not in CPP:
        raise UsageError(f"CuTe: no wgmma of {tile.type}; it has {', '.join(CPP)}.")
    lines = head(f"byte by byte on {request.rules.for_arch}", plan.evidence, "mma_atom")
    lines += ["using namespace cute;", f"using Element = {CPP[tile.type]};"]
    lines += [f"using Global = {layout(tile, request.axis == 'row', request.ld)};"]
    lines += [f"using Shared = decltype({canonical(request.smem_tile)['layout']});"]
    if isinstance(step, BoxCopy):
        lines += ["// host: auto copy = make_tma_copy(SM90_TMA_LOAD{}, tensor, Shared{});"]
    else:
        lines += list(lanes(request, request.axis == "row", step))
    return "\n".join([*lines, "// the TiledMma's partition_fragment makes the descriptors of Shared", ""])
