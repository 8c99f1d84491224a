#pragma once

#include <functional>
#include <vector>

#include "src/engine/group.h"
#include "src/engine/thread_ranks.h"

/// Groups that break the rules by which ranks sum.
namespace rlreplay::engine::test {

/// Runs ranks whose groups are changed.
using RunRanks = std::function<void(const Layout&, const std::function<void(const Ranks&)>&)>;

/// Forwards to another group; a broken rule overrides one call.
class SameGroup : public Group {
 public:
  explicit SameGroup(Group& inner) : inner_(inner) {}
  int size() const override { return inner_.size(); }
  int rank() const override { return inner_.rank(); }
  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    inner_.gather(own, all);
  }
  void sum(std::span<int64_t> values) override { inner_.sum(values); }
  void send(int to, std::span<const std::byte> bytes) override { inner_.send(to, bytes); }
  void receive(int from, std::span<std::byte> bytes) override { inner_.receive(from, bytes); }

 protected:
  Group& inner_;
};

/// Adds as binary32 in the order of ranks, what an all-reduce of floats does.
class FloatSums : public SameGroup {
 public:
  using SameGroup::SameGroup;
  void sum(std::span<int64_t> values) override {
    std::vector<int64_t> all(values.size() * static_cast<size_t>(size()));
    inner_.gather(std::as_bytes(values), std::as_writable_bytes(std::span(all)));
    for (size_t i = 0; i < values.size(); ++i) {
      float sum = 0;
      for (size_t r = 0; r < static_cast<size_t>(size()); ++r) {
        sum += static_cast<float>(all[r * values.size() + i]);
      }
      values[i] = static_cast<int64_t>(sum);
    }
  }
};

template <class Broken>
RunRanks broken_dp() {
  return [](const Layout& layout, const std::function<void(const Ranks&)>& work) {
    run_thread_ranks(layout, [&](const Ranks& r) {
      Broken dp(r.dp);
      work({r.layout, r.place, r.world, dp, r.tp, r.pp, r.cp});
    });
  };
}

}  // namespace rlreplay::engine::test
