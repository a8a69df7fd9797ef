"""Calls of the CUDA driver and of NVML that CuPy does not offer, by ctypes; importing this loads no library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tcprobe.errors import EnvironmentUnfitError, ProbeError

if TYPE_CHECKING:
    from tcprobe.probes.ptx import Launch
    from tcprobe.references.shared_memory.tensor_map import TensorMap

MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of a CUtensorMap
LOG_BYTES = 1 << 20
# cuda.h, enums CUjit_option and CUjitInputType
JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES, JIT_OPTIMIZATION_LEVEL, JIT_INPUT_PTX = 5, 6, 7, 1
NOT_READY = 600  # cuda.h, enum CUresult
# cuda.h, enum CUresult: out of memory, not initialised, no context, no compiler, no compiling, the operating system
UNABLE = (2, 3, 4, 201, 221, 223, 304)
QUICK, BEST = 1, 4  # levels of optimisation: a probe runs for microseconds, and from 2 on its loops are unrolled


def wake() -> None:
    """Initialise the driver and, if there is only one GPU, create its primary context.

    A thread calls it while Python imports CuPy. Errors are ignored: CuPy meets and reports them again.
    """
    try:
        driver = _library("libcuda.so.1", "nvcuda.dll")
    except OSError:
        return
    count, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value == 1:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)


def assemble(text: bytes, level: int = QUICK) -> tuple[bytes, str]:
    """The cubin of a PTX module for the current context, and the compiler's error log; empty bytes if it refuses.

    By the driver's linker (CUDA driver API, cuLinkAddData): threads compile side by side there, while cuModuleLoadData
    lets one in at a time (benchmarks/compile_threads.py). EnvironmentUnfitError if the cause is not
    the module: then the compiler refuses no kernel.
    """
    driver = _library("libcuda.so.1", "nvcuda.dll")
    log, state = ctypes.create_string_buffer(LOG_BYTES), ctypes.c_void_p()
    options = (ctypes.c_int * 3)(JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES, JIT_OPTIMIZATION_LEVEL)
    values = (ctypes.c_void_p * 3)(ctypes.addressof(log), LOG_BYTES, level)
    if failed := driver.cuLinkCreate_v2(3, options, values, ctypes.byref(state)):
        return b"", f"cuLinkCreate: {_blame(driver, failed)}"
    try:
        cubin, size = ctypes.c_void_p(), ctypes.c_size_t()
        length = ctypes.c_size_t(len(text) + 1)
        failed = driver.cuLinkAddData_v2(
            state, JIT_INPUT_PTX, ctypes.c_char_p(text), length, b"probes", 0, None, None
        ) or driver.cuLinkComplete(state, ctypes.byref(cubin), ctypes.byref(size))
        if failed:
            return b"", log.value.decode(errors="replace") or _blame(driver, failed)
        return ctypes.string_at(cubin, size.value), ""
    finally:
        driver.cuLinkDestroy(state)


def _blame(driver: ctypes.CDLL, code: int) -> str:
    """The driver's words about a module; EnvironmentUnfitError if it cannot compile at all."""
    if code in UNABLE:
        raise EnvironmentUnfitError(f"the driver cannot compile: {_words(driver, code)}.")
    return _words(driver, code)


def _words(driver: ctypes.CDLL, code: int) -> str:
    """The driver's words for a result code."""
    text = ctypes.c_char_p()
    driver.cuGetErrorString(code, ctypes.byref(text))
    return f"{(text.value or b'an unknown error').decode(errors='replace')} (CUresult {code})"


def encode_map(tensor_map: TensorMap, address: int) -> tuple[int, bytes]:
    """(CUresult, the bytes of the map) of cuTensorMapEncodeTiled, for a tensor at `address` + tensor_map.address.

    AttributeError if the driver has no such function, OSError if there is no driver.
    """
    buffer = (ctypes.c_byte * (MAP_BYTES + 2 * MAP_ALIGNMENT))()
    start = -(-ctypes.addressof(buffer) // MAP_ALIGNMENT) * MAP_ALIGNMENT + tensor_map.place
    code = _library("libcuda.so.1", "nvcuda.dll").cuTensorMapEncodeTiled(
        ctypes.c_void_p(start),
        ctypes.c_int(tensor_map.type),
        ctypes.c_uint32(tensor_map.rank),
        ctypes.c_void_p(address + tensor_map.address),
        _numbers(ctypes.c_uint64, tensor_map.dims),
        _numbers(ctypes.c_uint64, tensor_map.strides),
        _numbers(ctypes.c_uint32, tensor_map.box),
        _numbers(ctypes.c_uint32, tensor_map.steps),
        ctypes.c_int(tensor_map.interleave),
        ctypes.c_int(tensor_map.swizzle),
        ctypes.c_int(tensor_map.promotion),
        ctypes.c_int(tensor_map.fill),
    )
    return code, ctypes.string_at(start, MAP_BYTES)


def maps(launch: Launch, address: int) -> bytes:
    """The encoded tensor maps of a launch whose tensors begin at `address`; ProbeError if the driver refuses one."""
    encoded_maps = [encode_map(tensor_map, address) for tensor_map in launch.maps]
    for tensor_map, (code, _) in zip(launch.maps, encoded_maps, strict=True):
        if code:
            raise ProbeError(f"{launch.kernel.name}: {result_name(code)} for {tensor_map}.")
    return b"".join(raw for _, raw in encoded_maps)


def launch_kernel(
    function: int, grid: tuple[int, int, int], block_sides: tuple[int, int, int], shared: int, passed: Sequence[Any]
) -> int:
    """The CUresult of cuLaunchKernel on the default stream; `passed` are ctypes values."""
    addresses = (ctypes.c_void_p * len(passed))(*map(ctypes.addressof, passed))
    code: int = _library("libcuda.so.1", "nvcuda.dll").cuLaunchKernel(
        ctypes.c_void_p(function), *map(ctypes.c_uint, (*grid, *block_sides, shared)), None, addresses, None
    )
    return code


def at_work() -> bool:
    """Whether the default stream of this thread's context has not ended what was launched; errors end it."""
    code: int = _library("libcuda.so.1", "nvcuda.dll").cuStreamQuery(None)
    return code == NOT_READY


def result_name(code: int) -> str:
    """The driver's name of a CUresult, such as CUDA_ERROR_INVALID_VALUE."""
    name = ctypes.c_char_p()
    succeeded = _library("libcuda.so.1", "nvcuda.dll").cuGetErrorName(ctypes.c_int(code), ctypes.byref(name)) == 0
    return name.value.decode(errors="replace") if succeeded and name.value else f"CUresult {code}"


def _numbers(
    number_type: type[ctypes.c_uint32] | type[ctypes.c_uint64], values: Sequence[int]
) -> ctypes.Array[ctypes.c_uint32] | ctypes.Array[ctypes.c_uint64]:
    """An array of at least eight numbers, so that a wrong rank reads no foreign memory."""
    return (number_type * 8)(*values)


def version() -> str:
    """The display driver's version through NVML, "unknown" without NVML."""
    try:
        nvml = _library("libnvidia-ml.so.1", "nvml.dll")
        text = ctypes.create_string_buffer(96)
        answered = nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(text, len(text)) == 0
    except (OSError, AttributeError):
        return "unknown"
    return text.value.decode(errors="replace") if answered else "unknown"


@cache
def _library(linux: str, windows: str) -> ctypes.CDLL:
    return ctypes.WinDLL(windows) if os.name == "nt" else ctypes.CDLL(linux)  # type: ignore[attr-defined,unused-ignore]
