"""The live measurement of what descriptors lead to, and of products through them.

    python -m tcprobe.run.descriptors --results FOLDER [--device N] [--products N]

The registers of wgmma must be measured already (`tcprobe run 'wgmma*'`): they come from FOLDER, or from the published
tables. Prints one JSON object: for each operand, width, major and swizzle how many descriptors were measured, of how
many elements, on how many the formula of `layout.descriptor` agrees, which reading of the base offset explains how
many of the descriptors that tell them apart, and which fields made no difference; of the products how many were wrong.
With --save the same is written to FOLDER as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tcprobe import __version__
from tcprobe.errors import TcprobeError, UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.probes.descriptors import Case, Judged, Tables, cases, judged, launch, measured, products
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.run.backend import BackendFaultError, Device
from tcprobe.run.banks import Clock
from tcprobe.store.choose import Layers
from tcprobe.store.lookup import layers as folders
from tcprobe.store.results import Results

PRODUCTS = 12  # of each form, place of A and pair of majors
PRODUCT_N = (8, 24, 64, 128, 256)
TOGETHER = 16  # forms whose kernels are compiled together


def tables_of(row: Instruction, found: Layers, arch: str) -> Tables:
    """The measured tables of a form; UsageError where they are not measured."""
    chosen = found.choose(row.fragment("d"), [arch])
    if chosen is None:
        raise UsageError(f"{row.id} is not measured in {found.words}: `tcprobe run 'wgmma*'` measures it.")
    return chosen.measured.tables


def maps(backend: Clock, wanted: Iterable[Case], found: Layers, arch: str) -> Iterator[tuple[Judged, Kernel]]:
    """Every case, judged."""
    runs = [(case, tables, launch(case, tables))
            for case in wanted for tables in (tables_of(case.instruction, found, arch),)]  # fmt: skip
    _load(backend, [run for _, _, run in runs])
    for case, tables, run in runs:
        yield judged(case, measured(case, tables, backend.run([run])[0])), run.kernel


def multiplied(
    backend: Clock, rows: Sequence[Instruction], found: Layers, arch: str, count: int
) -> Iterator[tuple[str, int, int]]:
    """Of each form and place of A: how many products, and how many of them wrong."""
    for start in range(0, len(rows), TOGETHER):
        todo = [
            (row, coded, tables["d"], list(products(row, coded, tables, count, seed=len(row.id))))
            for row in rows[start : start + TOGETHER] for tables in (tables_of(row, found, arch),)
            for coded in ("b_smem", "a_smem")
        ]  # fmt: skip
        _load(backend, [one.launch for *_, these in todo for one in these])
        for row, coded, table, these in todo:
            wrong = sum(one.wrong(table, backend.run([one.launch])[0].copy()) for one in these)
            yield f"{row.id} {'a' if coded == 'b_smem' else 'a_smem'}", count * len(these), wrong


def _load(backend: Clock, launches: Iterable[Launch]) -> None:
    """Compile the kernels, each once; UsageError where one is refused."""
    kernels = {launch.kernel.name: launch.kernel for launch in launches}
    for name, words in backend.load(list(kernels.values())).items():
        raise UsageError(f"{name}: refused: {words}")


def product_rows() -> list[Instruction]:
    """The forms of some N, all types."""
    rows = inventory.instructions().values()
    return [row for row in rows if row.described and row.shape.n in PRODUCT_N]


def entry(found: Judged) -> dict[str, Any]:
    """Plain data of a case."""
    held, case = found.case.operand.held, found.case
    ignored = [field for field, (same, count) in found.without.items() if count and same == count]
    return {
        "operand": held.name, "bits": held.slot_bits, "major": case.major, "swizzle": case.swizzle,
        "instruction": case.instruction.id, "descriptors": len(case.descriptors), "elements": found.elements,
        "agree": found.agree, "base_offset": {way: list(pair) for way, pair in found.readings.items()},
        "ignored": ignored,
    }  # fmt: skip


def document(device: Device, ptx: str, found: list[dict[str, Any]], closed: dict[str, int]) -> dict[str, Any]:
    """What is saved."""
    provenance = {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                  "ptx": ptx, "tcprobe": __version__}  # fmt: skip
    return {"arch": device.arch, "method": device.method, "provenance": provenance, "cases": found, "products": closed}


@click.command()
@click.option("--device", "index", type=int, default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--results", "folder", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--products", "count", type=click.IntRange(0, 1000), default=PRODUCTS, show_default=True)
@click.option("--save", is_flag=True, help="Write descriptors.json into the folder.")
def main(index: int, folder: Path, count: int, save: bool) -> None:
    """Measure what descriptors lead to, and multiply through them."""
    from tcprobe.run.gpu import Gpu

    try:
        gpu = Gpu()
        gpu.open(index)
        device, found = gpu.devices()[index], folders(folder)
        start = time.perf_counter()
        done = list(maps(gpu, cases(), found, device.arch))
        mapped = time.perf_counter()
        closed = list(multiplied(gpu, product_rows(), found, device.arch, count)) if count else []
        ended = time.perf_counter()
        totals = {"products": sum(n for _, n, _ in closed), "wrong": sum(wrong for _, _, wrong in closed)}
        hashed = ptx_hash([kernel for _, kernel in done])
        body = document(device, hashed, [entry(one) for one, _ in done], totals)
        bad = [name for name, _, wrong in closed if wrong]
        for one, _ in done:
            if one.first:
                click.echo(f"{one.case.operand.id}, {one.case.major}, {one.case.swizzle}: {one.first}", err=True)
        seconds = {"maps": round(mapped - start, 2), "products": round(ended - mapped, 2)}
        click.echo(json.dumps({**body, "wrong_forms": bad[:50], "seconds": seconds}))
        if save:
            Results(folder).write_descriptors(device.arch, body)
    except (TcprobeError, BackendFaultError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(getattr(error, "exit_code", 1)) from None


if __name__ == "__main__":
    main()
