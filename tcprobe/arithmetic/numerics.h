// What multiplies compute, bit by bit. C++17; for hosts and for CUDA.
#pragma once
#ifndef __CUDACC_RTC__
#include <cmath>
#include <cstring>
#endif
#ifndef TCPROBE_HD
#ifdef __CUDACC__
#define TCPROBE_HD __host__ __device__
#else
#define TCPROBE_HD
#endif
#endif

#ifndef TCPROBE_NUMERICS
#define TCPROBE_NUMERICS
namespace tcprobe {
namespace numerics {
using bits = unsigned long long;
enum kind { finite, infinite, not_a_number };
constexpr int nothing = -(1 << 20);  // the exponent of a term that is zero
constexpr int most_shift = 62;

struct decoded {
  long long significand;
  int exponent;
  bool negative;
  kind what;
};

/// A format: width, bits of the fraction, bias, what the largest exponent means (2 as IEEE, 1 only NaN, 0 numbers),
/// and low bits that are not looked at.
template <int width_, int fraction_, int bias_, int special_, int unread_>
struct number {
  static constexpr int width = width_, fraction = fraction_, least = 1 - bias_;
  static constexpr bits sign = 1ull << (width_ - 1);
  static constexpr bits top = (1ull << (width_ - 1 - unread_ - fraction_)) - 1;
  static constexpr bits infinity = top << fraction_;
  TCPROBE_HD static decoded decode(bits x, bool subnormals = true, bool normalized = false) {
    const bool negative = (x & sign) != 0;
    const bits raw = (x & (sign - 1)) >> unread_, field = raw >> fraction_, low = raw & ((1ull << fraction_) - 1);
    long long size = static_cast<long long>(field ? low | 1ull << fraction_ : subnormals ? low : 0);
    kind what = finite;
    if (field == top && special_ == 2) what = low ? not_a_number : infinite;
    if (field == top && special_ == 1 && low == (1ull << fraction_) - 1) what = not_a_number;
    int exponent = static_cast<int>(field ? field : 1) - bias_;
    for (; normalized && size && !(size >> fraction); size <<= 1) --exponent;
    return {negative ? -size : size, exponent, negative, what};
  }
};

/// value x 2^(more - below), cut toward zero
TCPROBE_HD inline long long cut(long long value, int more, int below) {
  const unsigned long long size = static_cast<unsigned long long>(value < 0 ? -value : value);
  const int right = more < 0 ? below - more : below;
  const unsigned long long raised = size << (more > 0 ? more : 0);
  const long long kept = static_cast<long long>(raised >> (right < most_shift ? right : most_shift));
  return value < 0 ? -kept : kept;
}

/// The bits of total x 2^unit in format D, of which `kept` stay below the leading one.
template <class D>
TCPROBE_HD bits rounded(long long total, int unit, int kept, bool nearest, bool largest, bool subnormals) {
  unsigned long long size = static_cast<unsigned long long>(total < 0 ? -total : total);
  if (size == 0) return 0;
  int length = 0;
  for (unsigned long long rest = size; rest; rest >>= 1) ++length;
  const int exponent = length - 1 + unit > D::least ? length - 1 + unit : D::least;
  const int drop = exponent - kept - unit;
  if (drop > most_shift) size = 0;
  else if (drop > 0) {
    const unsigned long long low = size & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    size >>= drop;
    if (nearest && (low > half || (low == half && (size & 1)))) ++size;
  } else {
    size <<= -drop;
  }
  bits result = (static_cast<bits>(exponent - D::least) << D::fraction) + (size << (D::fraction - kept));
  if (!subnormals && result >> D::fraction == 0) result = 0;
  const bits most = D::infinity - (largest ? 1 : 0);
  if (result > most) result = most;
  return total < 0 && result ? result | D::sign : result;
}

/// One sum: the products from `first` to before `last` of the form's order, and C.
template <class F, class C, class T>
TCPROBE_HD bits summed(const T* a, const T* b, bits c, int first, int last) {
  const decoded own = C::decode(c, F::subnormal_c, F::normalized_c && first == 0);
  int top = own.significand ? own.exponent : nothing;
  bool plus = own.what == infinite && !own.negative, minus = own.what == infinite && own.negative;
  bool nan = own.what == not_a_number, negative = own.negative;
  for (int i = first; i < last; ++i) {
    const decoded x = F::A::decode(a[F::product(i)], F::subnormal_a, F::normalized_a);
    const decoded y = F::B::decode(b[F::product(i)], F::subnormal_b, F::normalized_b);
    const bool below = x.negative != y.negative;
    negative = negative && below;
    if (x.what == not_a_number || y.what == not_a_number) nan = true;
    else if (x.what == infinite || y.what == infinite) {
      if ((x.what == finite && !x.significand) || (y.what == finite && !y.significand)) nan = true;
      else (below ? minus : plus) = true;
    }
    if (x.significand && y.significand && x.exponent + y.exponent > top) top = x.exponent + y.exponent;
  }
  using S = typename F::S;
  if (nan || (plus && minus)) return F::sum_nan;
  if (plus || minus) return S::infinity | (minus ? S::sign : 0);
  if (top == nothing) return F::negative_zero && negative ? S::sign : 0;
  if (top < F::exponent_floor) top = F::exponent_floor;
  long long total = own.significand ? cut(own.significand, F::fraction_bits - C::fraction, top - own.exponent) : 0;
  for (int i = first; i < last; ++i) {
    const decoded x = F::A::decode(a[F::product(i)], F::subnormal_a, F::normalized_a);
    const decoded y = F::B::decode(b[F::product(i)], F::subnormal_b, F::normalized_b);
    const long long product = x.significand * y.significand;
    constexpr int more = F::fraction_bits - F::A::fraction - F::B::fraction;
    if (product) total += cut(product, more, top - x.exponent - y.exponent);
  }
  const bool largest = F::largest && !F::narrowed, subnormals = F::subnormal_d || F::narrowed;
  return rounded<S>(total, top - F::fraction_bits, F::sum_bits, F::sum_nearest, largest, subnormals);
}

TCPROBE_HD inline double double_of(bits x) {
  double value;
  memcpy(&value, &x, sizeof value);
  return value;
}

/// x + y to nearest even, of 16 or 32 bits, by whole numbers: no compiler's option changes it.
template <class D>
TCPROBE_HD bits added(bits x, bits y, bits nan) {
  const decoded one = D::decode(x), other = D::decode(y);
  if (one.what != finite || other.what != finite) {
    if (one.what == not_a_number || other.what == not_a_number) return nan;
    if (one.what == other.what && one.negative != other.negative) return nan;
    return one.what == infinite ? x : y;
  }
  if (!one.significand && !other.significand) return one.negative && other.negative ? D::sign : 0;
  const decoded& high = one.exponent < other.exponent ? other : one;
  const decoded& low = one.exponent < other.exponent ? one : other;
  constexpr int room = 36;  // bits below the last of the larger one
  const int distance = high.exponent - low.exponent;
  const long long kept = cut(low.significand, room, distance);
  const bool inexact = distance > room && low.significand;  // anything below stands for all of it
  const long long rest = inexact ? (low.significand < 0 ? kept - 1 : kept + 1) : kept;
  const long long total = high.significand * (1ll << room) + rest;
  return rounded<D>(total, high.exponent - D::fraction - room, D::fraction, true, false, true);
}

/// A number as a sum's, which holds it exactly.
template <class F>
TCPROBE_HD bits widened(const decoded& x, int fraction) {
  using S = typename F::S;
  if (x.what == not_a_number) return F::sum_nan;
  const long long size = x.negative ? -x.significand : x.significand;
  const bits whole = rounded<S>(size, x.exponent - fraction, S::fraction, true, false, true);
  return (x.what == infinite ? S::infinity : whole) | (x.negative ? S::sign : 0);
}

/// One product, as a number of a sum.
template <class F>
TCPROBE_HD bits multiplied(bits a, bits b) {
  const decoded x = F::A::decode(a), y = F::B::decode(b);
  decoded product = {x.significand * y.significand, x.exponent + y.exponent, x.negative != y.negative, finite};
  if (x.what != finite || y.what != finite) {
    const bool zero = (x.what == finite && !x.significand) || (y.what == finite && !y.significand);
    product.what = x.what == not_a_number || y.what == not_a_number || zero ? not_a_number : infinite;
  }
  return widened<F>(product, F::A::fraction + F::B::fraction);
}

/// C and the sums of the groups, each from zero, product after product.
template <class F, class T>
TCPROBE_HD bits partial(const T* a, const T* b, bits c) {
  using S = typename F::S;
  bits total = widened<F>(F::C::decode(c), F::C::fraction);
  for (int group = 0, i = 0; group < F::groups; ++group) {
    bits sum = F::negative_zero ? S::sign : 0;
    for (; i < F::end(group); ++i) {
      sum = added<S>(sum, multiplied<F>(a[F::product(i)], b[F::product(i)]), F::sum_nan);
    }
    total = added<S>(total, sum, F::sum_nan);
  }
  return total;
}

/// A sum rounded to D, whose zeros keep their sign.
template <class F>
TCPROBE_HD bits narrow(bits sum) {
  using D = typename F::D;
  const decoded x = F::S::decode(sum);
  if (x.what == not_a_number) return F::nan;
  const long long size = x.negative ? -x.significand : x.significand;
  const int unit = x.exponent - F::S::fraction;
  const bits whole = rounded<D>(size, unit, F::result_bits, F::nearest, F::largest, F::subnormal_d);
  return (x.what == infinite ? D::infinity : whole) | (x.negative ? D::sign : 0);
}

/// A chain of fused multiply-adds in f64.
template <class F, class T>
TCPROBE_HD bits chain(const T* a, const T* b, bits c) {
  double sum = double_of(c);
  for (int i = 0; i < F::products; ++i) sum = fma(double_of(a[F::product(i)]), double_of(b[F::product(i)]), sum);
  if (sum != sum) return F::nan;
  bits result;
  memcpy(&result, &sum, sizeof result);
  return result;
}

/// D of one dot product: F::products elements of A and of B, and C, all as bits.
template <class F, class T>
TCPROBE_HD bits dot(const T* a, const T* b, bits c) {
  if constexpr (F::exact && !F::c_first) {
    return chain<F>(a, b, c);
  } else if constexpr (F::c_first) {
    const bits sum = partial<F>(a, b, c);
    return F::narrowed ? narrow<F>(sum) : sum;
  } else {
    bits d = F::c_last ? 0 : summed<F, typename F::C>(a, b, c, 0, F::end(0));
    if (F::c_last) d = summed<F, typename F::S>(a, b, 0, 0, F::end(0));
    for (int group = 1; group < F::groups; ++group) {
      d = summed<F, typename F::S>(a, b, d, F::end(group - 1), F::end(group));
    }
    if (F::narrowed) d = narrow<F>(d);
    return F::c_last ? added<typename F::D>(d, c, F::nan) : d;
  }
}
}  // namespace numerics
}  // namespace tcprobe
#endif
