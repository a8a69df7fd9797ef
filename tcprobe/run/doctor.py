"""What tcprobe finds on this machine: Python, CuPy, driver, GPUs, ptxas, nvdisasm, and the archs that they allow."""

from __future__ import annotations

import importlib.metadata
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tcprobe.errors import TcprobeError
from tcprobe.isa.arch import ARCHS, Arch, arch
from tcprobe.run.backend import Worker
from tcprobe.sass import toolchain

LIMIT = 20.0  # seconds for one call of a tool, here only for its version


@dataclass(frozen=True)
class Part:
    """One finding, one object per line: what, whether it is there, and the version, or what to do about it."""

    what: str
    there: bool
    words: str


def examine(cuda: Path | None = None) -> Iterator[Part]:
    """All parts; each depends on those before it."""
    yield Part("Python", True, sys.version.split()[0])
    yield _cupy()
    from tcprobe.run.runner import Session

    try:
        with Session(Worker()) as session:
            for device in session.devices:
                words = f"{device.name}, {device.arch}, driver {device.driver}, CUDA {device.cuda}"
                yield Part(f"GPU {device.index}", True, words)
                yield Part(f"new from GPU {device.index}", True, new_words(arch(device.arch)))
    except TcprobeError as error:
        yield Part("GPU", False, str(error))
    yield from _tools(cuda)


def _cupy() -> Part:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        try:
            return Part("CuPy", True, f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return Part("CuPy", False, "pip install 'tcprobe[cuda13]' (driver 580 or later) or 'tcprobe[cuda12]'")


def new_words(device: Arch) -> str:
    """What `tcprobe run` would add on an arch to the published live measurements, by family, in words."""
    from tcprobe.probes import dialogues, experiments
    from tcprobe.store import findings
    from tcprobe.store.kinds.tensor_memory import KIND
    from tcprobe.store.results import published

    measured = {m.experiment for m in published().measurements(device.name, "live") if m.status == "measured"}
    counts = Counter(
        probe.group
        for probe in experiments().values()
        if "live" in probe.methods and probe.id not in measured and all(f.target.on(device) for f in probe.fragments)
    )
    placed = {f.subject for f in findings.every(published(), KIND, device.name) if f.status == "measured"}
    unknown = [id_ for id_, dialogue in dialogues(KIND).items() if dialogue.target.on(device) and id_ not in placed]
    if not counts and not unknown:
        return f"nothing: every table of {device.name} is published, measured live; a run would confirm it"
    families = ", ".join(f"{name} {count}" for name, count in counts.items())
    and_places = f" and {len(unknown)} places of operands in tensor memory" if unknown else ""
    return (
        f"{counts.total()} tables ({families}){and_places} that nobody measured live on {device.name}; `tcprobe run` "
        "measures them"
    )


def _tools(cuda: Path | None) -> Iterator[Part]:
    try:
        tools = toolchain.find(cuda, LIMIT)
    except TcprobeError as error:
        yield Part("machine code", False, str(error))
        return
    yield Part("ptxas", True, f"{tools.ptxas_version} ({tools.ptxas})")
    yield Part("nvdisasm", True, f"{tools.nvdisasm_version} ({tools.nvdisasm})")
    arch_names = [row.name for row in tools.archs]
    yield Part("archs from machine code", True, ", ".join(arch_names))
    missing = [row for row in ARCHS if row.name not in arch_names]
    if missing:
        names = ", ".join(row.name for row in missing)
        hint = "ptxas below 13" if all(row.number < 75 for row in missing) else "ptxas 13 or later"
        yield Part("archs that this ptxas lacks", False, f"{names}: name a CUDA toolkit with {hint} by --cuda FOLDER")
