"""A CUDA device function as text: its parameters with what each is, and the thread that runs it.

>>> from tcprobe.code.cuda import DeviceFunction, Parameter
>>> print(DeviceFunction("half", (Parameter("T (&x)[2]", "a lane's elements"),), ("x[1] = T(lane);",), 128))
template <class T>
__device__ inline void half(T (&x)[2], unsigned thread = threadIdx.x % 128) {
  // x: a lane's elements
  // thread: its number in the warpgroup; the default is for blocks of one dimension
  x[1] = T(thread);
}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.text import comment

LANE = ("unsigned lane;", 'asm("mov.u32 %0, %%laneid;" : "=r"(lane));')
_VARIABLE = re.compile(r"\blane\b")


def holder(threads: int) -> str:
    """What the number of one of so many threads is called: lane in a warp, thread in a warpgroup."""
    return "lane" if threads == WARP else "thread"


def of_holder(text: str, threads: int) -> str:
    """Code or a formula in `lane`, in what the number of the thread is called."""
    return _VARIABLE.sub(holder(threads), text)


def once(lines: Sequence[str]) -> list[str]:
    """Lines that count once, however many headers have the very same but for comments.

    What has the same name and says something else is an error of the compiler, not left out.
    """
    code = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
    guard = f"TCPROBE_{sha256(code.encode()).hexdigest()[:12]}"
    return [f"#ifndef {guard}", f"#define {guard}", *lines, "#endif"]


class Parameter(NamedTuple):
    """`declared` as in the head of the function, the comment `what` it is."""

    declared: str
    what: str

    @property
    def name(self) -> str:
        """Of the variable."""
        names: list[str] = re.findall(r"\w+", self.declared.partition("[")[0].partition("=")[0])
        return names[-1]


class DeviceFunction(NamedTuple):
    """A template over the type T of an element, for `threads` that hold a fragment; `body` counts them as `lane`."""

    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[str, ...]
    threads: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = ["template <class T>", self._head(), *(f"  {line}" for line in self._lines()), "}"]
        return "\n".join(lines)

    def _head(self) -> str:
        declared = ", ".join(parameter.declared for parameter in self._all_parameters())
        return f"__device__ inline void {self.name}({declared}) {{"

    def _lines(self) -> Iterator[str]:
        yield from (comment(f"// {note}") for note in self.notes)
        yield from (comment(f"// {parameter.name}: {parameter.what}") for parameter in self._all_parameters())
        yield from LANE if self._counts and self.threads == WARP else ()
        yield from (of_holder(line, self.threads) for line in self.body)

    def _all_parameters(self) -> tuple[Parameter, ...]:
        own = Parameter(
            f"unsigned thread = threadIdx.x % {self.threads}",
            "its number in the warpgroup; the default is for blocks of one dimension",
        )
        return (*self.parameters, own) if self._counts and self.threads != WARP else self.parameters

    @property
    def _counts(self) -> bool:
        """Whether the body needs the thread's number."""
        return any(_VARIABLE.search(line) for line in self.body)
