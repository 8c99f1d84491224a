#include "src/engine/torch/gloo_ranks.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "src/base/error.h"
#include "src/engine/rank_groups.h"

namespace rlreplay::engine {
namespace {

/// Runs c10d's calls, whose errors are this program's.
template <class Call>
auto with_c10d(const Call& call) {
  try {
    return call();
  } catch (const c10::Error& e) {
    throw Error(ErrorCode::kEnvironment, std::string("gloo: ") + e.what_without_backtrace());
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kEnvironment, std::string("gloo: ") + e.what());
  }
}

at::Tensor bytes_tensor(size_t size) { return at::empty({static_cast<int64_t>(size)}, at::kByte); }

at::Tensor copy_of(std::span<const std::byte> bytes) {
  at::Tensor out = bytes_tensor(bytes.size());
  if (!bytes.empty()) std::memcpy(out.data_ptr(), bytes.data(), bytes.size());
  return out;
}

/// A group of c10d. A message's tag counts those before it to the same rank, so that they are taken
/// in the order in which they were sent.
class GlooGroup : public Group {
 public:
  GlooGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
            std::chrono::milliseconds timeout)
      : rank_(rank), size_(size) {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }
  ~GlooGroup() override {
    try {
      for (const Sent& sent : sent_) sent.work->wait();
    } catch (const std::exception&) {  // nobody took it
    }
  }

  int size() const override { return size_; }
  int rank() const override { return rank_; }

  void gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    check(all.size() == own.size() * static_cast<size_t>(size_),
          "a gather needs room for what every rank gives");
    // Gloo wants an element; one of its own keeps an empty call a meeting.
    const size_t part = own.size() + 1;
    at::Tensor in = bytes_tensor(part), out = bytes_tensor(part * static_cast<size_t>(size_));
    auto* data = static_cast<std::byte*>(in.data_ptr());
    data[0] = std::byte{0};
    if (!own.empty()) std::memcpy(data + 1, own.data(), own.size());
    with_c10d([&] { group_->_allgather_base(out, in)->wait(); });
    const auto* gathered = static_cast<const std::byte*>(out.data_ptr());
    for (int i = 0; i < size_ && !own.empty(); ++i) {
      const auto rank = static_cast<size_t>(i);
      std::memcpy(all.data() + rank * own.size(), gathered + rank * part + 1, own.size());
    }
  }

  void sum(std::span<int64_t> values) override {
    if (values.empty()) return gather({}, {});
    std::vector<at::Tensor> tensors{
        at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kLong)};
    with_c10d([&] { group_->allreduce(tensors)->wait(); });
  }

  void send(int to, std::span<const std::byte> bytes) override {
    std::erase_if(sent_, [](const Sent& s) { return s.work->isCompleted(); });
    std::vector<at::Tensor> tensors{copy_of(bytes)};
    const int tag = sent_to_[to]++;
    with_c10d([&] { sent_.push_back({tensors[0], group_->send(tensors, to, tag)}); });
  }

  void receive(int from, std::span<std::byte> bytes) override {
    std::vector<at::Tensor> tensors{bytes_tensor(bytes.size())};
    const int tag = received_from_[from]++;
    with_c10d([&] { group_->recv(tensors, from, tag)->wait(); });
    if (!bytes.empty()) std::memcpy(bytes.data(), tensors[0].data_ptr(), bytes.size());
  }

 private:
  /// A message on its way, whose bytes live until they have gone.
  struct Sent {
    at::Tensor bytes;
    c10::intrusive_ptr<c10d::Work> work;
  };

  const int rank_, size_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::vector<Sent> sent_;
  std::map<int, int> sent_to_, received_from_;  // messages so far, by rank
};

}  // namespace

struct GlooRanks::Parts {
  c10::intrusive_ptr<c10d::Store> store;
  std::vector<std::unique_ptr<Group>> groups;
  std::unique_ptr<Ranks> ranks;
};

GlooRanks::GlooRanks(const std::string& host, uint16_t port, int rank, const Layout& layout,
                     std::chrono::milliseconds timeout)
    : parts_(std::make_unique<Parts>()) {
  with_c10d([&] {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = rank == 0;
    options.numWorkers = static_cast<size_t>(layout.ranks());
    options.timeout = timeout;
    parts_->store = c10::make_intrusive<c10d::TCPStore>(host, options);
    const RankPlace place = place_of(layout, rank);
    const GroupMembers all = groups_of(layout, place);
    for (int i = 0; i < kGroupCount; ++i) {
      const std::vector<int>& members = all[static_cast<size_t>(i)];
      const auto self = std::ranges::find(members, rank) - members.begin();
      // A store of its own for each group: by name and first member.
      const std::string prefix =
          std::string(name(static_cast<RankGroup>(i))) + std::to_string(members.front());
      parts_->groups.push_back(std::make_unique<GlooGroup>(
          c10::make_intrusive<c10d::PrefixStore>(prefix, parts_->store), static_cast<int>(self),
          static_cast<int>(members.size()), timeout));
    }
    const auto& g = parts_->groups;
    parts_->ranks =
        std::make_unique<Ranks>(Ranks{layout, place, *g[0], *g[1], *g[2], *g[3], *g[4]});
  });
}
GlooRanks::~GlooRanks() = default;

const Ranks& GlooRanks::ranks() const { return *parts_->ranks; }

}  // namespace rlreplay::engine
