"""Rows that can be called, one of each kind, with the tables of their operands."""

from tcprobe import emit
from tcprobe.code.cuda import has_functions
from tcprobe.code.names import identifier
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch, version
from tcprobe.store.cell import operands
from tcprobe.store.results import published

RESULTS = published()
NVRTC_PTX = "8.8"  # of NVRTC 12.9
ROWS = [row for row in inventory.instructions().values() if has_functions(row)]


def tables(row, name):
    """The cells of all operands on an arch, none where nothing is known of them."""
    try:
        return list(operands(row, name, RESULTS).values())
    except UsageError:
        return []


def one_of_each(kind, turn=0):
    """An instruction of each kind, another one each turn."""
    kinds = {}
    for row in ROWS:
        kinds.setdefault(kind(row), []).append(row)
    return [rows[turn * 7 % len(rows)] for rows in kinds.values()]


def on(request, name, turn):
    """The instructions that are tried on an arch."""
    row = arch(name)
    chosen = ROWS if request.config.getoption("--all") else one_of_each(lambda i: (i.family, i.target.on(row)), turn)
    return {
        i: cells
        for i in chosen
        if i.target.on(row) and version(i.target.on(row)[1]) <= version(NVRTC_PTX) and (cells := tables(i, name))
    }


def header(found):
    """All fragments of some instructions, each once."""
    return emit.emit("cuda", list({cell.fragment.id: cell for cells in found.values() for cell in cells}.values()))


def function_name(row):
    return f"k_{identifier(row.id)}"
