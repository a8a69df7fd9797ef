"""The CUDA of storing a fragment through stmatrix: the conversion of its registers, and a function that stores them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcprobe.ask.convert.casts import cast
from tcprobe.ask.convert.cuda import NAME, parameter
from tcprobe.ask.convert.stmatrix import StoreOptions, StorePlan, plan_store
from tcprobe.code.cuda import holder, of_holder, origin
from tcprobe.errors import UsageError
from tcprobe.isa import arch
from tcprobe.store.cell import Cell
from tcprobe.text import comment


def plan_store_code(cell: Cell, store_options: StoreOptions, name: str = NAME) -> StorePlan:
    """As `plan_store`, with the code of `name`(shared, lane, from), which calls that of the registers.

    UsageError as there, and where the addresses have no closed form.
    """
    store = plan_store(cell, store_options, name)
    text = "\n".join([str(store.conversion.code), "", *_function(store, name)])
    return replace(store, conversion=replace(store.conversion, code=text))


def _function(store: StorePlan, name: str) -> Iterator[str]:
    tiles, registers = store.conversion.tiling, store.conversion.tiling.target.fragment.registers
    kind = cast(tiles.source.fragment, tiles.target.fragment, arch.arch(store.cell.arch))
    word, from_parameter = parameter(tiles, kind)
    tile, issues = store.tile, len(store.addresses)
    words = f"{store.cell.fragment.id} into {tile.rows} x {tile.cols} of {tile.type} in shared memory"
    yield comment(f"/// {words}, {tile.contiguous}s contiguous,")
    cut = f", lines cut into blocks of {store.shared.block} bytes" if store.shared.block else ""
    yield f"/// {store.shared.pitch(tile)} bytes apart, {store.shared}{cut}. `shared`: the tile's address in the shared"
    threads = store.cell.fragment.threads
    thread = holder(threads)
    yield f"/// window, a multiple of {store.alignment}; {thread}: 0 to {threads - 1}, of whole warps;"
    yield f"/// `from`: the registers, {origin(store.cell)}."
    yield f"__device__ inline void {name}(unsigned shared, unsigned {thread}, {from_parameter}) {{"
    yield f"  {word} to[{issues}][{registers}];"
    yield f"  {name}_registers(from, to);"
    yield "#pragma unroll"
    yield f"  for (unsigned issue = 0; issue < {issues}; ++issue) {{"
    yield from (f"    {of_holder(line, threads)}" for line in _address(store))
    places = ", ".join(f"%{j + 1}" for j in range(registers))
    inputs = ", ".join(f'"r"(to[issue][{j}])' for j in range(registers))
    yield f'    asm volatile("{store.ptx} [%0], {{{places}}};" : : "r"(address), {inputs} : "memory");'
    yield from ("  }", "}")


def _address(store: StorePlan) -> Iterator[str]:
    """The statements that compute a lane's address."""
    if store.formula is None:
        raise UsageError(f"{store.access}: the addresses have no closed form, so there is no code.", "no code")
    linear = store.formula.linear
    if store.formula.swizzle:
        yield f"const unsigned linear = {linear};"
        linear = f"linear ^ (linear {store.formula.swizzle})"
    yield f"const unsigned address = shared + ({linear});"
