"""Printed code by a name and in a namespace of the user's: two outputs in one file compile, no name is reserved."""

import itertools
import re

import nvrtc
import pytest
from command import tcprobe

D, A = (f"mma.m16n8k16.row.col.f32.f16.f16.f32.{operand}" for operand in "da")
LOADS = ("load", A, "--arch", "sm_90", "--code")
COMMANDS = [
    ("reduce", D, "--over", "row", "--op", "max"),
    ("reduce", D, "--mask", "row >= col + col0"),
    LOADS,
    ("path", A, "--tile", "64x64", "--code", "cuda"),
    ("path", "wgmma.m64n64k16.f32.f16.f16.b_smem", "--tile", "64x64", "--global", "col", "--code", "cuda"),
    ("convert", D, A),
    ("convert", D, "stmatrix.x4"),
    ("emit", D, "--to", "cuda", "--arch", "sm_90"),
    ("emit", D[:-2], "--to", "cuda", "--arch", "sm_90"),
    ("emit", "wgmma.m64n8k16.f32.f16.f16", "--to", "cuda"),
    ("emit", "mma.sp.m16n8k16.row.col.f32.f16.f16.f32", "--to", "cuda", "--arch", "sm_90"),
]
# what CUDA has for itself
CUDA = re.compile(r"__(device|host|global|forceinline|shared|align)__|__(shfl|byte_perm|cvta|int_as|longlong|CUDA)\w*")
needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC here")


def printed(*words, code=0):
    done = tcprobe(*words, code=code)
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_name_stands_in_the_code_and_in_the_namespace(words):
    if "stmatrix.x4" in words or words[0] != "path" or "b_smem" not in words[1]:
        text = printed(*words, "--name", "chosen_name", "--namespace", "mine::deep")
        assert re.search(r"\bchosen_name", text)
        assert "namespace mine::deep {" in text


@needs_nvrtc
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_same_in_two_namespaces_compiles_in_one_file(words):
    spaces = ("a_b", "a::b", "c")
    text = "\n".join(printed(*words, "--namespace", space) for space in spaces)
    done, log = nvrtc.compile_cuda(nvrtc.library(), text, "-arch=sm_90", "-std=c++17")
    assert (done, log) == (True, "")
    whole = re.sub(r"(TCPROBE_\w+|//.*)", "", text)
    assert whole.count("namespace a_b {") == whole.count("namespace a::b {") >= 1


@needs_nvrtc
def test_different_outputs_compile_in_one_file():
    names = [f"name{number}" for number in range(len(COMMANDS))]
    texts = [printed(*words, "--name", name) for words, name in zip(COMMANDS, names, strict=True)]
    done, log = nvrtc.compile_cuda(nvrtc.library(), "\n".join(texts), "-arch=sm_90", "-std=c++17")
    assert (done, log) == (True, "")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_identifier_is_reserved(words):
    code = re.sub(r"//.*|\"[^\"]*\"", "", printed(*words, "--namespace", "a_::b"))
    reserved = [name for name in re.findall(r"\b\w*__\w*\b|\b_[A-Z]\w*", code) if not CUDA.fullmatch(name)]
    assert reserved == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*LOADS, "--name", "int"), "is not a name"),
        ((*LOADS, "--namespace", "a__b"), "is not a namespace"),
        (("emit", D, "--to", "csv", "--arch", "sm_90", "--name", "x"), "names nothing"),
        (("emit", D, "--to", "python", "--arch", "sm_90", "--namespace", "x"), "has no namespaces"),
        (("emit", D, "wmma.m16n16k16.d.f32", "--to", "cuda", "--name", "x"), "--name is for one fragment"),
        (("load", A, "--arch", "sm_90", "--name", "x"), "give --code or -o too"),
        (("reduce", D, "--over", "row", "--namespace", "a;b"), "is not a namespace"),
        ((*LOADS, "--name", "Word"), "another use"),
    ],
)
def test_what_is_no_name(words, message):
    assert message in " ".join(printed(*words, code=2).split())


def test_any_two_commands_have_names_of_their_own_to_begin_with():
    texts = {words: printed(*words) for words in COMMANDS if words[0] in ("load", "path", "emit")}
    structs = {words: set(re.findall(r"^struct (\w+)", text, re.MULTILINE)) for words, text in texts.items()}
    for (one, of_one), (other, of_other) in itertools.combinations(structs.items(), 2):
        assert not of_one & of_other or one[0] == other[0] == "emit"
