"""Which elements descriptors lead to, and products through descriptors.

    tcprobe run --family descriptors

The fragments of wgmma must be measured first: their tables come from the results folder, or from the published results.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.target import Target
from tcprobe.layout.table import Tables
from tcprobe.probes.descriptors import (
    Case,
    CaseJudgement,
    cases,
    judge,
    kernels_of_products,
    launch,
    numbers_in_memory,
)
from tcprobe.probes.descriptors import products as random_products
from tcprobe.probes.experiment import Bench, Context, Dialogue, Readout, known_tables
from tcprobe.probes.ptx import Kernel
from tcprobe.probes.wgmma_kernels import kernel
from tcprobe.store.kinds import descriptors as saved

KIND = "descriptors"
PRODUCTS = 12  # for each form, place of A and pair of majors
PRODUCT_N = (8, 24, 64, 128, 256)


def _tables(instruction: Instruction, bench: Bench) -> Tables:
    return known_tables(instruction, bench.known_table, "tcprobe run 'wgmma*'")


@dataclass(frozen=True)
class DescriptorExperiment(Dialogue):
    """All descriptors of a case."""

    case: Case
    kind = KIND

    @property
    def id(self) -> str:
        """Operand, major and swizzle."""
        return f"{self.case.operand.id}.{self.case.major}.{self.case.swizzle}"

    @property
    def target(self) -> Target:
        """The target that the form needs."""
        return self.case.instruction.target

    def kernels(self) -> list[Kernel]:
        """The form's kernel with the operand coded."""
        return [kernel(self.case.instruction, "codes", self.case.operand.held.name, self.case.majors)]

    def measure(self, bench: Bench) -> Readout:
        """ "seen": by descriptor, the number in memory of every element."""
        tables = _tables(self.case.instruction, bench)
        return {"seen": numbers_in_memory(self.case, tables, bench.run([launch(self.case, tables)])[0])}

    def conclude(self, reading: Readout, context: Context) -> saved.Body:
        """How many elements are where the formula predicts."""
        return saved.Body(case=_entry(judge(self.case, reading["seen"])))


def _entry(judgement: CaseJudgement) -> saved.CaseCounts:
    factor, case = judgement.case.operand.held, judgement.case
    ignored = [field for field, (same, count) in judgement.without.items() if count and same == count]
    return saved.CaseCounts(
        factor.name,
        factor.slot_bits,
        case.major,
        case.swizzle,
        case.instruction.id,
        len(case.descriptors),
        judgement.elements,
        judgement.agree,
        judgement.readings,
        ignored,
    )


@dataclass(frozen=True)
class ProductExperiment(Dialogue):
    """Products of random matrices through random descriptors, with A in registers and in shared memory."""

    instruction: Instruction
    count: int = PRODUCTS
    kind = KIND

    @property
    def id(self) -> str:
        """The form's id with a suffix."""
        return f"{self.instruction.id}{saved.PRODUCTS}"

    @property
    def target(self) -> Target:
        """The target that the form needs."""
        return self.instruction.target

    def kernels(self) -> list[Kernel]:
        """The kernels of all majors and both places of A."""
        return list(kernels_of_products(self.instruction))

    def measure(self, bench: Bench) -> Readout:
        """ "products" and "wrong": how many there are, one number each."""
        row, seed = self.instruction, len(self.instruction.id)
        tables = _tables(row, bench)
        runs = [
            random_product
            for coded in ("b_smem", "a_smem")
            for random_product in random_products(row, coded, tables, self.count, seed)
        ]
        wrong = sum(
            random_product.wrong(tables["d"], bench.run([random_product.launch])[0].copy()) for random_product in runs
        )
        return {"products": np.array([self.count * len(runs)]), "wrong": np.array([wrong])}

    def conclude(self, reading: Readout, context: Context) -> saved.Body:
        """How many products are wrong."""
        return saved.Body(products=saved.ProductCounts(int(reading["products"][0]), int(reading["wrong"][0])))


def experiments() -> list[Dialogue]:
    """One experiment for each case; then products of every type, with some N."""
    rows = [row for row in inventory.instructions().values() if row.described and row.shape.n in PRODUCT_N]
    return [*map(DescriptorExperiment, cases()), *map(ProductExperiment, rows)]
