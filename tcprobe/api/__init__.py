"""The library as the commands use it: load a table, ask it, convert, emit. Published results need no GPU.

    functions                    what `import tcprobe` gives, beside questions
    values                       what they give
    offered                      modules that are called as functions

>>> from tcprobe import api
>>> d = api.load("wmma.m16n16k16.d.f32", arch="sm_80")
>>> d.table.at(lane=5, i=2), d.evidence.split(",")[0]
({'row': 9, 'col': 2}, 'measured: sass')
>>> [str(holder) for holder in api.where(d, rows=[9], cols=[2])]
['lane 5 i 2 (register 2, bits 0..31)']
>>> multiply, operands = api.multiply("mma.m16n8k16.row.col.f32.f16.f16.f32")
>>> found = api.trace(multiply, operands, row=3, col=2, product=None)
>>> [(m.a[0].lane, m.b[0].lane) for m in found.meetings[:3]]
[(12, 8), (12, 8), (13, 9)]
>>> api.convert(operands["d"], operands["a"]).costs
{'cvt': 4}
>>> api.emit("cute", [operands["a"]]).splitlines()[-4]
'// ((4, 8), (2, 2, 2)):((32, 1), (16, 8, 128))'

Errors are `tcprobe.errors.TcprobeError`: UsageError for a name or number that means nothing, DataError for a file that
cannot be trusted.
"""

from __future__ import annotations

import builtins
from importlib import import_module
from pathlib import Path
from types import FunctionType

from tcprobe import emit as formatting
from tcprobe import fit as fitting
from tcprobe.ask import registers
from tcprobe.ask.convert.conversion import Conversion, plan_conversion
from tcprobe.ask.reduce.reduction import Reduction, reduce_fragment
from tcprobe.ask.registers import Holder, Meeting, Trace
from tcprobe.emit import names as formats
from tcprobe.isa.arch import arch as named
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.names import resolve, select
from tcprobe.layout.table import Table
from tcprobe.question.arguments import checked
from tcprobe.store import cell as cells
from tcprobe.store.cell import Cell, operands
from tcprobe.store.choose import layers

__all__ = [
    "Cell",
    "Conversion",
    "Fragment",
    "Holder",
    "Instruction",
    "Meeting",
    "Reduction",
    "Table",
    "Trace",
    "archs",
    "convert",
    "emit",
    "feeds",
    "fit",
    "formats",
    "fragments",
    "held",
    "list",
    "load",
    "multiply",
    "reduce",
    "selection",
    "trace",
    "where",
]


convert, reduce = checked(plan_conversion), checked(reduce_fragment)
feeds, trace = checked(registers.feeds), checked(registers.trace)
held, where = checked(registers.elements_held), checked(registers.where)
emit, fit = checked(formatting.emit), checked(fitting.fit)
load, selection = checked(cells.load), checked(cells.selection)


@checked
def fragments(*patterns: str, arch: str | None = None, family: str | None = None) -> builtins.list[Fragment]:
    """The fragments that patterns or names mean (all without one), that an arch has, of a family; also as `list`."""
    return select(*patterns, family=family, device=named(arch) if arch else None)


list = fragments  # noqa: A001

# what else commands use, imported when it is asked for: name here -> module, name there
LATER = {
    "Ablation": ("tcprobe.loops.ablate", "Ablation"),
    "Campaign": ("tcprobe.run.campaign", "Campaign"),
    "GemmKernel": ("tcprobe.kernel.gemm", "GemmKernel"),
    "OperandVariant": ("tcprobe.ask.tensor_memory", "OperandVariant"),
    "Reader": ("tcprobe.ask.read_file", "Reader"),
    "TensorTraceRequest": ("tcprobe.ask.trace_tensor_memory", "TensorTraceRequest"),
    "ablate": ("tcprobe.loops.question", "ablate"),
    "commands_for": ("tcprobe.ask.find", "find"),
    "address_map": ("tcprobe.references.shared_memory.catalogue", "tabulate"),
    "audit": ("tcprobe.audit.package_audit", "audit"),
    "bank_rules": ("tcprobe.ask.banks.patterns", "rules_for"),
    "behind": ("tcprobe.ask.shared_operand", "shared_map"),
    "check_rules": ("tcprobe.check.rule", "rules"),
    "code_of_load": ("tcprobe.ask.load.straight", "source"),
    "code_of_path": ("tcprobe.ask.path.code", "source"),
    "compilers": ("tcprobe.run.survey", "compilers"),
    "contribute": ("tcprobe.run.contribute", "contribute"),
    "cost_words": ("tcprobe.ask.cost_words", "words"),
    "cost_table": ("tcprobe.ask.cost", "table"),
    "costs_beside": ("tcprobe.ask.cost", "stated_numbers"),
    "diff": ("tcprobe.ask.diff", "compare_named"),
    "doctor": ("tcprobe.run.doctor", "examine"),
    "draw_conflicts": ("tcprobe.ask.figures", "bank_map_svg"),
    "draw_cost": ("tcprobe.ask.figures", "curve_svg"),
    "draw_banks": ("tcprobe.layout.banks", "svg_of_picture"),
    "draw_fragment": ("tcprobe.ask.matrix_picture", "titled_picture"),
    "emulate_product": ("tcprobe.kernel.emulated", "emulate_product"),
    "in_namespace": ("tcprobe.code.names", "in_namespace"),
    "instruction_descriptor": ("tcprobe.ask.tcgen05_descriptor", "instruction_json"),
    "instruction_descriptor_fields": ("tcprobe.ask.tcgen05_descriptor", "instruction_value_json"),
    "lower": ("tcprobe.ask.lower", "lower_multiplies"),
    "memory_operand": ("tcprobe.ask.tensor_memory", "operand"),
    "merge": ("tcprobe.run.merge", "merge"),
    "merge_check": ("tcprobe.run.merge", "check"),
    "numerics_diff": ("tcprobe.ask.diff", "differences"),
    "numerics_header": ("tcprobe.ask.numerics", "header_of"),
    "packer": ("tcprobe.ask.load.repack_code", "packer_source"),
    "pages": ("tcprobe.pages.overview", "render"),
    "predict": ("tcprobe.loops.question", "predictions"),
    "placement": ("tcprobe.ask.tensor_memory", "placement"),
    "product": ("tcprobe.kernel.products", "product"),
    "read_patterns": ("tcprobe.ask.banks.patterns", "read_patterns"),
    "rename": ("tcprobe.code.names", "rename"),
    "repack": ("tcprobe.ask.load.repack", "repack"),
    "scale_json": ("tcprobe.ask.scales", "scale_json"),
    "sarif": ("tcprobe.check.report", "sarif"),
    "scales": ("tcprobe.ask.scales", "scales_in_registers"),
    "scales_in_tensor_memory": ("tcprobe.ask.scales", "scales_in_tensor_memory"),
    "site": ("tcprobe.pages.site.build", "build"),
    "straight_load": ("tcprobe.ask.load.straight", "straight_load"),
    "trace_tensor_memory": ("tcprobe.ask.trace_tensor_memory", "trace_element"),
    "verify": ("tcprobe.run.verify", "verify"),
    "why_not": ("tcprobe.ask.absent", "why_not"),
    "with_zeros": ("tcprobe.ask.load.repack", "with_zeros"),
    "zero_mask": ("tcprobe.ask.tcgen05_descriptor", "zero_mask_json"),
}


def __getattr__(name: str) -> object:
    """What `LATER` names; arguments of a function are checked."""
    if name not in LATER:
        raise AttributeError(f"module 'tcprobe.api' has no attribute {name!r}")
    module, there = LATER[name]
    found = getattr(import_module(module), there)
    return checked(found) if isinstance(found, FunctionType) else found


@checked
def archs(results: Path | None = None, only: bool = False) -> builtins.list[str]:
    """Names of the archs that have measurements, ascending; `results` and `only` as for `load`."""
    return layers(results, only).archs()


@checked
def multiply(
    name: str, arch: str | None = None, results: Path | None = None, only: bool = False
) -> tuple[Instruction, dict[str, Cell]]:
    """The multiply that `name` means (it may be shortened), and the tables of its a, b, c and d on one arch.

    `arch`, `results` and `only` as for `load`; without `arch` the one whose measurement of D counts most.
    """
    row = resolve(name).multiply
    return row, operands(row, arch, layers(results, only))
