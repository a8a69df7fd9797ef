"""The live measurement of tensor maps: where boxes lie in shared memory, and which maps the driver refuses.

`tcprobe run --family tma` copies every box of `probes.tensor_map_cases` both ways, fits the rule of each swizzle mode,
and compares what the driver says of maps with `references.shared_memory.tensor_map`. Boxes are copied in processes of
their own: one that faults or hangs is found by halves, and costs itself only. Those at misaligned addresses, which are
expected to fault, have a process each from the start.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tcprobe import __version__
from tcprobe.errors import EnvironmentUnfitError, named
from tcprobe.fit.boxes import PlacedBox, described, fit_boxes, misfits
from tcprobe.isa.tensor_map import DATA_TYPES, SWIZZLES
from tcprobe.probes.experiment import ptx_hash
from tcprobe.probes.tensor_map_cases import Encoding, all_boxes, boxes, encodings
from tcprobe.probes.tensor_maps import DIRECTIONS, BoxCase, kernel
from tcprobe.references.shared_memory.tensor_map import broken, refused
from tcprobe.run.backend import Device
from tcprobe.run.wire import receive
from tcprobe.store.tensor_maps import SURVEY
from tcprobe.system import children
from tcprobe.system.worker import command
from tcprobe.text import one_line

WHAT = "copies boxes by tensor maps"
COMMAND = command("tcprobe.run.tensor_map_worker")
LIMIT = 60.0  # seconds for a job
PROCESSES = 4
TAKEN = "CUDA_SUCCESS"
MODE_NAMES = {number: name for name, number in SWIZZLES.items()}
TYPE_NAMES = {number: name for name, (number, _) in DATA_TYPES.items()}
Range = tuple[int, int]  # of boxes: the first, and the one beyond the last
Answer = tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]


class BoxesLostError(Exception):
    """The process died, hung or lost its device; the message says how."""


@dataclass
class BoxSweep:
    """What was found: by number of the box what the driver says of its map, where it lies, and what went wrong."""

    device: Device | None = None
    maps: dict[int, str] = field(default_factory=dict)
    encodings: list[str] = field(default_factory=list)
    placed: dict[tuple[str, int], PlacedBox] = field(default_factory=dict)
    wrong: dict[tuple[str, int], str] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)

    def take(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Add what a process answered."""
        self.device = Device(**header["device"])
        self.maps |= {int(number): words for number, words in header["boxes"].items()}
        self.encodings = header["encodings"] or self.encodings
        for direction in DIRECTIONS:
            self.wrong |= {(direction, int(n)): words for n, words in header["wrong"][direction].items()}
            self.placed |= {(direction, n): box for n, box in _boxes_of(arrays[direction])}


def _boxes_of(flat: np.ndarray[Any, Any]) -> Iterator[tuple[int, PlacedBox]]:
    """The boxes of an array: number, where shared memory begins, rows, bytes of a row, addresses."""
    at = 0
    while at < len(flat):
        number, window, rows, width = (int(n) for n in flat[at : at + 4])
        addresses = flat[at + 4 : at + 4 + rows * width].reshape(rows, width).astype(np.int64)
        yield number, PlacedBox(window + all_boxes()[number].base, addresses)
        at += 4 + rows * width


def ask(job: Mapping[str, Any], command: tuple[str, ...] = COMMAND, limit: float = LIMIT) -> Answer:
    """What a process of its own answers; BoxesLostError, or the error that it met where nothing can run."""
    process = children.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        raw, _ = process.communicate(json.dumps(job).encode() + b"\n", timeout=limit)
    except subprocess.TimeoutExpired:
        raise BoxesLostError(f"no answer in {limit:g} s") from None
    finally:
        children.end(process)
        process.wait()
    message = receive(io.BytesIO(raw))
    if message is None:
        raise BoxesLostError(f"the process ended with code {children.lived(process.returncode)}")
    if "fault" in message[0]:
        raise BoxesLostError(message[0]["fault"])
    if "unfit" in message[0]:
        raise named(message[0]["error"])(message[0]["unfit"])
    return message


def follow(index: int, ask: Callable[[Mapping[str, Any]], Answer] = ask) -> BoxSweep:
    """Every box of a GPU; EnvironmentUnfitError without one."""

    def copy(part: Range) -> Answer:
        first, last = part
        return ask({"device": index, "first": first, "last": last, "encodings": first == 0})

    safe, every = len(boxes()), len(all_boxes())
    parts = [(0, safe), *((n, n + 1) for n in range(safe, every))]
    swept = BoxSweep()
    with children.threads(PROCESSES) as pool:
        _follow(swept, lambda part: pool.submit(copy, part), parts)
    if 0 in swept.faults and swept.device:  # and with it what the driver says of maps
        swept.take(*copy((0, 0)))
    if swept.device is None:
        raise EnvironmentUnfitError(f"no box could be copied: {next(iter(swept.faults.values()))}.")
    return swept


def _follow(swept: BoxSweep, submit: Callable[[Range], Future[Answer]], parts: Sequence[Range]) -> None:
    """Copy ranges of boxes, those that are lost again by halves."""
    futures = [submit(part) for part in parts]
    again: list[Range] = []
    for (first, last), future in zip(parts, futures, strict=True):
        try:
            swept.take(*future.result())
        except BoxesLostError as error:
            half = (first + last) // 2
            if last - first == 1:
                swept.faults[first] = one_line(str(error))
            else:
                again += [(first, half), (half, last)]
    if again:
        _follow(swept, submit, again)


def report(swept: BoxSweep) -> dict[str, Any]:
    """What is saved of a measurement, but its provenance."""
    cases = list(enumerate(all_boxes()))
    aligned = cases[: len(boxes())]
    return {
        "modes": {name: mode for name in SWIZZLES if (mode := _mode(swept, name, aligned))},
        "maps": _counted(swept, cases),
        "encodings": [_encoding(one, words)
                      for one, words in zip(encodings(), swept.encodings, strict=True)],
        "lost": [_case(cases[n][1]) | {"direction": way, "words": words} for (way, n), words in swept.wrong.items()],
        "faults": [_case(cases[n][1]) | {"words": words} for n, words in sorted(swept.faults.items())],
    }  # fmt: skip


def _mode(swept: BoxSweep, name: str, cases: list[tuple[int, BoxCase]]) -> dict[str, Any] | None:
    """The rule of a swizzle mode, fitted to loads and stores together; None where there is no box of it."""
    chosen = {n: case for n, case in cases if case.map.swizzle == SWIZZLES[name]}
    placed = {key: box for key, box in swept.placed.items() if key[1] in chosen}
    if not placed:
        return None
    best, second = fit_boxes(list(placed.values()))
    used = [chosen[n] for n in sorted({n for _, n in placed})]
    return {
        **described(best.rule), "misfits": len(best.misfits), "bytes": sum(b.addresses.size for b in placed.values()),
        **{f"{way}s": sum(key[0] == way for key in placed) for way in DIRECTIONS},
        "types": sorted({TYPE_NAMES[case.map.type] for case in used}),
        "widths": sorted({case.map.row_bytes for case in used}), "bases": sorted({case.base for case in used}),
        "ranks": sorted({case.map.rank for case in used}),
        "second": {**described(second.rule), "misfits": len(misfits(second.rule, list(placed.values())))},
    }  # fmt: skip


def _counted(swept: BoxSweep, cases: list[tuple[int, BoxCase]]) -> dict[str, Any]:
    """How many maps of boxes the driver took and refused, and those where the rules say otherwise."""
    made = [(case, swept.maps[n]) for n, case in cases if n in swept.maps]
    unlike = [_case(case) | {"result": words} for case, words in made if (words == TAKEN) == bool(refused(case.map))]
    taken = sum(words == TAKEN for _, words in made)
    return {"taken": taken, "refused": len(made) - taken, "unlike_rules": unlike}


def _encoding(one: Encoding, words: str) -> dict[str, Any]:
    """One call: what was varied, what the driver said, the rules that it breaks, and whether it fits them."""
    return {"argument": one.argument, "value": one.value, "result": words,
            "rules": [rule.name for rule in broken(one.map)],
            "fits": (words == TAKEN) != bool(refused(one.map))}  # fmt: skip


def _case(case: BoxCase) -> dict[str, Any]:
    made = case.map
    return {"type": TYPE_NAMES[made.type], "box": list(made.box), "swizzle": MODE_NAMES[made.swizzle],
            "base": case.base}  # fmt: skip


def survey(index: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What is saved of one GPU in a folder, and what to say of it; EnvironmentUnfitError where no box is copied."""
    from tcprobe.store.results import Results

    swept = follow(index)
    device = swept.device
    assert device is not None
    ranks = sorted({case.map.rank for case in all_boxes()})
    hashed = ptx_hash([kernel(direction, rank) for direction in DIRECTIONS for rank in ranks])
    provenance = {"device": device.name, "driver": device.driver, "cuda": device.cuda, "compiler": device.compiler,
                  "ptx": hashed, "tcprobe": __version__}  # fmt: skip
    body = {"arch": device.arch, "method": "live", "provenance": provenance, **report(swept)}
    path = SURVEY.write(Results(folder), device.arch, body)
    return body, [*_lines(body), f"{device.name} ({device.arch}): saved in {path}"]


def _lines(body: Mapping[str, Any]) -> Iterator[str]:
    for mode, row in body["modes"].items():
        b, m, s = row["swizzle"]
        pitch = "of a row" if row["pitch"] == "row" else row["pitch"]
        yield (f"SWIZZLE_{mode:5} rows {pitch} bytes apart, Sw<{b},{m},{s}>: {row['misfits']} of "
               f"{row['loads'] + row['stores']} boxes do not fit")  # fmt: skip
    refused_ones = [one for one in body["encodings"] if one["result"] != TAKEN]
    unlike = [one for one in body["encodings"] if not one["fits"]]
    yield (f"cuTensorMapEncodeTiled refuses {len(refused_ones)} of {len(body['encodings'])} maps, "
           f"{len(unlike)} unlike the rules")  # fmt: skip
    yield f"{len(body['lost'])} boxes lost, {len(body['faults'])} faults"
