#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "src/engine/thread_ranks.h"
#include "tests/engine/group_conformance.h"
#include "tests/random.h"

/// Groups that let a random time pass before each call, so that ranks arrive in any order.
namespace rlreplay::engine::test {

class DelayedGroup : public Group {
 public:
  DelayedGroup(Group& inner, rlreplay::test::Random& random) : inner_(inner), random_(random) {}
  int size() const override { return inner_.size(); }
  int rank() const override { return inner_.rank(); }
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    wait();
    inner_.gather(own, all);
  }
  void sum(std::span<int64_t> values) override {
    wait();
    inner_.sum(values);
  }
  void send(int to, std::span<const std::byte> bytes) override {
    wait();
    inner_.send(to, bytes);
  }
  void receive(int from, std::span<std::byte> bytes) override {
    wait();
    inner_.receive(from, bytes);
  }

 private:
  void wait() {
    if (random_.below(4) == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(300)));
    }
  }
  Group& inner_;
  rlreplay::test::Random& random_;
};

/// `run` with delays at random per rank and call.
inline RunRanks delayed(const RunRanks& run, uint64_t seed) {
  return [=](const Layout& layout, const std::function<void(const Ranks&)>& work) {
    run(layout, [&](const Ranks& r) {
      rlreplay::test::Random random(seed * 1000 + static_cast<uint64_t>(rank_of(layout, r.place)));
      DelayedGroup world(r.world, random), dp(r.dp, random), tp(r.tp, random), pp(r.pp, random),
          cp(r.cp, random);
      work({r.layout, r.place, world, dp, tp, pp, cp});
    });
  };
}

inline void run_delayed_ranks(const Layout& layout, uint64_t seed,
                              const std::function<void(const Ranks&)>& work) {
  delayed(run_thread_ranks, seed)(layout, work);
}

}  // namespace rlreplay::engine::test
