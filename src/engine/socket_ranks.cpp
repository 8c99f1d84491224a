#include "src/engine/socket_ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/error.h"

namespace rlreplay::engine {
namespace {

SharedBytes shared(std::span<const std::byte> bytes) {
  return std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
}

/// A group of ranks that are connected. A send never waits, and every exchange sends all that it
/// has before it receives: so no two ranks wait for each other.
class SocketGroup : public Group {
 public:
  SocketGroup(RankMesh& mesh, RankGroup name, std::vector<int> members)
      : mesh_(mesh),
        name_(name),
        members_(std::move(members)),
        rank_(static_cast<int>(std::ranges::find(members_, mesh.rank()) - members_.begin())) {}

  int size() const override { return static_cast<int>(members_.size()); }
  int rank() const override { return rank_; }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    check(all.size() == own.size() * members_.size(),
          "a gather needs room for what every rank gives");
    const RankCall call{name_, RankCall::Kind::kGather};
    give_all(call, shared(own), own.size());
    for (int i = 0; i < size(); ++i) {
      const auto to = all.subspan(static_cast<size_t>(i) * own.size(), own.size());
      if (i == rank_) {
        copy(own, to);
      } else {
        copy(mesh_.receive(member(i), call, own.size()), to);
      }
    }
  }

  /// Each rank adds a share of the elements, and all get it.
  void sum(std::span<int64_t> values) override {
    const RankCall call{name_, RankCall::Kind::kSum};
    for (int i = 0; i < size(); ++i) {
      if (i != rank_) {
        mesh_.send(member(i), call, shared(std::as_bytes(share(values, i))), values.size());
      }
    }
    const std::span<int64_t> own = share(values, rank_);
    std::vector<int64_t> theirs(own.size());
    for (int i = 0; i < size(); ++i) {
      if (i == rank_) continue;
      copy(mesh_.receive(member(i), call, values.size()),
           std::as_writable_bytes(std::span(theirs)));
      for (size_t k = 0; k < own.size(); ++k) {
        own[k] =
            static_cast<int64_t>(static_cast<uint64_t>(own[k]) + static_cast<uint64_t>(theirs[k]));
      }
    }
    give_all(call, shared(std::as_bytes(own)), values.size());
    for (int i = 0; i < size(); ++i) {
      if (i == rank_) continue;
      copy(mesh_.receive(member(i), call, values.size()), std::as_writable_bytes(share(values, i)));
    }
  }

  void send(int to, std::span<const std::byte> bytes) override {
    mesh_.send(member(to), {name_, RankCall::Kind::kMessage}, shared(bytes), bytes.size());
  }
  void receive(int from, std::span<std::byte> bytes) override {
    copy(mesh_.receive(member(from), {name_, RankCall::Kind::kMessage}, bytes.size()), bytes);
  }

 private:
  int member(int rank) const { return members_[static_cast<size_t>(rank)]; }

  std::span<int64_t> share(std::span<int64_t> values, int rank) const {
    const size_t n = values.size(), ranks = members_.size(), r = static_cast<size_t>(rank);
    const size_t begin = n * r / ranks;
    return values.subspan(begin, n * (r + 1) / ranks - begin);
  }

  void give_all(const RankCall& call, const SharedBytes& bytes, size_t whole) {
    for (int i = 0; i < size(); ++i) {
      if (i != rank_) mesh_.send(member(i), call, bytes, whole);
    }
  }

  static void copy(std::span<const std::byte> from, std::span<std::byte> to) {
    check(from.size() == to.size(), "another rank's part of a call has another size");
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  }

  RankMesh& mesh_;
  const RankGroup name_;
  const std::vector<int> members_;  // ranks of the world
  const int rank_;
};

}  // namespace

SocketRanks::SocketRanks(RankMesh& mesh, const Layout& layout) {
  check(mesh.size() == layout.ranks(), "a layout has as many ranks as are connected");
  const RankPlace place = place_of(layout, mesh.rank());
  const GroupMembers members = groups_of(layout, place);
  for (int i = 0; i < kGroupCount; ++i) {
    groups_.push_back(std::make_unique<SocketGroup>(mesh, static_cast<RankGroup>(i),
                                                    members[static_cast<size_t>(i)]));
  }
  ranks_ = std::make_unique<Ranks>(
      Ranks{layout, place, *groups_[0], *groups_[1], *groups_[2], *groups_[3], *groups_[4]});
}
SocketRanks::~SocketRanks() = default;

}  // namespace rlreplay::engine
