"""What a GPU does with sparse multiplies that PTX does not document: illegal metadata, and selectors beyond the last.

    tcprobe run --family undocumented

saves it as `ask.undocumented` reads it. What ptxas takes may stop the GPU's context, so each selector runs in a process
of its own: python -m tcprobe.run.undocumented DEVICE INSTRUCTION SELECTOR
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from tcprobe import __version__
from tcprobe.ask.undocumented import document
from tcprobe.errors import ProbeError, TcprobeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.probes import sparse_undocumented as probe
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.ptx import Bytes, Kernel, Launch
from tcprobe.probes.sparse import kernel
from tcprobe.run.backend import BackendFaultError, Device
from tcprobe.store.cell import operands
from tcprobe.store.results import published
from tcprobe.store.surveys import UNDOCUMENTED
from tcprobe.system import children, worker
from tcprobe.text import one_line

WHAT = "tries what PTX does not document"
LIMIT = 60.0  # seconds for one selector
PROCESSES = 4
MOST_WORDS = 200
Forms = Mapping[str, tuple[Instruction, dict[str, Table]]]
Case = tuple[str, int]  # an instruction's id and a selector


class Loaded(Protocol):
    """What is asked of a backend, which a GPU gives."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile; the refused kernels by name, with the compiler's words."""

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches."""


def measured(name: str) -> dict[str, tuple[Instruction, dict[str, Table]]]:
    """The sparse multiplies of a warp on an arch whose tables are published, with them, by id."""
    layers = published()
    sparse = (row for row in inventory.executed_by(WARP) if row.metadata and row.target.on(arch(name)))
    forms = [row for row in sparse if layers.measurement(name, "live", row.id)]
    return {row.id: (row, {o: cell.table for o, cell in operands(row, name, layers).items()}) for row in forms}


def on_gpu(index: int) -> tuple[Device, dict[str, str], dict[str, dict[str, Any]]]:
    """(device, provenance, findings by form) of one GPU; EnvironmentUnfitError without one."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(index)
    device = gpu.devices()[index]
    forms = measured(device.arch)
    if not forms:
        raise ProbeError(f"no sparse multiply of {device.arch} is published: `tcprobe run` measures them first.")
    first = {id_: probe.nibbles(row) for id_, (row, _) in forms.items()}
    beyond = {(id_, n): kernel(row, n) for id_, (row, _) in forms.items() for n in probe.undocumented(row)}
    values, outcomes = _values(gpu, forms, first), _outcomes(gpu, index, beyond)
    findings = {id_: {"nibbles": values[id_], "selectors": {str(n): o for (of, n), o in outcomes.items() if of == id_}}
                for id_ in forms}  # fmt: skip
    hashed = ptx_hash([*(launch.kernel for launch in first.values()), *beyond.values()])
    return device, {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                    "ptx": hashed, "tcprobe": __version__}, findings  # fmt: skip


def _values(gpu: Loaded, forms: Forms, launches: Mapping[str, Launch]) -> dict[str, list[probe.Read]]:
    """By form what every value of four bits does; ProbeError where the compiler refuses a form that was measured."""
    for words in gpu.load([launch.kernel for launch in launches.values()]).values():
        raise ProbeError(one_line(words))
    return {id_: probe.decode_nibbles(*forms[id_], gpu.run([launch])[0]) for id_, launch in launches.items()}


def _outcomes(gpu: Loaded, index: int, kernels: Mapping[Case, Kernel]) -> dict[Case, dict[str, Any]]:
    """By form and undocumented selector what it leads to."""
    refused = gpu.load(list(kernels.values()))
    taken = [case for case, made in kernels.items() if made.name not in refused]
    with ThreadPoolExecutor(PROCESSES) as pool:
        ran = dict(zip(taken, pool.map(lambda case: apart(index, *case), taken), strict=True))
    return {case: ran.get(case) or _outcome("refused", refused[made.name]) for case, made in kernels.items()}


def apart(index: int, id_: str, selector: int) -> dict[str, Any]:
    """What a selector that the compiler takes does, in a process of its own."""
    command = worker.command("tcprobe.run.undocumented", str(index), id_, str(selector))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return _outcome("hangs", f"no answer in {LIMIT:.0f} s")
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2]
        return _outcome("fault", f"the process ended with code {children.lived(done.returncode)}: {last}")


def one(index: int, id_: str, selector: int) -> dict[str, Any]:
    """What a selector does, in this process, whose context it may cost."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(index)
    row, tables = measured(gpu.devices()[index].arch)[id_]
    launch = probe.selected(row, selector)
    refused = gpu.load([launch.kernel])
    if refused:
        return _outcome("refused", refused[launch.kernel.name])
    try:
        raw = gpu.run([launch])[0]
        same = probe.decode_selected(row, tables, raw, selector)
    except BackendFaultError as error:
        return _outcome("fault", str(error))
    except ProbeError as error:
        return _outcome("unsound", str(error))
    return _outcome("runs", "a map of its own" if same is None else "", same)


def _outcome(name: str, words: str, same: int | None = None) -> dict[str, Any]:
    return {"outcome": name, "words": one_line(words)[:MOST_WORDS], "as": same}


def survey(index: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What was found of one GPU, saved in a folder, and what to say of it; EnvironmentUnfitError without one."""
    from tcprobe.store.results import Results

    device, provenance, findings = on_gpu(index)
    body = document(device.arch, provenance, findings)
    UNDOCUMENTED.write(Results(folder), device.arch, body)
    return body, [f"{len(findings)} sparse multiplies beyond PTX's text",
                  f"{device.name} ({device.arch}): saved in {folder}; `tcprobe show` of metadata says it"]  # fmt: skip


if __name__ == "__main__":
    try:
        print(json.dumps(one(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
    except (TcprobeError, BackendFaultError) as error:
        print(f"Error: {error}", file=sys.stderr)
        raise SystemExit(getattr(error, "exit_code", 1)) from None
