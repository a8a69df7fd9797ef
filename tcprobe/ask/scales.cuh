// Scale factors as CUTLASS lays them out (SfAtom): 128 lines x 4 blocks of k in 512 bytes, atoms along k
// first. The byte of the scale of a line (row of A, column of B) and block, of `blocks` in a line:
${qualifier}inline unsigned long long ${name}_offset(unsigned line, unsigned block, unsigned blocks) {
  const unsigned long long atom = (unsigned long long)(line / 128) * ((blocks + 3) / 4) + block / 4;
  return atom * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
}
$ if copy
// The atoms of 4 blocks of ${operand}, ${lines} lines,
// in shared memory at `shared` as on the host, into ${columns} columns of tensor memory from `tmem` up, for all
// warps; by one thread: where the multiply reads them, ${evidence}.
// The ID in its instruction descriptor selects which of the 4 a multiply uses.
__device__ inline void ${name}_copy(unsigned tmem, unsigned shared) {
  for (unsigned atom = 0; atom < ${atoms}; ++atom) {
    const unsigned long long desc = 0x400800000000ull | (((shared + 512 * atom) & 0x3ffff) >> 4);
    asm volatile("tcgen05.cp.cta_group::${group}.32x128b.warpx4 [%0], %1;"
                 : : "r"(tmem + 4 * atom), "l"(desc) : "memory");
  }
}
$ else
// A lane's register of ${operand}:
// scales of 4 blocks from `block`, a multiple of 4, for any thread-id. A multiply takes ${vector} by byte-id ${ids}.
// ${origin}
// `first`: the first line of the tile; `host`: scales in the host's layout, aligned to 4 bytes.
${qualifier}inline unsigned ${name}(const unsigned char* host, unsigned first, unsigned block, unsigned blocks,
                          unsigned lane) {
  const unsigned line = first + (${line});
  return *reinterpret_cast<const unsigned*>(host + ${name}_offset(line, block, blocks));
}
$ endif
