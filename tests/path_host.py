"""Emitted CUDA of paths run on the host: each asm statement becomes a call that does what PTX says, lane after lane.

ldmatrix and stmatrix need the addresses of all lanes: every lane goes through its code twice, first only to give them.
"""

import re
import subprocess

ASM = re.compile(r'asm volatile\("([^"]*)"\s*: ([^:]*?) ?: ([^:]*?)(?: : "memory")?\);')
OPERAND = re.compile(r'"=?[rl]"\(((?:[^()]|\([^()]*\))*)\)')
RUNTIME = r"""
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>
#define __device__
typedef unsigned char u8;
static u8 memory[1 << 18];
static unsigned addresses[1 << 12][128];
static int lane_, issue_;
static bool collecting;

static int width_of(const std::string& name) {
  const struct { const char* end; int bytes; } types[] = {
      {"v4.b32", 16}, {"v2.b64", 16}, {"v2.b32", 8}, {"b64", 8}, {"b32", 4}, {"u16", 2}, {"u8", 1}};
  for (auto& type : types)
    if (name.size() > strlen(type.end) && name.substr(name.size() - strlen(type.end)) == type.end) return type.bytes;
  std::abort();
}

static void matrices(const std::string& name, unsigned address, std::vector<void*> out, std::vector<long long> in) {
  const bool loads = name[0] == 'l', trans = name.find(".trans") != std::string::npos;
  const int count = loads ? int(out.size()) : int(in.size()) - 1, issue = issue_++, lane = lane_ % 32;
  const unsigned* of_warp = addresses[issue] + (lane_ - lane);
  if (collecting) { addresses[issue][lane_] = address; return; }
  for (int m = 0; m < count; ++m) {
    unsigned value = loads ? 0 : unsigned(in[1 + m]);
    for (int half = 0; half < 2; ++half) {
      const int row = trans ? 2 * (lane % 4) + half : lane / 4, col = trans ? lane / 4 : 2 * (lane % 4) + half;
      u8* at = memory + of_warp[8 * m + row] + 2 * col;
      if (loads) value |= unsigned(at[0] | at[1] << 8) << 16 * half;
      else { at[0] = u8(value >> 16 * half); at[1] = u8(value >> 16 * half >> 8); }
    }
    if (loads) memcpy(out[m], &value, 4);
  }
}

static void run(const char* text, std::vector<void*> out, std::vector<long long> in) {
  const std::string ptx = text, name = ptx.substr(0, ptx.find(' '));
  if (name.find("matrix") == 2) return matrices(name, unsigned(in[0]), out, in);
  if (name.find("cp.async") == 0) {
    const int bytes = std::stoi(ptx.substr(ptx.rfind(", ") + 2));
    if (in[0] % bytes || in[1] % bytes) std::abort();
    memcpy(memory + in[0], reinterpret_cast<u8*>(in[1]), bytes);
    return;
  }
  const int width = width_of(name);
  u8* at = name.find("shared") == 3 ? memory + in[0] : reinterpret_cast<u8*>(in[0]);
  if (in[0] % width) std::abort();
  const int count = int(name[0] == 'l' ? out.size() : in.size() - 1), each = width / count;
  for (int j = 0; j < count; ++j)
    if (name[0] == 'l') {
      if (each < 4) memset(out[j], 0, 4);
      memcpy(out[j], at + j * each, each);
    } else {
      memcpy(at + j * each, &in[1 + j], each);
    }
}

static std::vector<u8> given(size_t size) {
  std::vector<u8> bytes(size + 16);
  if (fread(bytes.data(), 1, size, stdin) != size) std::abort();
  return bytes;
}

template <class P> void load(size_t size) {
  auto image = given(size);
  memset(memory, 0xEE, sizeof memory);
  for (lane_ = 0; lane_ < P::THREADS; ++lane_) P::fill(0, image.data(), lane_, P::THREADS);
  for (int pass = 0; pass < 2; ++pass)
    for (lane_ = 0; lane_ < P::THREADS; ++lane_) {
      typename P::Word registers[P::REGISTERS] = {};
      collecting = pass == 0; issue_ = 0;
      P::load(0, lane_, registers);
      if (pass) fwrite(registers, 1, sizeof registers, stdout);
    }
}

template <class P> void store(size_t size) {
  auto held = given(P::THREADS * P::REGISTERS * sizeof(typename P::Word));
  std::vector<u8> image(size + 16);
  memset(memory, 0xEE, sizeof memory);
  for (int pass = 0; pass < 2; ++pass)
    for (lane_ = 0; lane_ < P::THREADS; ++lane_) {
      typename P::Word registers[P::REGISTERS];
      memcpy(registers, held.data() + lane_ * sizeof registers, sizeof registers);
      collecting = pass == 0; issue_ = 0;
      P::store(0, lane_, registers);
    }
  for (lane_ = 0; lane_ < P::THREADS; ++lane_) P::drain(0, image.data(), lane_, P::THREADS);
  fwrite(image.data(), 1, size, stdout);
}

template <class P> void straight(size_t size) {
  auto image = given(size);
  for (lane_ = 0; lane_ < 32; ++lane_) {
    typename P::Word registers[P::REGISTERS] = {};
    P::load(image.data(), lane_, registers);
    fwrite(registers, 1, sizeof registers, stdout);
  }
}
"""


def on_the_host(header):
    """The header with every asm statement as a call of `run`."""

    def called(match):
        outputs, inputs = (OPERAND.findall(match[number]) for number in (2, 3))
        out = ", ".join(f"&({text})" for text in outputs)
        given = ", ".join(f"(long long)({text})" for text in inputs)
        return f'run("{match[1]}", {{{out}}}, {{{given}}});'

    found = ASM.sub(called, header)
    assert "asm volatile" not in found
    return found


def execute(folder, headers, calls, given):
    """What a program of all headers and calls, in order, writes."""
    source = "\n".join([RUNTIME, *map(on_the_host, headers), "int main() {", *calls, "}"])
    (folder / "paths.cpp").write_text(source)
    command = ["g++", "-std=c++17", "-O1", "-w", str(folder / "paths.cpp"), "-o", str(folder / "paths")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return subprocess.run([str(folder / "paths")], input=given, capture_output=True, check=True).stdout
