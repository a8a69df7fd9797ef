// D's registers -> global memory, ${origin} (tcprobe show ${fragment.id})
// ld: bytes from row to row; rows, cols: what there is of the matrix from here on
__device__ inline void store(char* d, long long ld, int rows, int cols, const ${word} (&from)[${fragment.elements}], unsigned ${who}) {
#pragma unroll
  for (unsigned i = 0; i < ${fragment.elements}; i += 2) {
    const int row = ${row}, col = ${col};
    if (row >= rows || col >= cols) continue;
    char* to = d + row * ld + col * ${dtype(out).bits // 8};
$ if fragment.type == out
$ set kind = {"f32": "float", "s32": "int"}[out]
    struct alignas(8) Pair { ${kind} low, high; };
    if (col + 1 < cols) *reinterpret_cast<Pair*>(to) = {from[i], from[i + 1]};
    else *reinterpret_cast<${kind}*>(to) = from[i];
$ else
    unsigned d;
    const float low = from[i], high = from[i + 1];
    ${conversion(fragment.type, out, device).pair}
    if (col + 1 < cols) *reinterpret_cast<unsigned*>(to) = d;
    else *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(d);
$ endif
  }
}
