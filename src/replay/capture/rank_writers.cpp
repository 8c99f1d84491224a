#include "src/replay/capture/rank_writers.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace rlreplay::replay {
namespace {

// Units wait here for the disk; beyond it the run waits, so that a slow disk does not cost memory.
constexpr uint64_t kQueuedBytes = uint64_t{1} << 30;

}  // namespace

RankWriters::RankWriters(format::DumpWriter first, const std::string& path, int ranks) {
  const uint64_t queued = kQueuedBytes / static_cast<uint64_t>(ranks);
  const auto add = [&](format::DumpWriter writer) {
    writers_.push_back(std::make_unique<format::BackgroundWriter>(std::move(writer), queued));
  };
  add(std::move(first));
  for (int rank = 1; rank < ranks; ++rank) {
    format::WriterOptions options;
    options.writer = std::to_string(rank);
    options.threads = 1;
    add(format::DumpWriter::join(path, options));
  }
}

RankWriters::RankWriters(format::DumpWriter all) {
  writers_.push_back(std::make_unique<format::BackgroundWriter>(std::move(all), kQueuedBytes));
}

void RankWriters::append(int rank, std::string path, std::vector<format::Dataset> datasets) {
  const size_t at = std::min(static_cast<size_t>(rank), writers_.size() - 1);
  writers_[at]->append(std::move(path), std::move(datasets));
}

void RankWriters::when_stored(std::function<void()> act) {
  const auto left = std::make_shared<std::atomic<size_t>>(writers_.size());
  for (const auto& writer : writers_) {
    writer->when_stored([left, act] {
      if (--*left == 0) act();
    });
  }
}

std::optional<std::vector<std::vector<format::UnitRecord>>> RankWriters::drain() {
  std::vector<std::vector<format::UnitRecord>> out;
  for (const auto& writer : writers_) {
    auto units = writer->drain();
    if (!units) return std::nullopt;
    out.push_back(std::move(*units));
  }
  return out;
}

Hash RankWriters::seal(const format::SealOptions& options) {
  for (size_t i = 1; i < writers_.size(); ++i) writers_[i]->finish().end();
  return writers_.front()->finish().seal(options);
}

}  // namespace rlreplay::replay
