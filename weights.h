// made by tcprobe 0.1.0
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#ifndef TCPROBE_CONVERT_e5e32051d3b3
#define TCPROBE_CONVERT_e5e32051d3b3
// from: 2 x ldmatrix.m8n16.x4.shared.s8.s4.d, from the table of ldmatrix.m8n16.x4.shared.s8.s4.d on sm_90, documented only, by PTX ISA, section 9.7.16.5.15 of version 9.4; not measured on sm_90 in the published tables
// to: 4 x mma.m16n8k32.row.col.s32.s8.s8.s32.b, from the table of mma.m16n8k32.row.col.s32.s8.s8.s32.b on sm_90, measured live on NVIDIA H200, driver 580.159.04, CUDA 13.0, tcprobe 0.1.0, published
// registers renamed: every lane already holds what it needs; a lane: no instruction
__device__ inline void ldmatrix_m8n16_x4_shared_s8_s4_d_to_mma_m16n8k32_row_col_s32_s8_s8_s32_b(const unsigned (&from)[2][4], unsigned (&to)[4][2]) {
  const unsigned w0 = from[0][0];
  const unsigned w1 = from[1][0];
  const unsigned w2 = from[0][1];
  const unsigned w3 = from[1][1];
  const unsigned w4 = from[0][2];
  const unsigned w5 = from[1][2];
  const unsigned w6 = from[0][3];
  const unsigned w7 = from[1][3];
  to[0][0] = w0;
  to[0][1] = w1;
  to[1][0] = w2;
  to[1][1] = w3;
  to[2][0] = w4;
  to[2][1] = w5;
  to[3][0] = w6;
  to[3][1] = w7;
}
#endif
#endif
