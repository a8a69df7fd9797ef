"""The live measurement of what descriptors lead to, and of products through them.

    tcprobe run --family descriptors

The registers of wgmma must be measured already (`tcprobe run 'wgmma*'`): they come from the results folder, or from the
published tables. Saved is, for each operand, width, major and swizzle, how many descriptors were measured, of how many
elements, on how many the formula of `layout.descriptor` agrees, which reading of the base offset explains how many of
the descriptors that tell them apart, and which fields made no difference; of the products how many were wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tcprobe import __version__
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.probes.descriptors import Case, Judged, Tables, cases, judged, launch, measured, products
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.ptx import Kernel, Launch
from tcprobe.run.backend import Device
from tcprobe.run.banks import Clock
from tcprobe.store.choose import Layers
from tcprobe.store.lookup import layers as folders
from tcprobe.store.results import Results
from tcprobe.store.surveys import DESCRIPTORS

WHAT = "follows descriptors"
PRODUCTS = 12  # of each form, place of A and pair of majors
PRODUCT_N = (8, 24, 64, 128, 256)
TOGETHER = 16  # forms whose kernels are compiled together


def tables_of(row: Instruction, layers: Layers, arch: str) -> Tables:
    """The measured tables of a form; UsageError where they are not measured."""
    chosen = layers.choose(row.fragment("d"), [arch])
    if chosen is None:
        raise UsageError(f"{row.id} is not measured in {layers.words}: `tcprobe run 'wgmma*'` measures it.")
    return chosen.measured.tables


def maps(backend: Clock, wanted: Iterable[Case], layers: Layers, arch: str) -> Iterator[tuple[Judged, Kernel]]:
    """Every case, judged."""
    runs = [(case, tables, launch(case, tables))
            for case in wanted for tables in (tables_of(case.instruction, layers, arch),)]  # fmt: skip
    _load(backend, [run for _, _, run in runs])
    for case, tables, run in runs:
        yield judged(case, measured(case, tables, backend.run([run])[0])), run.kernel


def multiplied(
    backend: Clock, rows: Sequence[Instruction], layers: Layers, arch: str, count: int
) -> Iterator[tuple[str, int, int]]:
    """Of each form and place of A: how many products, and how many of them wrong."""
    for start in range(0, len(rows), TOGETHER):
        todo = [
            (row, coded, tables["d"], list(products(row, coded, tables, count, seed=len(row.id))))
            for row in rows[start : start + TOGETHER] for tables in (tables_of(row, layers, arch),)
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


def entry(judged_case: Judged) -> dict[str, Any]:
    """Plain data of a case."""
    held, case = judged_case.case.operand.held, judged_case.case
    ignored = [field for field, (same, count) in judged_case.without.items() if count and same == count]
    return {
        "operand": held.name, "bits": held.slot_bits, "major": case.major, "swizzle": case.swizzle,
        "instruction": case.instruction.id, "descriptors": len(case.descriptors), "elements": judged_case.elements,
        "agree": judged_case.agree, "base_offset": {way: list(pair) for way, pair in judged_case.readings.items()},
        "ignored": ignored,
    }  # fmt: skip


def document(device: Device, ptx: str, entries: list[dict[str, Any]], closed: dict[str, int]) -> dict[str, Any]:
    """What is saved."""
    provenance = {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                  "ptx": ptx, "tcprobe": __version__}  # fmt: skip
    return {"arch": device.arch, "method": device.method, "provenance": provenance,
            "cases": entries, "products": closed}  # fmt: skip


def survey(index: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What descriptors lead to on one GPU, saved in a folder, and what to say of it; EnvironmentUnfitError without one.

    UsageError where the registers of wgmma are not measured, in the folder or by what is published.
    """
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(index)
    device, layers = gpu.devices()[index], folders(folder)
    done = list(maps(gpu, cases(), layers, device.arch))
    closed = list(multiplied(gpu, product_rows(), layers, device.arch, PRODUCTS))
    totals = {"products": sum(n for _, n, _ in closed), "wrong": sum(wrong for _, _, wrong in closed)}
    hashed = ptx_hash([kernel for _, kernel in done])
    body = document(device, hashed, [entry(one) for one, _ in done], totals)
    DESCRIPTORS.write(Results(folder), device.arch, body)
    return body, [*_lines([one for one, _ in done], closed), f"{device.name} ({device.arch}): saved in {folder}"]


def _lines(done: Sequence[Judged], closed: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    """Totals, and what the formula or the products do not explain."""
    count, elements, agree = (sum(n) for n in zip(*((len(x.case.descriptors), x.elements, x.agree) for x in done),
                                                  strict=True))  # fmt: skip
    yield f"{count} descriptors: {agree} of {elements} elements where the formula says"
    yield from (f"{x.case.operand.id}, {x.case.major}, {x.case.swizzle}: {x.first}" for x in done if x.first)
    wrong = sum(wrong for _, _, wrong in closed)
    yield f"{sum(n for _, n, _ in closed)} products, {wrong} wrong"
    yield from (f"{name}: {bad} products are wrong" for name, _, bad in closed if bad)
