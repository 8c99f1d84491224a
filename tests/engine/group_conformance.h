#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "src/engine/group.h"
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

/// The ranks of the world that are in a group, in its order.
inline std::vector<int> members(const Ranks& r, int RankPlace::*axis, int size) {
  std::vector<int> out;
  for (int i = 0; i < size; ++i) {
    RankPlace place = r.place;
    place.*axis = i;
    out.push_back(rank_of(r.layout, place));
  }
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

/// The first thing that a rank of the layout sees wrong.
inline std::string check_groups(const RunRanks& run, const Layout& layout) {
  std::vector<std::string> wrong(static_cast<size_t>(layout.ranks()));
  run(layout, [&](const Ranks& r) {
    std::vector<int> all;
    for (int i = 0; i < layout.ranks(); ++i) all.push_back(i);
    std::string& out = wrong[static_cast<size_t>(rank_of(layout, r.place))];
    const auto check = [&](const char* name, Group& group, const std::vector<int>& ranks) {
      const std::string found = check_group(r, group, ranks);
      if (!found.empty() && out.empty()) out = std::string(name) + ": " + found;
    };
    check("world", r.world, all);
    check("dp", r.dp, members(r, &RankPlace::dp, layout.dp));
    check("tp", r.tp, members(r, &RankPlace::tp, layout.tp));
    check("pp", r.pp, members(r, &RankPlace::pp, layout.pp));
    check("cp", r.cp, members(r, &RankPlace::cp, layout.cp));
  });
  for (const std::string& w : wrong) {
    if (!w.empty()) return w;
  }
  return {};
}

}  // namespace rlreplay::engine::test
