"""Target: the least PTX target and PTX ISA version of a form.

>>> from tcprobe.isa.arch import arch
>>> from tcprobe.isa.target import Target
>>> Target("sm_120a", "8.7", (("sm_120f", "8.8"),)).on(arch("sm_121"))
('sm_120f', '8.8')
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tcprobe.errors import RowError
from tcprobe.isa import arch


@cache
def version(text: str) -> tuple[int, int]:
    """A PTX ISA version "8.7" as (8, 7); RowError if it is not one."""
    if not re.fullmatch(r"[0-9]+\.[0-9]+", text):
        raise RowError(f"{text!r} is not a PTX ISA version such as 7.0.")
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Target:
    """Least PTX target and PTX ISA version; `others` are further targets, each with its own version.

    Versions are the least that ptxas takes; `stated` is the one that PTX ISA states, where that is another.
    """

    name: str
    ptx: str
    others: tuple[tuple[str, str], ...] = ()
    stated: str | None = None

    def __post_init__(self) -> None:
        for name, ptx in (*self.options, *([(self.name, self.stated)] if self.stated else [])):
            if not arch.is_target(name):
                raise RowError(f"{name!r} is not a PTX target of a GPU with tensor cores.")
            least = arch.least_ptx(name)
            if version(ptx) < version(least):
                raise RowError(f"PTX {ptx} does not know {name}, which came with PTX {least}.")

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """All (target, PTX version) pairs under which the form is allowed."""
        return ((self.name, self.ptx), *self.others)

    def stated_for(self, name: str, ptx: str) -> str | None:
        """The PTX version that PTX ISA states for an option, where it is not the one that ptxas takes."""
        stated = max(self.stated or ptx, arch.least_ptx(name), key=version)
        return stated if stated != ptx else None

    def at_least(self, ptx: str) -> Target:
        """The same target with a PTX version not below `ptx`."""
        (name, least), *others = ((name, max(own, ptx, key=version)) for name, own in self.options)
        return target(name, least, tuple(others), self.stated)

    def alone(self, name: str) -> Target:
        """Target `name` and no other, with a PTX version that knows both."""
        return target(name, max(self.ptx, arch.least_ptx(name), key=version))

    def on(self, device: arch.Arch) -> tuple[str, str] | None:
        """The (target, PTX version) to compile with for `device`, None where the form is not allowed."""
        return next((option for option in self.options if arch.runs(device, option[0])), None)

    def own(self, device: arch.Arch) -> str:
        """The device's own target to compile with: that of `on`, the plain one where the form is not allowed."""
        option = self.on(device)
        return arch.own(device, option[0]) if option else device.name

    def every(self, device: arch.Arch) -> tuple[str, ...]:
        """All of the device's own targets for which the form can be compiled, the least first."""
        return tuple(own for own in device.targets if any(arch.covers(own, name) for name, _ in self.options))


target = cache(Target)  # many forms have the same one


def read_target(cell: str) -> Target:
    """The target of a table's cell: sm_120a:8.7|sm_120f:8.8, and |stated:8.8 for what PTX ISA states; RowError."""
    options = [tuple(part.split(":")) for part in cell.split("|")]
    if any(len(option) != 2 for option in options):
        raise RowError("expected targets with PTX versions, such as sm_120a:8.7|sm_120f:8.8.")
    stated = options.pop()[1] if options[-1][0] == "stated" else None
    if not options:
        raise RowError("expected a target before what is stated, such as sm_120a:8.7.")
    (name, ptx), *others = options
    return target(name, ptx, tuple(others), stated)
