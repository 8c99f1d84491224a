#include "src/base/thread_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "src/base/error.h"

using rlreplay::ThreadPool;

TEST_CASE("every item runs once, whatever the number of threads") {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::atomic<bool> workers_known{true};  // Catch2's assertions are for one thread
      pool.run(count, [&](int64_t item, int worker) {
        if (worker < 0 || worker >= threads) workers_known = false;
        seen[static_cast<size_t>(item)] += 1;
      });
      REQUIRE(workers_known);
      for (auto& n : seen) REQUIRE(n == 1);
    }
  }
}

TEST_CASE("many short jobs in a row see each other's results") {
  ThreadPool pool(4);
  std::vector<int64_t> data(64, 0);
  for (int round = 0; round < 2000; ++round) {
    pool.run(64, [&](int64_t i, int) { data[static_cast<size_t>(i)] += i; });
  }
  REQUIRE(std::accumulate(data.begin(), data.end(), int64_t{0}) == 2000 * 63 * 32);
}

TEST_CASE("a task's exception reaches the caller and the pool goes on") {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    REQUIRE_THROWS_AS(pool.run(100,
                               [](int64_t i, int) {
                                 if (i == 17) throw std::runtime_error("seventeen");
                               }),
                      std::runtime_error);
    std::atomic<int> n{0};
    pool.run(10, [&](int64_t, int) { ++n; });
    REQUIRE(n == 10);
  }
}

TEST_CASE("scratch is aligned and grows") {
  ThreadPool pool(1);
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{100000}}) {
    REQUIRE(reinterpret_cast<uintptr_t>(pool.scratch(0, bytes)) % 64 == 0);
  }
}

TEST_CASE("a pool of no threads is refused") { REQUIRE_THROWS_AS(ThreadPool(0), rlreplay::Error); }
