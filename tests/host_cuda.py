"""Emitted CUDA run on the host: threads are fibers of one process, each asm statement a call that does what PTX says.

A fiber runs until its thread needs the others (a shuffle, a matrix instruction), then the next one does. Conversions of
numbers keep the low bits of whole numbers, so that what comes out still names the element that went in.
"""

import re
import subprocess

ASM = re.compile(r'asm(?: volatile)?\(((?:\s*"[^"]*")+)\s*: ?([^:]*?) ?(?:: ?([^:]*?))?(?: ?: "memory")?\);')
OPERAND = re.compile(r'"[=+]?([hrlfdn])"\(((?:[^()]|\([^()]*\))*)\)')
BYTES = {"h": 2, "r": 4, "f": 4, "l": 8, "d": 8}
RUNTIME = r"""
#include <ucontext.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#define __device__
#define __host__
#define __forceinline__ inline
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned long long u64;
struct Out { void* at; int bytes; };
struct { unsigned x, y, z; } threadIdx;
static u8 memory[1 << 18];

// fibers
static const int MOST = 128;
static ucontext_t scheduler, fibers[MOST];
static char stacks[MOST][1 << 16];
static u64 brought[2][MOST];
static int running, turns[MOST];
static bool ended[MOST];
static void (*work)();
static void fiber() { work(); ended[running] = true; }
static u64* meet(u64 word) {  // what every thread brings
  u64* all = brought[turns[running]++ & 1];
  all[running] = word;
  swapcontext(&fibers[running], &scheduler);
  return all;
}
static void launch(int threads, void (*body)()) {
  work = body;
  for (int t = 0; t < threads; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks[t];
    fibers[t].uc_stack.ss_size = sizeof stacks[t];
    fibers[t].uc_link = &scheduler;
    makecontext(&fibers[t], fiber, 0);
    ended[t] = false; turns[t] = 0;
  }
  for (bool open = true; open;) {
    open = false;
    for (running = 0; running < threads; ++running) {
      if (ended[running]) continue;
      threadIdx.x = running;
      swapcontext(&scheduler, &fibers[running]);
      open = open || !ended[running];
    }
  }
  for (int t = 0; t < threads; ++t) if (turns[t] != turns[0]) std::abort();  // threads went apart
}

// intrinsics
static int first_lane() { return running / 32 * 32; }
template <class T> T __shfl_sync(unsigned, T value, int lane) {
  u64 word = 0;
  memcpy(&word, &value, sizeof value);
  u64* all = meet(word);
  memcpy(&value, &all[first_lane() + (lane & 31)], sizeof value);
  return value;
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync(mask, value, (running % 32) ^ lanes);
}
static unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const u64 both = u64(y) << 32 | x;
  unsigned found = 0;
  for (int j = 0; j < 4; ++j) found |= unsigned(both >> 8 * (selector >> 4 * j & 7) & 255) << 8 * j;
  return found;
}
static float __int_as_float(int bits) { float value; memcpy(&value, &bits, 4); return value; }
static double __longlong_as_double(long long bits) { double value; memcpy(&value, &bits, 8); return value; }

// a tensor map of two dimensions: bytes of an element, its box, and the bits that the swizzle moves
static struct Map { u8* start; long long ld; int size, inner, rows, bits, pitch; } map_;
static void box(const Map& map, unsigned shared, int x, int y, bool fills) {
  for (int j = 0; j < map.rows; ++j)
    for (int i = 0; i < map.inner * map.size; ++i) {
      const unsigned at = shared + j * map.pitch + i;
      u8& there = memory[at ^ (at >> 7 & ((1 << map.bits) - 1)) << 4];
      u8& here = map.start[(y + j) * map.ld + x * map.size + i];
      if (fills) there = here; else here = there;
    }
}

// PTX
static bool begins(const std::string& text, const char* start) { return text.compare(0, strlen(start), start) == 0; }
static bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
static void put(Out out, u64 bits) { memset(out.at, 0, out.bytes); memcpy(out.at, &bits, out.bytes); }

static void matrices(const std::string& name, const std::vector<Out>& out, const std::vector<long long>& in) {
  const bool loads = name[0] == 'l', trans = has(name, ".trans");
  const int count = loads ? int(out.size()) : int(in.size()) - 1, lane = running % 32;
  const u64* address = meet(u64(in[0])) + first_lane();
  for (int m = 0; m < count; ++m) {
    unsigned value = loads ? 0 : unsigned(in[1 + m]);
    for (int half = 0; half < 2; ++half) {
      const int row = trans ? 2 * (lane % 4) + half : lane / 4, col = trans ? lane / 4 : 2 * (lane % 4) + half;
      if (address[8 * m + row] % 16) std::abort();
      u8* at = memory + address[8 * m + row] + 2 * col;
      if (loads) value |= unsigned(at[0] | at[1] << 8) << 16 * half;
      else { at[0] = u8(value >> 16 * half); at[1] = u8(value >> 16 * half >> 8); }
    }
    if (loads) put(out[m], value);
  }
}

static void widened(const std::vector<Out>& out, long long own) {  // rows of 16 s4, each to a byte with its sign
  const u64* address = meet(u64(own)) + first_lane();
  const int lane = running % 32;
  for (size_t m = 0; m < out.size(); ++m) {
    const u64 row = address[8 * m + lane / 4];
    if (row % 8) std::abort();
    unsigned value = 0;
    for (int j = 0; j < 4; ++j) {
      const int place = 4 * (lane % 4) + j, bits = memory[row + place / 2] >> 4 * (place % 2) & 15;
      value |= unsigned(u8(bits < 8 ? bits : bits - 16)) << 8 * j;
    }
    put(out[m], value);
  }
}

static void movmatrix(Out out, unsigned word) {
  const u64* all = meet(word) + first_lane();
  const int lane = running % 32;
  unsigned value = 0;
  for (int half = 0; half < 2; ++half)  // column lane / 4, rows 2 (lane % 4) and the next
    value |= unsigned(all[4 * (2 * (lane % 4) + half) + lane / 8] >> 16 * (lane / 4 & 1) & 0xffff) << 16 * half;
  put(out, value);
}

static void converted(const std::string& name, Out out, const std::vector<long long>& in) {
  const bool byte = has(name, "m3x2") || has(name, "m2x2") || has(name, "pack");
  const int bits = begins(name, "cvt.rna.tf32") ? 32 : has(name, "e2m1x2.f32") ? 4 : byte ? 8 : 16;
  const u64 mask = (1ull << bits) - 1;
  if (has(name, "x2.f16x2")) put(out, (in[0] & mask) | (in[0] >> 16 & mask) << bits);
  else if (in.size() == 1) put(out, u64(in[0]) & mask);
  else put(out, (u64(in[0]) & mask) << bits | (u64(in[1]) & mask));
}

// what conversions of weights are made of: numbers of 4, 8 and 16 bits by their value
struct Form { int exponent, mantissa, bias; };
static const Form F16 = {5, 10, 15}, BF16 = {8, 7, 127}, E4M3 = {4, 3, 7}, E2M1 = {2, 1, 1};
static double value(unsigned bits, Form form) {
  const unsigned low = bits & ((1u << form.mantissa) - 1), high = bits >> form.mantissa & ((1u << form.exponent) - 1);
  const double size = high ? std::ldexp(low + (1 << form.mantissa), int(high) - form.bias - form.mantissa)
                           : std::ldexp(low, 1 - form.bias - form.mantissa);
  return bits >> (form.mantissa + form.exponent) & 1 ? -size : size;
}
static unsigned bits_of(double number, Form form) {  // to the nearest, ties to even
  const unsigned sign = unsigned(std::signbit(number)) << (form.mantissa + form.exponent);
  const double size = std::fabs(number);
  if (size == 0) return sign;
  int exponent = std::max(std::ilogb(size), 1 - form.bias);
  const double scaled = std::nearbyint(std::ldexp(size, form.mantissa - exponent));
  const long long whole = (long long)scaled + ((long long)(exponent + form.bias - 1) << form.mantissa);
  if (whole >= ((1ll << form.exponent) - 1) << form.mantissa) std::abort();  // no weight is so large
  return sign | unsigned(whole);
}
static unsigned of_pairs(const std::string& name, const std::vector<long long>& in) {
  const Form form = has(name, "bf16x2") ? BF16 : F16;
  unsigned found = 0;
  for (int half = 0; half < 2; ++half) {
    double x[3] = {};
    for (size_t j = 0; j < in.size(); ++j) x[j] = value(unsigned(in[j] >> 16 * half), form);
    const double product = begins(name, "fma") ? std::fma(x[0], x[1], x[2]) : x[0] * x[1];
    found |= bits_of(begins(name, "sub") ? x[0] - x[1] : product, form) << 16 * half;
  }
  return found;
}
static unsigned decoded(const std::string& ptx, long long in) {
  const bool fp8 = has(ptx, "e4m3x2");
  const int bits = fp8 ? 8 : 4;
  const Form form = fp8 ? E4M3 : E2M1;
  return bits_of(value(unsigned(in), form), F16) | bits_of(value(unsigned(in >> bits), form), F16) << 16;
}
static unsigned permuted(unsigned x, unsigned y, unsigned order) {
  unsigned found = 0;
  for (int j = 0; j < 4; ++j) {
    const unsigned byte = unsigned((u64(y) << 32 | x) >> 8 * (order >> 4 * j & 7) & 255);
    found |= (order >> 4 * j & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * j;
  }
  return found;
}
static unsigned looked_up(unsigned x, unsigned y, unsigned z, unsigned table) {
  unsigned found = 0;
  for (int j = 0; j < 32; ++j) found |= (table >> ((x >> j & 1) << 2 | (y >> j & 1) << 1 | (z >> j & 1)) & 1) << j;
  return found;
}
static bool weighed(const std::string& ptx, const std::string& name, Out out, const std::vector<long long>& in) {
  if (has(ptx, "cvt.rn.f16x2.e4m3x2") || has(ptx, "cvt.rn.f16x2.e2m1x2")) put(out, decoded(ptx, in[0]));
  else if (has(name, ".rn.f16x2") || has(name, ".rn.bf16x2")) {
    if (begins(name, "cvt")) return false;
    put(out, of_pairs(name, in));
  } else if (begins(name, "lop3")) {
    put(out, looked_up(in[0], in[1], in[2], std::stoul(ptx.substr(ptx.rfind("0x")), 0, 16)));
  } else if (begins(name, "prmt")) put(out, permuted(in[0], in[1], in[2]));
  else if (begins(name, "shf.l.wrap")) put(out, unsigned(in[0]) << in[1] | unsigned(in[0]) >> (32 - in[1]));
  else return false;
  return true;
}

static int width_of(const std::string& name) {
  const struct { const char* end; int bytes; } types[] = {
      {"v4.b32", 16}, {"v2.b64", 16}, {"v2.b32", 8}, {"b64", 8}, {"b32", 4}, {"u16", 2}, {"u8", 1}};
  for (auto& type : types)
    if (name.size() > strlen(type.end) && name.substr(name.size() - strlen(type.end)) == type.end) return type.bytes;
  std::abort();
}

static void moved(const std::string& name, const std::vector<Out>& out, const std::vector<long long>& in) {
  const int width = width_of(name), count = int(name[0] == 'l' ? out.size() : in.size() - 1), each = width / count;
  u8* at = name.find("shared") == 3 ? memory + in[0] : reinterpret_cast<u8*>(in[0]);
  if (in[0] % width) std::abort();
  for (int j = 0; j < count; ++j)
    if (name[0] == 'l') {
      memset(out[j].at, 0, out[j].bytes);
      memcpy(out[j].at, at + j * each, each);
    } else {
      memcpy(at + j * each, &in[1 + j], each);
    }
}

// a multiply: what it is given, in PTX's order, and D as numbers from 1000 on
static long long seen[MOST][256];
static void multiplied(const std::string& ptx, const std::vector<Out>& out, const std::vector<long long>& in) {
  long long* next = seen[running];
  for (size_t at = ptx.find('%'); at != std::string::npos; at = ptx.find('%', at + 1)) {
    const size_t number = std::stoul(ptx.substr(at + 1));
    if (number >= out.size()) *next++ = in[number - out.size()];
  }
  for (size_t j = 0; j < out.size(); ++j) put(out[j], 1000 + j);
  meet(0);
}

static void run(const char* text, int outs, const Out* to, int ins, const long long* from) {
  const std::vector<Out> out(to, to + outs);
  const std::vector<long long> in(from, from + ins);
  const std::string ptx = text, name = ptx.substr(0, ptx.find(' '));
  if (has(ptx, "mma.") && has(ptx, "{%0")) multiplied(ptx, out, in);
  else if (name.empty() || begins(name, "wgmma.")) {  // what a multiply is waited for by
  } else if (out.size() == 1 && weighed(ptx, name, out[0], in)) {
  } else if (has(ptx, "%%laneid")) put(out[0], running % 32);
  else if (begins(name, "movmatrix")) movmatrix(out[0], unsigned(in[0]));
  else if (begins(name, "ldmatrix") && has(name, ".s8.s4")) widened(out, in[0]);
  else if (name.find("matrix") == 2) matrices(name, out, in);
  else if (begins(name, "cvt") || name[0] == '{') converted(ptx, out[0], in);
  else if (begins(name, "cp.async.bulk.tensor")) {
    const bool fills = has(ptx, "], [%1");
    const Map& map = *reinterpret_cast<Map*>(in[fills]);
    box(map, unsigned(in[fills ? 0 : 3]), int(in[1 + fills]), int(in[2 + fills]), fills);
  } else if (begins(name, "cp.async.bulk") || has(name, "_group")) {  // a wait or a commit
  } else if (begins(name, "cp.async")) {
    const int bytes = std::stoi(ptx.substr(ptx.rfind(", ") + 2));
    if (in[0] % bytes || in[1] % bytes) std::abort();
    memcpy(memory + in[0], reinterpret_cast<u8*>(in[1]), bytes);
  } else moved(name, out, in);
}

// what tests call
alignas(1024) static u8 input[1 << 24], output[1 << 24];
static void step(int threads, size_t given, size_t made, const u8* from, void (*body)()) {
  if (given > sizeof input || made > sizeof output || fread(input, 1, given, stdin) != given) std::abort();
  memset(memory, 0xEE, sizeof memory);
  memset(output, 0, made);
  launch(threads, body);
  fwrite(from, 1, made, stdout);
}
#define MINE(where, array) ((where) + running * sizeof(array))
template <class P> void load() {
  typename P::Word own[P::REGISTERS] = {};
  P::fill(0, input, running, P::THREADS);
  meet(0);
  P::load(0, running, own);
  memcpy(MINE(output, own), own, sizeof own);
}
template <class P> void store() {
  typename P::Word own[P::REGISTERS];
  memcpy(own, MINE(input, own), sizeof own);
  P::store(0, running, own);
  meet(0);
  P::drain(0, output, running, P::THREADS);
}
template <class P> void straight() {
  typename P::Word own[P::REGISTERS] = {};
  P::load(input, running, own);
  memcpy(MINE(output, own), own, sizeof own);
}
"""


def on_the_host(code):
    """The code with every asm statement as a call of `run`."""

    def called(match):
        outputs, inputs = (OPERAND.findall(match[number] or "") for number in (2, 3))
        out = "".join(f"{{&({name}), {BYTES[letter]}}}, " for letter, name in outputs)
        given = "".join(f"(long long)({name}), " for _, name in inputs)
        arrays = f"const Out out_[] = {{{out}{{}}}}; const long long in_[] = {{{given}0}};"
        return f"{{ {arrays} run({match[1].strip()}, {len(outputs)}, out_, {len(inputs)}, in_); }}"

    found = ASM.sub(called, code)
    assert not re.search(r"\basm\b", found), re.search(r".*\basm\b.*", found)[0]
    return found


def execute(folder, codes, calls, given):
    """What a program of all codes and calls, in order, writes."""
    source = "\n".join([RUNTIME, *map(on_the_host, codes), "int main() {", *calls, "}"])
    (folder / "host.cpp").write_text(source)
    command = ["g++", "-std=c++17", "-O0", "-w", str(folder / "host.cpp"), "-o", str(folder / "host")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:4000]
    return subprocess.run([str(folder / "host")], input=given, capture_output=True, check=True).stdout
