"""Two compilers compared: machine code is read with the tools of two folders, arch by arch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tcprobe.ask.diff import Difference, arch_by_arch
from tcprobe.errors import UsageError
from tcprobe.run.campaign import Campaign, Request
from tcprobe.store.choose import Layer, Layers
from tcprobe.store.results import Results
from tcprobe.system.children import Scratch


def compilers(cuda: Sequence[Path], name: str | None, patterns: Sequence[str] = ()) -> Iterator[Difference]:
    """How the machine code of two toolkits differs, for arch `name` or for all archs that both know.

    UsageError unless there are two.
    """
    if len(cuda) != 2:
        raise UsageError("give two archs, two folders of results, or `cuda` twice.")
    with Scratch() as scratch:
        sides = [_read_machine_code(scratch.folder / str(number), tools, name) for number, tools in enumerate(cuda)]
        yield from arch_by_arch((sides[0], sides[1]), None, patterns)


def _read_machine_code(root: Path, cuda: Path, name: str | None) -> Layers:
    results = Results(root)
    request = Request(name=name, method="sass", cuda=cuda)
    Campaign(request, root, lambda text: print(text, file=sys.stderr)).run(None)
    return Layers([Layer(results, str(cuda), str(cuda))])
