"""What a GPU does with sparse multiplies that PTX does not document: illegal metadata, and selectors beyond the last.

    python -m tcprobe.run.undocumented [--device N] [--results FOLDER]

prints one JSON object, as `ask.undocumented` reads it; with --results it is saved as well. What ptxas takes may stop
the GPU's context, so each selector runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from tcprobe import __version__
from tcprobe.ask.undocumented import document
from tcprobe.errors import ProbeError, TcprobeError
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.table import Table
from tcprobe.probes import sparse_undocumented as probe
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.sparse import kernel
from tcprobe.run.backend import BackendFaultError, Device
from tcprobe.store.cell import operands
from tcprobe.store.results import published
from tcprobe.text import one_line

LIMIT = 60.0  # seconds for one selector
PROCESSES = 4
MOST_WORDS = 200
Forms = Mapping[str, Mapping[str, Any]]


def measured(name: str) -> dict[str, tuple[Instruction, dict[str, Table]]]:
    """The sparse multiplies of an arch whose tables are published, with them, by id."""
    layers, found = published(), {}
    for row in inventory.instructions().values():
        if row.metadata and row.target.on(arch(name)) and layers.measurement(name, "live", row.id):
            tables = {operand: cell.table for operand, cell in operands(row, name, layers).items()}
            found[row.id] = (row, tables)
    return found


def on_gpu(index: int) -> tuple[Device, dict[str, str], dict[str, dict[str, Any]]]:
    """(device, provenance, findings by form) of one GPU; EnvironmentUnfitError without one."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(index)
    device = gpu.devices()[index]
    forms = measured(device.arch)
    if not forms:
        raise ProbeError(f"no sparse multiply of {device.arch} is published: `tcprobe run` measures them first.")
    first = [probe.nibbles(row) for row, _ in forms.values()]
    cases = [(row, number) for row, _ in forms.values() for number in probe.undocumented(row)]
    beyond = {(row.id, number): kernel(row, number) for row, number in cases}
    refused = gpu.load([launch.kernel for launch in first])
    found: dict[str, dict[str, Any]] = {}
    for launch, (row, tables) in zip(first, forms.values(), strict=True):
        if launch.kernel.name in refused:
            raise ProbeError(f"{row.id}: {one_line(refused[launch.kernel.name])}")
        found[row.id] = {"nibbles": probe.decode_nibbles(row, tables, gpu.run([launch])[0]), "selectors": {}}
    refused = gpu.load(list(beyond.values()))
    taken = [key for key, made in beyond.items() if made.name not in refused]
    with ThreadPoolExecutor(PROCESSES) as pool:
        outcomes = dict(zip(taken, pool.map(lambda key: apart(index, *key), taken), strict=True))
    for (id_, number), made in beyond.items():
        words = one_line(refused.get(made.name, ""))[:MOST_WORDS]
        found[id_]["selectors"][str(number)] = outcomes.get((id_, number)) or _outcome("refused", words)
    hashed = ptx_hash([*(launch.kernel for launch in first), *beyond.values()])
    return device, {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                    "ptx": hashed, "tcprobe": __version__}, found  # fmt: skip


def apart(index: int, id_: str, selector: int) -> dict[str, Any]:
    """What a selector that the compiler takes does, in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--device", str(index), "--one", id_, str(selector)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return _outcome("hangs", f"no answer in {LIMIT:.0f} s")
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        last = one_line(done.stderr.strip().rpartition("\n")[2])[:MOST_WORDS]
        return _outcome("fault", f"the process ended with code {done.returncode}: {last}")


def one(index: int, id_: str, selector: int) -> dict[str, Any]:
    """What a selector does, in this process, whose context it may cost."""
    from tcprobe.run.gpu import Gpu

    gpu = Gpu()
    gpu.open(index)
    row, tables = measured(gpu.devices()[index].arch)[id_]
    launch = probe.selected(row, selector)
    refused = gpu.load([launch.kernel])
    if refused:
        return _outcome("refused", one_line(refused[launch.kernel.name])[:MOST_WORDS])
    try:
        raw = gpu.run([launch])[0]
        same = probe.decode_selected(row, tables, raw, selector)
    except BackendFaultError as error:
        return _outcome("fault", one_line(str(error))[:MOST_WORDS])
    except ProbeError as error:
        return _outcome("unsound", one_line(str(error))[:MOST_WORDS])
    return _outcome("runs", "a map of its own" if same is None else "", same)


def _outcome(name: str, words: str, same: int | None = None) -> dict[str, Any]:
    return {"outcome": name, "words": words, "as": same}


@click.command()
@click.option("--device", "index", type=int, default=0, show_default=True, metavar="N", help="GPU number N.")
@click.option("--results", "folder", type=click.Path(path_type=Path, file_okay=False), help="Save it here.")
@click.option("--one", "case", type=(str, int), hidden=True)
def main(index: int, folder: Path | None, case: tuple[str, int] | None) -> None:
    """Find out what a GPU does with illegal metadata and undocumented selectors of sparse multiplies."""
    from tcprobe.store.results import Results

    try:
        if case:
            click.echo(json.dumps(one(index, *case)))
            return
        device, provenance, found = on_gpu(index)
        body = document(device.arch, provenance, found)
        click.echo(json.dumps(body))
        if folder:
            Results(folder).write_undocumented(device.arch, body)
    except (TcprobeError, BackendFaultError) as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(getattr(error, "exit_code", 1)) from None


if __name__ == "__main__":
    main()
