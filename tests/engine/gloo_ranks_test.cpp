#include "src/engine/torch/gloo_ranks.h"

#include <catch2/catch.hpp>
#include <thread>

#include "kernels/probe.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"
#include "src/engine/rank_address.h"
#include "tests/engine/delayed_group.h"
#include "tests/engine/group_conformance.h"
#include "tests/environment.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::engine::test;

namespace {

uint16_t free_port() {
  const RankListener listener = listen_at("127.0.0.1:0");
  return static_cast<uint16_t>(std::stoi(listener.address.substr(listener.address.rfind(':') + 1)));
}

/// Every rank a thread, with sockets of Gloo between them. Throws what the first rank throws.
void run_gloo_ranks(const Layout& layout, const std::function<void(const Ranks&)>& work) {
  const uint16_t port = free_port();
  std::vector<std::optional<Error>> errors(static_cast<size_t>(layout.ranks()));
  const auto run = [&](int rank) {
    try {
      const GlooRanks ranks("127.0.0.1", port, rank, layout, std::chrono::seconds(60));
      work(ranks.ranks());
      ranks.ranks().world.sum({});  // rank 0 has the store: it leaves last
    } catch (const Error& e) {
      errors[static_cast<size_t>(rank)] = e;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < layout.ranks(); ++i) threads.emplace_back(run, i);
  for (std::thread& t : threads) t.join();
  for (const auto& e : errors) {
    if (e) throw Error(*e);
  }
}

}  // namespace

TEST_CASE("groups of Gloo do what every group must, and delays change no bit") {
  for (const char* text : {"dp=1", "dp=3", "dp=2,tp=2,pp=2"}) {
    CAPTURE(text);
    CHECK(check_groups(run_gloo_ranks, parse_layout(text)) == "");
  }
  const uint64_t seed = rlreplay::test::seed();
  const Layout layout = parse_layout("dp=2,tp=2");
  CHECK(mixed_result(delayed(run_gloo_ranks, seed), layout, seed) ==
        mixed_result(run_thread_ranks, layout, seed));
}

TEST_CASE("libtorch and Gloo leave the arithmetic as it was") {
  ThreadPool pool(2);
  run_gloo_ranks(parse_layout("dp=2"), [](const Ranks& r) { r.world.sum({}); });
  CHECK_NOTHROW(kernels::prove_arithmetic(pool));
}
