"""The emulation of a launch: buffers are placed, the kernel is compiled to steps, blocks run cluster after cluster."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from tcprobe.emulate.asynchronous import Flight, Flights
from tcprobe.emulate.boxes import MAP_BYTES, encode_map
from tcprobe.emulate.compiled import compile_function
from tcprobe.emulate.launch import BufferArgument, Launch, MapArgument, ScalarArgument
from tcprobe.emulate.machine import Machine, Shape
from tcprobe.emulate.memory import READ_ONLY, WRITTEN, GlobalMemory
from tcprobe.emulate.patterns import views_of
from tcprobe.emulate.ptx import Function, Module, Variable
from tcprobe.emulate.report import Report
from tcprobe.emulate.schedule import SCHEDULES, Scheduler
from tcprobe.emulate.watch import StoppedError
from tcprobe.errors import UsageError, check_choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from tcprobe.emulate.machine import Where
    from tcprobe.layout.arrays import Array

SIDE_BY_SIDE = 512  # threads of blocks that run as one vector
MOST = 100_000_000  # instructions of warps
POINTER = 8  # bytes


@dataclass(frozen=True)
class Options:
    """`most` instructions of warps; `arch` whose arithmetic it is, None: the text's target."""

    most: int = MOST
    arch: str | None = None
    schedule: str = "late"
    seed: int = 0


@dataclass
class Emulation:
    """What came of it: the report, and the buffers as they are after the kernel, in the order of the arguments."""

    report: Report
    buffers: list[Array | None]


def emulate(
    module: Module,
    launch: Launch,
    options: Options | None = None,
    watch: Callable[[Machine, int, Where], None] | None = None,
) -> Emulation:
    """Run a launch; UsageError where the text or the launch cannot be. `watch` is called before each statement."""
    options = options or Options()
    check_choice("schedule", options.schedule, SCHEDULES)
    if options.most < 1:
        raise UsageError(f"`most` {options.most}: 1 or more instructions.")
    kernel = module.kernel(launch.kernel)
    module = module.reached(kernel)
    shape = _shape(kernel, launch)
    memory, places, constants = _place(module, kernel, launch)
    report = Report()
    clusters = shape.grid[0] * shape.grid[1] * shape.grid[2] // shape.ranks
    together = max(1, min(clusters, SIDE_BY_SIDE // (shape.ranks * shape.threads)))
    machine = Machine(
        module, shape, memory, together, report, options.arch or module.target.rstrip("af"), views_of(module)
    )
    machine.places |= places
    machine.constants = constants
    random = Random(options.seed) if options.schedule == "random" else None
    flights = machine.flights = Flights(early=options.schedule == "early", random=random)
    flights.at_end.append(lambda left: _left_in_flight(machine, left))
    machine.restart(0)  # special registers exist from here on
    compile_function(kernel, machine)
    scheduler = Scheduler(machine, machine.code.steps, flights, options.most, options.seed if random else None)
    if watch is not None:
        scheduler.watch = lambda pc, where: watch(machine, pc, where)
    report.finished = True
    for first in range(0, clusters, together):
        machine.restart(first)
        try:
            report.finished = scheduler.run()
            if report.finished:
                machine.find_late_visits()
        except StoppedError:
            report.finished = False
        if not report.finished:
            break
    return Emulation(report, _buffers(memory, launch))


def _left_in_flight(machine: Machine, left: list[Flight]) -> None:
    """Findings for copies of blocks that have ended."""
    for flight in left:
        what = "still reads its shared memory" if flight.reads else "still writes its shared memory"
        machine.find("in-flight", flight.thread, f"the block ends while the copy {what}", flight.statement)


def _shape(kernel: Function, launch: Launch) -> Shape:
    """The launch's shape with the cluster that the kernel states; UsageError where they do not fit."""
    shape = launch.shape
    required = kernel.stated.get(".reqnctapercluster") or ()
    x, y, z = (*required, 1, 1, 1)[:3] if required else shape.cluster
    cluster = (x, y, z)
    if required and shape.cluster not in ((1, 1, 1), cluster):
        raise UsageError(f"the kernel has clusters of {list(cluster)}, the launch of {list(shape.cluster)}.")
    shape = shape._replace(cluster=cluster)
    if any(g % c for g, c in zip(shape.grid, cluster, strict=True)):
        raise UsageError(f"the grid {list(shape.grid)} is no multiple of the cluster {list(cluster)}.")
    most = kernel.stated.get(".maxntid") or kernel.stated.get(".reqntid")
    if most and shape.threads > int(np.prod(most)):
        raise UsageError(f"the block has {shape.threads} threads; the kernel takes {int(np.prod(most))} at most.")
    return shape


def _place(
    module: Module, kernel: Function, launch: Launch
) -> tuple[GlobalMemory, dict[str, tuple[str, int]], dict[str, bytes]]:
    """Global memory with all buffers, variables and parameters; where the variables are; the parameters' bytes."""
    given = _parameters(kernel, launch)
    variables = [
        v
        for v in [*module.variables.values(), *(v for f in module.functions.values() for v in f.variables.values())]
        if v.space in ("global", "const")
    ]
    buffers = [a for a in launch.arguments if isinstance(a, BufferArgument)]
    maps = _maps_behind_pointers(kernel, launch, given)
    sizes = [a.array.nbytes for a in buffers] + [v.size for v in variables] + [p.size for p in kernel.parameters]
    names = [f"the buffer of argument {n}" for n, a in enumerate(launch.arguments) if isinstance(a, BufferArgument)]
    names += [*(v.name for v in variables), *(p.name for p in kernel.parameters)]
    memory = GlobalMemory(sizes + [MAP_BYTES] * len(maps), names + [f"the map of argument {n}" for n in maps])
    of_argument: dict[int, int] = {}
    for number, argument in enumerate(launch.arguments):
        if isinstance(argument, BufferArgument):
            buffer = memory.buffers[len(of_argument)]
            of_argument[number] = buffer.address
            memory.fill(buffer, np.ascontiguousarray(argument.array).reshape(-1).view(np.uint8))
    for (number, tensor), buffer in zip(maps.items(), memory.buffers[len(sizes) :], strict=True):
        memory.fill(buffer, encode_map(tensor.map, of_argument[tensor.of]))
        of_argument[number] = buffer.address
    places = {}
    held = memory.buffers[len(buffers) : len(buffers) + len(variables)]
    addresses = {v.name: b.address for v, b in zip(variables, held, strict=True)}
    for variable, buffer in zip(variables, held, strict=True):
        data = np.frombuffer(variable.initial[: variable.size].ljust(variable.size, b"\0"), np.uint8).copy()
        for offset, name, added in variable.addresses:
            data[offset : offset + 8] = np.frombuffer((addresses.get(name, 0) + added).to_bytes(8, "little"), np.uint8)
        memory.fill(buffer, data, READ_ONLY if variable.space == "const" else WRITTEN)
        places[variable.name] = (variable.space, buffer.address)
    constants = {}
    for number, parameter, buffer in zip(
        given, kernel.parameters, memory.buffers[len(buffers) + len(variables) : len(sizes)], strict=True
    ):
        raw = _bytes(launch, of_argument, parameter, number)
        constants[parameter.name] = raw
        memory.fill(buffer, raw, READ_ONLY)
        places[parameter.name] = ("param", buffer.address)
    return memory, places, constants


def _maps_behind_pointers(kernel: Function, launch: Launch, given: list[int]) -> dict[int, MapArgument]:
    """By the argument's number the maps that lie in global memory: the kernel takes their addresses."""
    return {
        number: argument
        for number, parameter in zip(given, kernel.parameters, strict=True)
        if isinstance(argument := launch.arguments[number], MapArgument) and parameter.size == POINTER
    }


def _parameters(kernel: Function, launch: Launch) -> list[int]:
    """The numbers of the arguments that the kernel takes; others are buffers that maps or structs lead to."""
    count, arguments = len(kernel.parameters), launch.arguments
    if len(arguments) > count and all(isinstance(a, BufferArgument) for a in arguments[count:]):
        return list(range(count))
    reached = {a.of for a in arguments if isinstance(a, MapArgument)}
    structs = [argument for argument in arguments if isinstance(argument, ScalarArgument)]
    reached |= {n for struct in structs for n in (*struct.pointers.values(), *struct.maps.values())}
    given = [n for n in range(len(arguments)) if len(arguments) == count or n not in reached]
    if len(given) != count and all(isinstance(a, BufferArgument | MapArgument) for a in arguments[count:]):
        given = list(range(min(count, len(arguments))))
    if len(given) != count:
        raise UsageError(f"{kernel.name} has {count} parameters; the launch has {len(arguments)} arguments.")
    return given


def _bytes(launch: Launch, addresses: dict[int, int], parameter: Variable, number: int) -> bytes:
    """A parameter's bytes; UsageError where the argument has another size."""
    argument = launch.arguments[number]
    if number in addresses:
        raw = addresses[number].to_bytes(POINTER, "little")
    elif isinstance(argument, MapArgument):
        raw = encode_map(argument.map, addresses[argument.of])
    else:
        assert isinstance(argument, ScalarArgument)
        held = bytearray(argument.raw)
        for offset, index in argument.pointers.items():
            held[offset : offset + 8] = addresses[index].to_bytes(8, "little")
        for offset, index in argument.maps.items():
            inside = launch.arguments[index]
            assert isinstance(inside, MapArgument)
            held[offset : offset + MAP_BYTES] = encode_map(inside.map, addresses[inside.of])
        raw = bytes(held)
    if len(raw) != parameter.size:
        raise UsageError(
            f"argument {number} has {len(raw)} bytes; the parameter {parameter.name[:60]} has {parameter.size}."
        )
    return raw


def _buffers(memory: GlobalMemory, launch: Launch) -> list[Array | None]:
    """What the buffers of the arguments hold, as arrays of the arguments' types."""
    held = iter(memory.buffers)
    made: list[Array | None] = []
    for argument in launch.arguments:
        if isinstance(argument, BufferArgument):
            made.append(memory.view(next(held)).view(argument.array.dtype).reshape(argument.array.shape))
        else:
            made.append(None)
    return made
