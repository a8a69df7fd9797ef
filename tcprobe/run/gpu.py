"""The live GPU through CuPy; PTX is compiled by the driver, so no toolkit is needed, or by a ptxas.

The only file that imports CuPy. Runs inside `worker`, in a process that may be lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tcprobe.errors import EnvironmentUnfitError, ProbeError, UsageError
from tcprobe.isa import arch
from tcprobe.isa.arch import WARP, version
from tcprobe.layout.arrays import Array, Bytes
from tcprobe.probes.experiment import TimedCode
from tcprobe.probes.ptx import POISON, Kernel, Launch, blame, module
from tcprobe.references.shared_memory.tensor_map import TensorMap
from tcprobe.run import driver
from tcprobe.run.backend import OUTPUTS_KEPT, BackendFaultError, BackendHangError, Device
from tcprobe.system.children import Pool, one_line

if TYPE_CHECKING:  # most runs leave it to the driver
    from tcprobe.sass.toolchain import Ptxas

INSTALL = "Install CuPy for your driver: pip install 'tcprobe[cuda13]' (driver 580 or later) or 'tcprobe[cuda12]'."
NVRTC = "Install it with the CUDA toolkit, or: pip install 'cupy-cuda13x[ctk]' (or 'cupy-cuda12x[ctk]')."
LEAST_PINNED = 1 << 20
MOST_SECONDS = 5.0  # for a launch, which takes milliseconds
PAUSE = 1e-4  # seconds between two looks at what runs
CORES = os.cpu_count() or 1
COMPILERS = min(12, CORES - CORES // 4)  # each takes some 30 MB; all cores are no faster, for others work meanwhile
READERS = max(1, min(4, CORES // 4))  # of machine code: what one reads takes some 20 MB
TOGETHER = 4  # kernels in a module
READ_TOGETHER = 1 << 19  # bytes of machine code for one nvdisasm, which takes as long to start as to read so many
SHARED_UNASKED = 48 << 10  # bytes of shared memory that a block may have without asking
CXX = ("-std=c++17",)
NOWHERE = 1 << 12  # an address that is encoded only
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Gpu:
    """One GPU. `load` before `run`. A `ptxas` replaces the driver's compiler of PTX."""

    def __init__(self, ptxas: Ptxas | None = None) -> None:
        try:
            import cupy
        except ImportError as error:
            raise EnvironmentUnfitError(f"CuPy cannot be imported ({error}). {INSTALL}") from None
        self.cupy: Any = cupy
        self._ptxas = ptxas
        self._functions: dict[str, Any] = {}
        self._compilers = Pool(COMPILERS)
        self._readers = Pool(READERS)
        self._raw: dict[str, bytes] = {}
        self._timed_code: dict[str, TimedCode] = {}
        self._arch: arch.Arch | None = None
        self._index = 0
        self._memory: Any = None
        self._hosts: list[Any] = [None] * OUTPUTS_KEPT

    @contextmanager
    def faults(self) -> Iterator[None]:
        """A context in which errors of the device become ProbeError."""
        cuda = self.cupy.cuda
        try:
            yield
            cuda.runtime.deviceSynchronize()
        except (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError, cuda.cublas.CUBLASError) as error:
            raise ProbeError(f"the GPU reported an error: {error}.") from None
        except cuda.memory.OutOfMemoryError as error:
            raise EnvironmentUnfitError(f"too little memory on the GPU: {error}. Use a smaller `size`.") from None

    def devices(self) -> list[Device]:
        """Visible GPUs in CUDA's order (CUDA_VISIBLE_DEVICES applies)."""
        runtime = self.cupy.cuda.runtime
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            raise EnvironmentUnfitError(_no_device(str(error))) from None
        if not count:
            raise EnvironmentUnfitError(_no_device("no GPU is visible"))
        cuda, display = runtime.driverGetVersion(), driver.version()
        return [self._device(index, cuda, display) for index in range(count)]

    def _device(self, index: int, cuda: int, display: str) -> Device:
        properties = self.cupy.cuda.runtime.getDeviceProperties(index)
        name = properties["name"].decode(errors="replace")
        number = f"sm_{properties['major'] * 10 + properties['minor']}"
        text = f"{cuda // 1000}.{cuda % 1000 // 10}"
        compiler = self._ptxas.name if self._ptxas else f"driver's PTX compiler, CUDA {text}"
        return Device(index, name, number, display, text, compiler)

    def open(self, index: int) -> None:
        """Create the context of device `index`."""
        devices = self.devices()
        if not 0 <= index < len(devices):
            visible = ", ".join(f"{device.index} ({device.name})" for device in devices)
            raise UsageError(f"there is no device {index}; visible: {visible}.")
        opened = devices[index]
        self._arch, self._index = arch.arch(opened.arch), index
        if self._ptxas:
            self._ptxas.require(self._arch)
        try:
            self.cupy.cuda.Device(index).use()
            self.cupy.cuda.runtime.free(0)
        except self.cupy.cuda.runtime.CUDARuntimeError as error:
            raise EnvironmentUnfitError(f"GPU {index} ({opened.name}) cannot create a context: {error}.") from None

    def shared_bytes(self) -> int:
        """Bytes of shared memory that an SM of the open device has."""
        return int(self.cupy.cuda.runtime.getDeviceProperties(self._index)["sharedMemPerMultiprocessor"])

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """The opcodes that a loaded kernel times, from its cubin."""
        return self._timed_code[kernel.name]

    def map_result(self, tensor_map: TensorMap) -> str:
        """The name of the driver's result code for a tensor map at an address that nothing reads."""
        return driver.result_name(driver.encode_map(tensor_map, NOWHERE)[0])

    def load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile all kernels, TOGETHER in a module, COMPILERS modules at a time; gives why by refused name.

        Each form that the arch lacks is in a module of its own: the header of another form might let it pass.
        """
        kinds = product((True, False), repeat=3)
        groups = [[kernel for kernel in kernels if self._kind(kernel) == kind] for kind in kinds]
        parts = [group[start : start + TOGETHER] for group in groups for start in range(0, len(group), TOGETHER)]
        refused: dict[str, str] = {}
        for refusals in self._compilers.map(self._load, parts):
            refused |= refusals
        self._read({k.name: self._raw.pop(k.name) for k in kernels if k.name in self._raw})
        return refused

    def _kind(self, kernel: Kernel) -> tuple[bool, bool, bool]:
        """What kernels of one module have in common: whether the arch has the form, and how it is compiled."""
        assert self._arch is not None
        return bool(kernel.target.on(self._arch)), kernel.optimised, kernel.read

    def unload(self, names: Iterable[str]) -> None:
        """Forget kernels; a module and its memory are freed with its last function."""
        for name in names:
            self._functions.pop(name, None)
            self._timed_code.pop(name, None)

    def _read(self, binaries: Mapping[str, bytes]) -> None:
        """The opcodes that kernels time, from their machine code, READ_TOGETHER bytes at a time."""
        from tcprobe.sass.cubin import timed_codes

        def read(batch: dict[str, bytes]) -> dict[str, TimedCode]:
            assert self._arch is not None
            return timed_codes(batch, self._arch)

        ends = np.cumsum([len(code) for code in binaries.values()], dtype=np.int64)
        batches: dict[int, dict[str, bytes]] = {}
        for (name, code), end in zip(binaries.items(), ends.tolist(), strict=True):
            batches.setdefault(end // READ_TOGETHER, {})[name] = code
        for codes in self._readers.map(read, list(batches.values())):
            self._timed_code |= codes

    def _load(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Compile kernels in one module; without those that the driver refuses, compile again."""
        ordered = sorted(kernels, key=lambda k: version(k.target.ptx))
        log = self._load_module(ordered) if ordered else None
        if log is None:
            return {}
        blamed = blame(log, ordered)
        if not blamed and len(ordered) == 1:
            return {ordered[0].name: one_line(log)}
        if not blamed:
            half = len(ordered) // 2
            return self._load(ordered[:half]) | self._load(ordered[half:])
        return blamed | self._load([k for k in ordered if k.name not in blamed])

    def compile_cuda(
        self, text: str, names: Sequence[str], target: str | None = None, flags: tuple[str, ...] = CXX
    ) -> None:
        """Compile CUDA C++ by NVRTC for the open device, or for a PTX target such as sm_90a; `call` runs `names`.

        EnvironmentUnfitError if there is no NVRTC, ProbeError with the log if it does not compile.
        """
        self.cupy.cuda.Device(self._index).use()  # this may be another thread than `open`'s
        try:
            module = self._for_target(text, target, flags) if target else self.cupy.RawModule(code=text, options=flags)
            self._functions |= {name: module.get_function(name) for name in names}
        except self.cupy.cuda.compiler.CompileException as error:
            raise ProbeError(f"the emitted code does not compile: {error}") from None
        except (RuntimeError, ImportError, OSError) as error:
            raise EnvironmentUnfitError(f"NVRTC is needed, and CuPy cannot use it: {error}. {NVRTC}") from None

    def _for_target(self, text: str, target: str, flags: tuple[str, ...]) -> Any:
        """The module, compiled for a target that CuPy would not choose; CompileException with the log."""
        nvrtc = self.cupy.cuda.nvrtc
        program = nvrtc.createProgram(text, "tcprobe.cu", (), ())
        try:
            nvrtc.compileProgram(program, (*flags, f"-arch={target}"))
            machine_code = nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError:
            log = nvrtc.getProgramLog(program)
            raise self.cupy.cuda.compiler.CompileException(log, text, "tcprobe.cu", flags, "nvrtc") from None
        finally:
            nvrtc.destroyProgram(program)
        module = self.cupy.cuda.function.Module()
        module.load(machine_code)
        return module

    def compile(self, text: str, name: str, target: str, shared: int, flags: tuple[str, ...] = CXX) -> Any:
        """A function of CUDA C++ for a PTX target, with up to `shared` bytes when called; errors as `compile_cuda`."""
        self.compile_cuda(text, [name], target, flags)
        function = self._functions[name]
        self.cupy.cuda.driver.funcSetAttribute(function.ptr, MAX_DYNAMIC_SHARED, shared)
        return function

    def call(
        self, name: str, blocks: int, inputs: Sequence[Array], destination: Array, each: tuple[int, int] = (WARP, 0)
    ) -> None:
        """Fill `destination`: run `name`(inputs..., destination), `each` block with threads and bytes of shared memory.

        BackendFaultError if the device is lost.
        """
        runtime, (threads, shared) = self.cupy.cuda.runtime, each
        try:
            arrays = [self.cupy.asarray(array) for array in inputs]
            result = self.cupy.zeros_like(self.cupy.asarray(destination))
            if shared > SHARED_UNASKED:
                self.cupy.cuda.driver.funcSetAttribute(self._functions[name].ptr, MAX_DYNAMIC_SHARED, shared)
            self._functions[name]((blocks,), (threads,), (*arrays, result), shared_mem=shared)
            destination[...] = result.get()
        except (runtime.CUDARuntimeError, self.cupy.cuda.driver.CUDADriverError) as error:
            raise BackendFaultError(str(error)) from None

    def _load_module(self, kernels: Sequence[Kernel]) -> str | None:
        """Load one module; returns "", or the compiler's log (without one the error) if the driver refuses it."""
        assert self._arch is not None
        self.cupy.cuda.Device(self._index).use()  # this may be another thread than `open`'s
        text, optimised = module(kernels, self._arch), kernels[0].optimised
        if self._ptxas:
            cubin, log = self._ptxas.assemble(self._arch, text, optimised)
        else:
            cubin, log = driver.assemble(text.encode(), driver.BEST if optimised else driver.QUICK)
        if not cubin:
            return log
        if changed := {k.name: k.recoded for k in kernels if k.recodings}:
            from tcprobe.sass.elf import replace_code

            cubin = replace_code(cubin, changed)
        loaded = self.cupy.cuda.function.Module()
        try:
            loaded.load(cubin)
        except self.cupy.cuda.driver.CUDADriverError as error:
            if self._ptxas:  # which took it: no compiler refuses the kernel
                words = f"the driver refused the code from {self._ptxas.name}: {error}."
                raise EnvironmentUnfitError(words) from None
            return str(error)
        if kernels[0].read:
            from tcprobe.sass.elf import code_by_kernel

            self._raw |= code_by_kernel(cubin)
        self._functions |= {k.name: loaded.get_function(k.name) for k in kernels}
        return None

    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """Run all launches in order on one stream; their outputs are side by side in one pinned buffer.

        BackendHangError if one does not end within MOST_SECONDS, so that this costs no more than its own experiment.
        """
        runtime = self.cupy.cuda.runtime
        ends = np.cumsum([_align(launch.output_bytes) for launch in launches])
        try:
            sizes = [(*(i.nbytes for i in x.inputs), len(x.maps) * driver.MAP_BYTES, x.output_bytes) for x in launches]
            host = self._reserve(max(sum(map(_align, parts)) for parts in sizes), int(ends[-1]))
            for launch, end in zip(launches, ends, strict=True):
                self._wait()  # the copies of its inputs would wait for what runs, however long
                self._launch(launch, host.ptr + int(end) - _align(launch.output_bytes))
            self._wait()
        except (runtime.CUDARuntimeError, self.cupy.cuda.driver.CUDADriverError) as error:
            raise BackendFaultError(str(error)) from None
        raw = np.frombuffer(host, np.uint8, int(ends[-1]))
        return [raw[end - _align(x.output_bytes) :][: x.output_bytes] for x, end in zip(launches, ends, strict=True)]

    def _wait(self) -> None:
        """Until all that was launched is done, or MOST_SECONDS are over."""
        begun = time.monotonic()
        while driver.at_work():
            if (since := time.monotonic() - begun) > MOST_SECONDS:
                raise BackendHangError(f"it did not end within {MOST_SECONDS:g} s on the device; it was stopped")
            time.sleep(PAUSE if since > PAUSE else 0)
        self.cupy.cuda.runtime.deviceSynchronize()  # which reports errors

    def _launch(self, launch: Launch, host: int) -> None:
        """Copy in, poison the output, launch, copy out to the pinned address `host`."""
        runtime = self.cupy.cuda.runtime
        places, place = [], int(self._memory.ptr)
        for image in launch.inputs:
            runtime.memcpy(place, image.ctypes.data, image.nbytes, runtime.memcpyHostToDevice)
            places.append(place)
            place += _align(image.nbytes)
        if launch.maps:
            output = place + _align(len(launch.maps) * driver.MAP_BYTES)
            image = np.frombuffer(driver.maps(launch, output if launch.maps_output else places[0]), np.uint8).copy()
            runtime.memcpy(place, image.ctypes.data, image.nbytes, runtime.memcpyHostToDevice)
            places.append(place)
            place = output
        runtime.memsetAsync(place, POISON, launch.output_bytes, 0)
        arguments = (*map(np.uint64, [*places, place]), np.uint32(launch.ldm))
        if launch.shared_bytes > SHARED_UNASKED:
            pointer, attribute = self._functions[launch.kernel.name].ptr, MAX_DYNAMIC_SHARED
            self.cupy.cuda.driver.funcSetAttribute(pointer, attribute, launch.shared_bytes)
        self._functions[launch.kernel.name](
            launch.grid, (launch.threads, 1, 1), arguments, shared_mem=launch.shared_bytes
        )
        runtime.memcpyAsync(host, place, launch.output_bytes, runtime.memcpyDeviceToHost, 0)

    def _reserve(self, device_bytes: int, host_bytes: int) -> Any:
        """The oldest pinned host buffer; it and the device buffer are enlarged if they are too small."""
        cuda = self.cupy.cuda
        if self._memory is None or self._memory.mem.size < device_bytes:
            self._memory = None
            self._memory = cuda.MemoryPointer(cuda.Memory(2 * device_bytes), 0)
        host = self._hosts.pop(0)
        if host is None or host.mem.size < host_bytes:
            host = cuda.PinnedMemoryPointer(cuda.PinnedMemory(max(host_bytes, LEAST_PINNED)), 0)
        self._hosts.append(host)
        return host


def _align(size: int) -> int:
    return -(-size // 256) * 256


def _no_device(words: str) -> str:
    return (
        f"no usable NVIDIA GPU: {words}. `nvidia-smi` shows whether the driver sees one; if the driver is too old "
        f"for this CuPy, update it or install the other extra. {INSTALL}"
    )
