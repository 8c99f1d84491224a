#include <catch2/catch.hpp>
#include <vector>

#include "kernels/kernels.h"
#include "src/base/thread_pool.h"

using namespace rlreplay::kernels;

TEST_CASE("add: every set gives the reference's bits") {
  rlreplay::ThreadPool pool(2);
  std::vector<float> a(33 * 7), b(33 * 7), want(33 * 7), got(33 * 7);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = 0.1f * static_cast<float>(i);
    b[i] = 1.0f / static_cast<float>(i + 1);
  }
  REQUIRE_FALSE(cpu_kernel_sets().empty());
  reference_kernels().add({{a.data(), 7, 33}, {b.data(), 7, 33}, {want.data(), 7, 33}}, pool);
  for (const auto& set : cpu_kernel_sets()) {
    set.add({{a.data(), 7, 33}, {b.data(), 7, 33}, {got.data(), 7, 33}}, pool);
    CAPTURE(set.name);
    REQUIRE(got == want);
  }
}
