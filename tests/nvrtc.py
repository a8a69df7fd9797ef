"""NVRTC from its wheel, by ctypes: compiles CUDA C++ without a GPU and without a toolkit."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

NAMES = ("libnvrtc.so.12", "libnvrtc.so.13")


def library():
    """The library, None where the wheel is not installed."""
    spec = find_spec("nvidia")
    folders = [Path(p) for p in (spec.submodule_search_locations if spec else [])]
    found = [p for f in folders for name in NAMES for p in f.glob(f"*/lib/{name}")]
    return ctypes.CDLL(str(found[0])) if found else None


def archs(lib):
    """All compute capabilities that it compiles for, as numbers: 75."""
    count = ctypes.c_int()
    lib.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    lib.nvrtcGetSupportedArchs(numbers)
    return list(numbers)


def compile_cuda(lib, text, *options):
    """(whether it compiles, the log)."""
    program = ctypes.c_void_p()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"text.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    code = lib.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetProgramLog(program, log)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return code == 0, log.value.decode(errors="replace")


def ptx(lib, text, *options):
    """The PTX of CUDA C++ that compiles."""
    program = ctypes.c_void_p()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"text.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    assert lib.nvrtcCompileProgram(program, len(options), given) == 0, compile_cuda(lib, text, *options)[1][:800]
    size = ctypes.c_size_t()
    lib.nvrtcGetPTXSize(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    lib.nvrtcGetPTX(program, found)
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return found.value.decode()


def made(lib, text, *options):
    """The cubin of CUDA C++; b"" where it does not compile."""
    program = ctypes.c_void_p()
    assert lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"text.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    raw = b""
    if lib.nvrtcCompileProgram(program, len(options), given) == 0:
        size = ctypes.c_size_t()
        lib.nvrtcGetCUBINSize(program, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        lib.nvrtcGetCUBIN(program, code)
        raw = code.raw
    lib.nvrtcDestroyProgram(ctypes.byref(program))
    return raw
