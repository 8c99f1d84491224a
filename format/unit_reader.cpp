#include "format/unit_reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "format/checked_image.h"
#include "format/codec.h"
#include "format/faults.h"
#include "format/ordered_hash.h"
#include "format/rule.h"
#include "format/shuffle.h"
#include "format/unit_description.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

using Bytes = std::span<const std::byte>;

/// Puts decoded bytes in their place, on top of the base's where they are a difference. The base
/// may lie in that place already.
void put(Bytes plain, std::span<std::byte> place, Bytes base, bool difference) {
  if (!difference) {
    if (plain.data() != place.data()) std::memcpy(place.data(), plain.data(), place.size());
    return;
  }
  if (base.data() != place.data()) std::memcpy(place.data(), base.data(), place.size());
  xor_into(place, plain);
}

}  // namespace

struct UnitReader::State {
  State(CheckedImage bytes, const UnitRecord& unit, ThreadPool& threads, const h5::Limits& limits,
        bool frame_checksums);

  CheckedImage image;
  UnitRecord record;
  ThreadPool& pool;
  std::vector<h5::DatasetEntry> entries;
  std::vector<StoredDataset> datasets;  // parallel to the entries
  std::vector<ChunkDecoder> decoders;   // one a worker

  FormatError error(Rule rule, const std::string& what, const std::string& dataset,
                    std::optional<uint64_t> offset = {}) const {
    return {rule, what, record.path, dataset, offset};
  }
  /// Where a stored piece of a dataset begins in the file; nothing where it has none.
  std::optional<uint64_t> offset_of(size_t dataset, uint64_t piece) const {
    const std::vector<Bytes>& pieces = entries[dataset].pieces;
    if (piece >= pieces.size()) return std::nullopt;
    return static_cast<uint64_t>(pieces[piece].data() - image.bytes().data());
  }
  /// Errors: kDatasetHash where a dataset's bytes hash to something else.
  void check_hash(size_t dataset, const Hash& found) const {
    const StoredDataset& d = datasets[dataset];
    if (found == d.hash) return;
    throw error(Rule::kDatasetHash,
                "the decoded bytes hash to " + found.hex() + ", expected " + d.hash.hex(), d.path,
                offset_of(dataset, 0));
  }
  /// Decodes one chunk; the result lies in the worker's scratch or, where `out` has room for the
  /// whole chunk, in `out`.
  Bytes decode(size_t dataset, uint64_t index, int worker, std::span<std::byte> out);
  /// Chunk `index` of a dataset that is read as a whole.
  void decode_into(const Read& read, uint64_t index, int worker);
  size_t index_of(const StoredDataset& dataset) const;
  void check_read(const Read& read) const;
};

UnitReader::State::State(CheckedImage bytes, const UnitRecord& unit, ThreadPool& threads,
                         const h5::Limits& limits, bool frame_checksums)
    : image(std::move(bytes)), record(unit), pool(threads) {
  Faults faults(record.path);
  h5::Contents contents = h5::contents_of(image, limits, record.path, faults);
  check_root(contents, record.path, faults);
  for (const h5::DatasetEntry& entry : contents.datasets) {
    datasets.push_back(described(entry, faults));
  }
  const uint64_t sum = sum_of(datasets, std::min(record.logical, limits.unit_bytes), faults);
  faults.raise();
  check_announced(record, datasets, sum);
  entries = std::move(contents.datasets);
  for (int i = 0; i < pool.threads(); ++i) decoders.emplace_back(frame_checksums);
  image.release(image.bytes());
}

Bytes UnitReader::State::decode(size_t dataset, uint64_t index, int worker,
                                std::span<std::byte> out) {
  const h5::DatasetEntry& entry = entries[dataset];
  const size_t size = entry.layout.chunk * entry.layout.element.size;
  const Bytes stored = entry.pieces[index];
  const size_t room = 2 * size + (image.is_mapped() ? stored.size() : 0);
  const std::span<std::byte> scratch(pool.scratch(worker, room), room);
  const std::span<std::byte> plain = out.size() >= size ? out.first(size) : scratch.first(size);
  const std::span<std::byte> decoded = entry.layout.shuffled ? scratch.subspan(size, size) : plain;
  const Bytes frame = image.fetch(stored, scratch.subspan(2 * size));
  const FrameFault fault = decoders[static_cast<size_t>(worker)].decode(frame, decoded);
  if (fault != FrameFault::kNone) {
    throw error(Rule::kFrame, "chunk " + std::to_string(index) + " is " + to_string(fault),
                datasets[dataset].path, offset_of(dataset, index));
  }
  if (entry.layout.shuffled) unshuffle(decoded, entry.layout.element.size, plain);
  return plain;
}

void UnitReader::State::decode_into(const Read& read, uint64_t index, int worker) {
  const size_t dataset = index_of(*read.dataset);
  const h5::DatasetEntry& entry = entries[dataset];
  const bool difference = read.dataset->base.has_value();
  if (entry.layout.chunk == 0) {
    if (read.out.empty()) return;
    put(entry.pieces[0], read.out, read.base, difference);
    return image.release(entry.pieces[0]);
  }
  const size_t size = entry.layout.chunk * entry.layout.element.size, begin = index * size;
  const auto place = read.out.subspan(begin, std::min(size, read.out.size() - begin));
  const Bytes under = difference ? read.base.subspan(begin, place.size()) : Bytes();
  const std::span<std::byte> direct = difference ? std::span<std::byte>() : place;
  const Bytes plain = decode(dataset, index, worker, direct);
  put(plain.first(place.size()), place, under, difference);
}

size_t UnitReader::State::index_of(const StoredDataset& dataset) const {
  const auto index = static_cast<size_t>(&dataset - datasets.data());
  check(index < datasets.size(), "a dataset of another unit");
  return index;
}

void UnitReader::State::check_read(const Read& read) const {
  check(read.out.size() == datasets[index_of(*read.dataset)].bytes, "wrong buffer for a read");
  if (read.dataset->base && read.base.size() != read.out.size()) {
    throw error(Rule::kParent,
                "the base of a difference has " + std::to_string(read.base.size()) +
                    " bytes, and the difference " + std::to_string(read.out.size()),
                read.dataset->path);
  }
}

UnitReader::UnitReader(std::shared_ptr<State> state) : state_(std::move(state)) {}

UnitReader UnitReader::open(CheckedImage image, const UnitRecord& record, ThreadPool& pool,
                            const h5::Limits& limits, bool frame_checksums) {
  return UnitReader(
      std::make_shared<State>(std::move(image), record, pool, limits, frame_checksums));
}

UnitReader UnitReader::open(Buffer<std::byte> image, const UnitRecord& record, ThreadPool& pool,
                            const h5::Limits& limits, bool frame_checksums) {
  return open(CheckedImage(std::move(image), record.size, record.hash, record.path), record, pool,
              limits, frame_checksums);
}

const UnitRecord& UnitReader::record() const { return state_->record; }
const std::vector<StoredDataset>& UnitReader::datasets() const { return state_->datasets; }

std::span<const StoredDataset> UnitReader::datasets_of(std::string_view group) const {
  const auto& all = datasets();
  const std::string prefix = std::string(group) + "/";
  const auto begin = std::ranges::lower_bound(all, prefix, {}, &StoredDataset::path);
  const auto within = [&](const StoredDataset& d) { return d.path.starts_with(prefix); };
  return {begin, std::partition_point(begin, all.end(), within)};
}

const StoredDataset* UnitReader::find(std::string_view path) const {
  const auto at = std::ranges::lower_bound(datasets(), path, {}, &StoredDataset::path);
  return at == datasets().end() || at->path != path ? nullptr : &*at;
}

void UnitReader::read(const StoredDataset& dataset, std::span<std::byte> out, Bytes base) const {
  const Read one{&dataset, out, base};
  read({&one, 1});
}

void UnitReader::read(std::span<const Read> reads) const {
  std::deque<OrderedHash> hashes;
  std::vector<int64_t> ends;  // of the chunks of each
  int64_t chunks = 0;
  for (const Read& read : reads) {
    state_->check_read(read);
    const h5::Layout& layout = state_->entries[state_->index_of(*read.dataset)].layout;
    const size_t piece = layout.chunk > 0 ? layout.chunk * layout.element.size : read.out.size();
    hashes.emplace_back(read.out, std::max<size_t>(piece, 1));
    ends.push_back(chunks += layout.chunk > 0 ? static_cast<int64_t>(layout.chunks()) : 1);
  }
  state_->pool.run(chunks, [&](int64_t item, int worker) {
    const auto at = std::upper_bound(ends.begin(), ends.end(), item) - ends.begin();
    const auto which = static_cast<size_t>(at);
    const auto index = static_cast<size_t>(which == 0 ? item : item - ends[which - 1]);
    state_->decode_into(reads[which], index, worker);
    if (!reads[which].out.empty()) hashes[which].add(index);
  });
  for (size_t i = 0; i < reads.size(); ++i) {
    state_->check_hash(state_->index_of(*reads[i].dataset), hashes[i].finish());
  }
}

void UnitReader::stream(const StoredDataset& dataset, const Use& use) const {
  const size_t which = state_->index_of(dataset);
  const h5::DatasetEntry& entry = state_->entries[which];
  const h5::Layout& layout = entry.layout;
  check(!dataset.base, "a difference is read with its base");
  Hasher hasher;
  const auto take = [&](Bytes piece) {
    hasher.update(piece);
    if (use) use(piece);
  };
  constexpr size_t kStep = size_t{4} << 20;
  const Bytes whole = layout.chunk == 0 && !entry.pieces.empty() ? entry.pieces[0] : Bytes();
  for (size_t at = 0; at < whole.size(); at += kStep) {
    const Bytes piece = whole.subspan(at, std::min(kStep, whole.size() - at));
    take(piece);
    state_->image.release(piece);
  }
  constexpr uint64_t kBatchBytes = uint64_t{8} << 20;
  const uint64_t size = layout.chunk * layout.element.size;
  const uint64_t batch =
      size == 0 ? 0 : std::min(layout.chunks(), std::max<uint64_t>(1, kBatchBytes / size));
  // One item of each batch's job takes the batch before.
  Buffer<std::byte> now(batch * size), before(batch * size);
  size_t there = 0;
  for (uint64_t first = 0; first < layout.chunks(); first += batch) {
    const uint64_t count = std::min(batch, layout.chunks() - first);
    state_->pool.run(static_cast<int64_t>(count) + 1, [&](int64_t item, int worker) {
      if (item == 0) return take({before.data(), there});
      const auto i = static_cast<uint64_t>(item - 1);
      const std::span<std::byte> place(now.data() + i * size, size);
      state_->decode(which, first + i, worker, place);
    });
    there = std::min(count * size, layout.bytes() - first * size);
    now.swap(before);
  }
  take({before.data(), there});
  state_->check_hash(which, hasher.finish());
}

}  // namespace rlreplay::format
