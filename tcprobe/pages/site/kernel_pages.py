"""The pages of a kernel: its code, the way of an element through it, and its multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tcprobe.pages.site import addresses
from tcprobe.pages.site.facts import Facts, for_every_n

if TYPE_CHECKING:
    from tcprobe.kernel.gemm import GemmKernel


class KernelPages(NamedTuple):
    """A kernel by its arch and type, the command that prints it, and its pages: code and the way of an element."""

    kernel: GemmKernel
    arch: str
    type: str

    @property
    def command(self) -> str:
        """As in a shell."""
        return f"tcprobe kernel gemm --arch {self.arch} --type {self.type}"

    @property
    def head(self) -> str:
        """In words."""
        return f"{self.type} on {self.arch}"

    @property
    def code(self) -> str:
        """The page of its code."""
        return f"recipes/kernel-{self.arch}-{self.type}.html"

    @property
    def way(self) -> str:
        """The page that follows an element through it."""
        return f"path/{self.arch}-{self.type}.html"


def multiply(facts: Facts, kernel_pages: KernelPages) -> list[tuple[str, str]]:
    """The page of the multiply of a kernel, on its arch and for its N."""
    row = kernel_pages.kernel.gemm.instruction
    name = facts.page_names.get(row.id, "")
    n = f"&n={row.shape.n}" if name == for_every_n(row.id, row.shape) != row.id else ""
    return [(row.id, f"{addresses.instruction(name)}?arch={kernel_pages.arch}{n}")] if name else []
