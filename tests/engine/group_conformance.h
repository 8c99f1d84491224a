#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/engine/group.h"
#include "src/engine/rank_groups.h"
#include "tests/random.h"

/// What every implementation of engine::Group must do, whatever carries its bytes.
namespace rlreplay::engine::test {

/// Runs the work of every rank of a layout, and throws what the first failing rank threw.
using RunRanks = std::function<void(const Layout&, const std::function<void(const Ranks&)>&)>;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}
template <class T>
std::span<std::byte> writable(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v));
}

/// What rank `rank` of the world gives in call `call`.
inline std::vector<int64_t> given(int rank, int call, int64_t size) {
  rlreplay::test::Random random(static_cast<uint64_t>(rank * 1000 + call + 1));
  std::vector<int64_t> out;
  for (int64_t i = 0; i < size; ++i) out.push_back(static_cast<int64_t>(random.bits()));
  return out;
}

/// What is wrong with a group's calls; empty where nothing is.
inline std::string check_group(const Ranks& r, Group& group, const std::vector<int>& ranks) {
  if (group.size() != static_cast<int>(ranks.size())) return "size";
  const int self = ranks[static_cast<size_t>(group.rank())];
  if (self != rank_of(r.layout, r.place)) return "rank";
  int call = 0;
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{100003}}) {
    std::vector<int64_t> gathered(static_cast<size_t>(size) * ranks.size()), want, total;
    group.gather(bytes_of(given(self, ++call, size)), writable(gathered));
    total.assign(static_cast<size_t>(size), 0);
    for (const int rank : ranks) {
      const auto values = given(rank, call, size);
      want.insert(want.end(), values.begin(), values.end());
      for (size_t i = 0; i < values.size(); ++i) {
        total[i] = static_cast<int64_t>(static_cast<uint64_t>(total[i]) +
                                        static_cast<uint64_t>(values[i]));
      }
    }
    if (gathered != want) return "gather of " + std::to_string(size);
    std::vector<int64_t> sum = given(self, call, size);
    group.sum(sum);
    if (sum != total) return "sum of " + std::to_string(size);
  }
  // Everyone sends two messages to everyone before it receives one: sending does not wait.
  for (int to = 0; to < group.size(); ++to) {
    for (const int n : {3, 50001}) {
      if (to != group.rank()) group.send(to, bytes_of(given(self, 100 + to, n)));
    }
  }
  for (int from = 0; from < group.size(); ++from) {
    for (const int n : {3, 50001}) {
      if (from == group.rank()) continue;
      std::vector<int64_t> message(static_cast<size_t>(n));
      group.receive(from, writable(message));
      const int sender = ranks[static_cast<size_t>(from)];
      if (message != given(sender, 100 + group.rank(), n)) return "message";
    }
  }
  return {};
}

/// Many calls at once: every group's in turn, sizes at random, results that the next call reads.
inline int64_t mixed_calls(const Ranks& r, uint64_t seed, int calls) {
  rlreplay::test::Random random(seed);  // the same on every rank
  Group* const groups[] = {&r.world, &r.dp, &r.tp, &r.pp, &r.cp};
  std::vector<int64_t> values{r.world.rank() + 1};
  for (int call = 0; call < calls; ++call) {
    Group& group = *groups[random.below(5)];
    values.resize(random.below(300), call);
    if (random.below(2) == 0) {
      group.sum(values);
    } else {
      std::vector<int64_t> all(values.size() * static_cast<size_t>(group.size()));
      group.gather(bytes_of(values), writable(all));
      values.assign(1, 0);
      for (const int64_t v : all) values[0] = values[0] * 31 + static_cast<int64_t>(v);
    }
    for (int64_t& v : values) v &= INT64_MAX >> 8;  // what follows does not overflow
    if (!values.empty()) values[0] += r.world.rank();
  }
  values.resize(1);
  r.world.sum(values);
  return values[0];
}

/// The first thing that a rank of the layout sees wrong. Ranks need no common memory: one that sees
/// something fails.
inline std::string check_groups(const RunRanks& run, const Layout& layout) {
  try {
    run(layout, [&](const Ranks& r) {
      const auto check = [&](RankGroup which, Group& group) {
        const auto members = groups_of(layout, r.place)[static_cast<size_t>(which)];
        const std::string wrong = check_group(r, group, members);
        if (!wrong.empty()) {
          throw Error(ErrorCode::kCorrupt, std::string(name(which)) + ": " + wrong);
        }
      };
      check(RankGroup::kWorld, r.world);
      check(RankGroup::kDp, r.dp);
      check(RankGroup::kTp, r.tp);
      check(RankGroup::kPp, r.pp);
      check(RankGroup::kCp, r.cp);
    });
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

/// What mixed calls end with, which all ranks must agree on.
inline int64_t mixed_result(const RunRanks& run, const Layout& layout, uint64_t seed) {
  int64_t out = 0;
  run(layout, [&](const Ranks& r) {
    const int64_t own = mixed_calls(r, seed, 60);
    std::vector<int64_t> all(static_cast<size_t>(layout.ranks()));
    r.world.gather(std::as_bytes(std::span(&own, 1)), writable(all));
    if (std::ranges::count(all, own) != std::ssize(all)) {
      throw Error(ErrorCode::kCorrupt, "ranks end with different numbers");
    }
    if (r.world.rank() == 0) out = own;
  });
  return out;
}

}  // namespace rlreplay::engine::test
