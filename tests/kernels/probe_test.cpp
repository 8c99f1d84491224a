#include "kernels/probe.h"

#include <catch2/catch.hpp>
#include <cfenv>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/order.h"
#include "kernels/probe_items.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"

using namespace rlreplay::kernels;
using rlreplay::Error;
using rlreplay::ThreadPool;

namespace {

/// The message of the proof's refusal, empty where it holds.
std::string refusal() {
  try {
    prove_arithmetic();
  } catch (const Error& error) {
    REQUIRE(error.code() == rlreplay::ErrorCode::kEnvironment);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("probe: this process computes as the contract says, on every thread") {
  CHECK((probe_arithmetic() == kProbeDigests));
  CHECK(refusal().empty());
  ThreadPool pool(3);
  CHECK_NOTHROW(prove_arithmetic(pool));
}

#if defined(__x86_64__)
TEST_CASE("probe: flush-to-zero and denormals-are-zero are caught") {
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const unsigned bits : {kFlushToZero, kDenormalsAreZero, kFlushToZero | kDenormalsAreZero}) {
    __builtin_ia32_ldmxcsr(before | bits);
    const std::string message = refusal();
    __builtin_ia32_ldmxcsr(before);
    CAPTURE(bits);
    CHECK(message.find("flushed to zero") != std::string::npos);
  }
  CHECK(refusal().empty());
}

TEST_CASE("probe: flush-to-zero on the threads of a pool is caught") {
  const unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);
  ThreadPool pool(3);  // its threads inherit what this one has
  __builtin_ia32_ldmxcsr(before);
  CHECK(refusal().empty());
  CHECK_THROWS_AS(prove_arithmetic(pool), Error);
}
#endif

TEST_CASE("probe: another rounding mode is caught") {
  for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    REQUIRE(std::fesetround(mode) == 0);
    const std::string message = refusal();
    std::fesetround(FE_TONEAREST);
    CAPTURE(mode);
    CHECK(message.find("rounding mode") != std::string::npos);
  }
}

TEST_CASE("probe: its product is the contract's product") {
  using namespace probe;
  std::vector<float> x(kProductRows * kProductInner), w(kProductColumns * kProductInner);
  for (int64_t k = 0; k < kProductInner; ++k) {
    for (int64_t r = 0; r < kProductRows; ++r) {
      x[static_cast<size_t>(r * kProductInner + k)] = factor(1, r, k);
    }
    for (int64_t c = 0; c < kProductColumns; ++c) {
      w[static_cast<size_t>(c * kProductInner + k)] = factor(2, c, k);
    }
  }
  std::vector<float> y(kProductRows * kProductColumns);
  const std::vector<Matrix<const float>> parts = {{w.data(), kProductColumns, kProductInner}};
  const DotOrder order = dot_order(kProductInner, kProductSegments);
  ThreadPool pool(1);
  const KernelSet& set = reference_kernels();
  PackedWeight packed;
  set.pack_weight({parts, Inner::kColumns}, packed, pool);
  Matmul op;
  op.x = {x.data(), kProductRows, kProductInner};
  op.w = &packed;
  op.order = &order;
  op.y = {y.data(), kProductRows, kProductColumns};
  set.matmul(op, pool);
  for (int64_t r = 0; r < kProductRows; ++r) {
    for (int64_t c = 0; c < kProductColumns; ++c) {
      REQUIRE(y[static_cast<size_t>(r * kProductColumns + c)] == product(r, c));
    }
  }
}

TEST_CASE("probe: hard numbers are as hard as they say") {
  int zeros = 0, subnormals = 0, huge = 0, negative = 0;
  for (uint32_t i = 0; i < 3 * probe::kItems; ++i) {
    const float x = probe::hard_number(mix(i));
    REQUIRE(std::isfinite(x));
    zeros += x == 0;
    subnormals += std::fpclassify(x) == FP_SUBNORMAL;
    huge += std::fabs(x) > 1e38f;
    negative += std::signbit(x);
  }
  CHECK(zeros > 1000);
  CHECK(subnormals > 1000);
  CHECK(huge > 500);
  CHECK(negative > 4000);
}
