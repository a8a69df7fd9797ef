"""The process that owns the GPU while boxes are copied: `python -m tcprobe.run.tensor_map_worker`. It can be lost.

It takes one job from standard input, {"device": N, "first": number, "last": number, "encodings": bool}, copies those
boxes both ways and answers with one message of `run.wire`: what the device is, what the driver says of the maps, and of
each box and direction the addresses, as one array a direction, or what is wrong with them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol

from tcprobe.run import driver

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tcprobe.probes.ptx import Bytes, Kernel, Launch
    from tcprobe.probes.tensor_maps import BoxCase
    from tcprobe.references.shared_memory.tensor_map import TensorMap
    from tcprobe.run.backend import Device

ADDRESS = 1 << 12  # where the tensors of encodings are said to be; nobody goes there


class Copier(Protocol):
    """What the measurement asks of a GPU."""

    def devices(self) -> list[Device]:
        """All devices."""

    def open(self, index: int) -> None:
        """Make one the current one."""

    def encoded(self, made: TensorMap) -> str:
        """What the driver says of a map: CUDA_SUCCESS."""

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile; the refused kernels by name, with the compiler's words."""

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches."""


def work(copier: Copier, job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The answer to a job: header and arrays; EnvironmentUnfitError without a GPU, BackendFaultError if it is lost."""
    from tcprobe.probes.tensor_map_cases import all_boxes, encodings

    copier.open(job["device"])
    cases = dict(list(enumerate(all_boxes()))[job["first"] : job["last"]])
    said = {number: copier.encoded(case.map) for number, case in cases.items()}
    taken = {number: case for number, case in cases.items() if said[number] == "CUDA_SUCCESS"}
    arrays, wrong = _copied(copier, taken)
    device = copier.devices()[job["device"]].to_json()
    maps = [copier.encoded(one.map) for one in encodings()] if job["encodings"] else []
    return {"device": device, "boxes": {str(n): words for n, words in said.items()}, "encodings": maps,
            "wrong": wrong}, arrays  # fmt: skip


def _copied(
    copier: Copier, cases: dict[int, BoxCase]
) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, str]]]:  # fmt: skip
    """The addresses of all boxes by direction, one after the other, and what is wrong with those left out."""
    import numpy as np

    from tcprobe.errors import ProbeError
    from tcprobe.probes.tensor_maps import DIRECTIONS, decode, is_rounded, kernel, launches, window_of

    kinds = sorted({(case.map.rank, is_rounded(case)) for case in cases.values()})
    refused = copier.load([kernel(way, rank) for way in DIRECTIONS for rank in sorted({rank for rank, _ in kinds})])
    if refused:
        raise ProbeError(f"tensor maps: {next(iter(refused.values()))}")
    arrays: dict[str, list[np.ndarray[Any, Any]]] = {direction: [] for direction in DIRECTIONS}
    wrong: dict[str, dict[str, str]] = {direction: {} for direction in DIRECTIONS}
    for rank, rounded in kinds:
        some = {n: case for n, case in cases.items() if (case.map.rank, is_rounded(case)) == (rank, rounded)}
        window = 0
        for direction in DIRECTIONS:
            read = copier.run(launches(direction, rank, list(some.values())))
            window = window_of(read) if direction == "load" else window
            addresses = decode(direction, list(some.values()), read, window)
            for number, one in zip(some, addresses, strict=True):
                if isinstance(one, str):
                    wrong[direction][str(number)] = one
                    continue
                arrays[direction].append(np.array([number, window, *one.shape, *one.ravel()], np.int32))
    return {direction: np.concatenate([np.zeros(0, np.int32), *parts]) for direction, parts in arrays.items()}, wrong


def serve(make: Callable[[], Copier], source: IO[bytes], sink: IO[bytes], exits: bool = False) -> None:
    """Answer one job on what `make` makes, and end the process if it `exits`; an error is a message too."""
    from tcprobe.errors import TcprobeError
    from tcprobe.run.backend import BackendFaultError
    from tcprobe.run.wire import send

    lost: list[Copier] = []  # is kept: to take a lost device apart prints a lot
    try:
        lost.append(make())
        send(sink, *work(lost[0], json.loads(source.readline())))
    except BackendFaultError as error:
        send(sink, {"fault": str(error)})
    except TcprobeError as error:
        send(sink, {"unfit": str(error), "error": type(error).__name__})
    if lost and exits:
        os._exit(0)  # the context dies with the process; tearing it down in order takes longer


def main() -> None:
    """Serve on standard input and output; all else that prints goes to stderr."""
    threading.Thread(target=driver.wake, daemon=True).start()
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    from tcprobe.run.gpu import Gpu

    class Copying(Gpu):
        """A GPU that also says what the driver does with a map."""

        def encoded(self, made: TensorMap) -> str:
            return driver.result_name(driver.encoded(made, ADDRESS)[0])

    serve(Copying, sys.stdin.buffer, sink, exits=True)


if __name__ == "__main__":
    main()
