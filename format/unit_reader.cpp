#include "format/unit_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "format/codec.h"
#include "format/rule.h"
#include "format/shuffle.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

using Bytes = std::span<const std::byte>;

/// Takes an attribute out of the map: what is left belongs to the content.
template <class T>
T take(h5::Attributes& attributes, const char* name, const std::string& path,
       const std::string& dataset) {
  const auto it = attributes.find(name);
  if (it == attributes.end() || !std::holds_alternative<T>(it->second)) {
    throw FormatError(Rule::kAttribute,
                      std::string("the attribute \"") + name + "\" is absent or of another type",
                      path, dataset);
  }
  T value = std::get<T>(std::move(it->second));
  attributes.erase(it);
  return value;
}

Hash take_hash(h5::Attributes& attributes, const char* name, const std::string& path,
               const std::string& dataset) {
  const auto hash = Hash::from_hex(take<std::string>(attributes, name, path, dataset));
  if (!hash) {
    throw FormatError(Rule::kAttribute, std::string("the attribute \"") + name + "\" is no hash",
                      path, dataset);
  }
  return *hash;
}

std::optional<Base> take_base(h5::Attributes& attributes, const std::string& path,
                              const std::string& dataset) {
  const auto encoding = take<std::string>(attributes, "encoding", path, dataset);
  if (encoding == "plain") return std::nullopt;
  if (encoding != "xor") {
    throw FormatError(Rule::kAttribute, "an unknown encoding", path, dataset);
  }
  Base base{take<std::string>(attributes, "base_unit", path, dataset),
            take_hash(attributes, "base_hash", path, dataset)};
  if (!sound_unit_path(base.unit)) {
    throw FormatError(Rule::kAttribute, "the base of a difference lies outside the grammar", path,
                      dataset);
  }
  return base;
}

/// The dataset as its attributes describe it, once storage and description agree.
StoredDataset described(const h5::DatasetEntry& entry, const std::string& path) {
  h5::Attributes attributes = entry.attributes;
  StoredDataset d;
  d.path = entry.path;
  if (!sound_dataset_path(d.path)) {
    throw FormatError(Rule::kObject, "a dataset outside a group", path, d.path);
  }
  const auto dtype = dtype_from_string(take<std::string>(attributes, "dtype", path, d.path));
  if (!dtype) throw FormatError(Rule::kAttribute, "an unknown dtype", path, d.path);
  d.dtype = *dtype;
  if (!(element_of(d.dtype) == entry.layout.element)) {
    throw FormatError(Rule::kElement, "the stored type is not the one of the dtype", path, d.path);
  }
  d.shape = take<std::vector<uint64_t>>(attributes, "shape", path, d.path);
  if (elements_of(d.shape) != entry.layout.count) {
    throw FormatError(Rule::kShape, "the shape does not have as many elements as are stored", path,
                      d.path);
  }
  if (entry.layout.chunk > 0 && entry.layout.shuffled != (entry.layout.element.size > 1)) {
    throw FormatError(Rule::kLayout, "elements of several bytes are shuffled, others not", path,
                      d.path);
  }
  d.hash = take_hash(attributes, "hash", path, d.path);
  d.base = take_base(attributes, path, d.path);
  d.attributes = std::move(attributes);
  d.bytes = entry.layout.bytes();
  return d;
}

void check_root(h5::Attributes attributes, const std::string& path) {
  const auto format = take<std::string>(attributes, "format", path, "/");
  if (format != kFormat) {
    throw FormatError(Rule::kFormatName, "the unit is of another format", path, "/");
  }
  take<std::string>(attributes, "version", path, "/");
  if (take<std::string>(attributes, "unit", path, "/") != path) {
    throw FormatError(Rule::kAttribute, "the unit was written under another path", path, "/");
  }
}

}  // namespace

struct UnitReader::State {
  State(Buffer<std::byte> bytes, const UnitRecord& unit, ThreadPool& threads, h5::View opened)
      : image(std::move(bytes)), record(unit), pool(threads), view(std::move(opened)) {
    for (int i = 0; i < pool.threads(); ++i) decoders.emplace_back();
  }

  Buffer<std::byte> image;
  UnitRecord record;
  ThreadPool& pool;
  h5::View view;
  std::vector<StoredDataset> datasets;  // parallel to the view's
  std::vector<ChunkDecoder> decoders;   // one a worker

  FormatError error(Rule rule, const std::string& what, const std::string& dataset) const {
    return {rule, what, record.path, dataset};
  }
  /// Decodes one chunk; the result lies in the worker's scratch or, where `out` has room for the
  /// whole chunk, in `out`.
  Bytes decode(size_t dataset, uint64_t index, int worker, std::span<std::byte> out);
};

Bytes UnitReader::State::decode(size_t dataset, uint64_t index, int worker,
                                std::span<std::byte> out) {
  const h5::Layout& layout = view.datasets()[dataset].layout;
  const size_t size = layout.chunk * layout.element.size;
  const size_t bound = frame_bound(size);
  std::byte* scratch = pool.scratch(worker, bound + 2 * size);
  const size_t stored = view.read_chunk(dataset, index, {scratch, bound});
  const bool direct = out.size() >= size;
  const std::span<std::byte> plain =
      direct ? out.first(size) : std::span<std::byte>(scratch + bound, size);
  const std::span<std::byte> decoded =
      layout.shuffled ? std::span<std::byte>(scratch + bound + size, size) : plain;
  const FrameFault fault = decoders[static_cast<size_t>(worker)].decode({scratch, stored}, decoded);
  if (fault != FrameFault::kNone) {
    throw error(Rule::kChunk, "chunk " + std::to_string(index) + " is " + to_string(fault),
                datasets[dataset].path);
  }
  if (layout.shuffled) unshuffle(decoded, layout.element.size, plain);
  return plain;
}

UnitReader::UnitReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
UnitReader::~UnitReader() = default;
UnitReader::UnitReader(UnitReader&&) noexcept = default;

UnitReader UnitReader::open(Buffer<std::byte> image, const UnitRecord& record, ThreadPool& pool,
                            const h5::Limits& limits) {
  const Bytes bytes(image.data(), image.size());
  if (bytes.size() != record.size || hash_of(bytes) != record.hash) {
    throw FormatError(Rule::kUnitHash, "the stored bytes are not those that were written",
                      record.path);
  }
  h5::View view = h5::View::open(bytes, limits, record.path);
  auto state = std::make_unique<State>(std::move(image), record, pool, std::move(view));
  check_root(state->view.root_attributes(), record.path);
  uint64_t logical = 0;
  for (const h5::DatasetEntry& entry : state->view.datasets()) {
    state->datasets.push_back(described(entry, record.path));
    if (__builtin_add_overflow(logical, entry.layout.bytes(), &logical) ||
        logical > record.logical) {
      throw state->error(Rule::kLimit, "more decoded bytes than were announced", entry.path);
    }
  }
  if (content_of(state->datasets) != record.content || logical != record.logical) {
    throw FormatError(Rule::kContent, "the content is not the one that was announced", record.path);
  }
  return UnitReader(std::move(state));
}

const UnitRecord& UnitReader::record() const { return state_->record; }
const std::vector<StoredDataset>& UnitReader::datasets() const { return state_->datasets; }

const StoredDataset* UnitReader::find(std::string_view path) const {
  for (const StoredDataset& d : state_->datasets) {
    if (d.path == path) return &d;
  }
  return nullptr;
}

void UnitReader::read(const StoredDataset& dataset, std::span<std::byte> out, Bytes base) const {
  const auto index = static_cast<size_t>(&dataset - state_->datasets.data());
  check(index < state_->datasets.size() && out.size() == dataset.bytes, "wrong buffer for a read");
  if (dataset.base && base.size() != out.size()) {
    throw state_->error(Rule::kParent, "the base of a difference has another size", dataset.path);
  }
  const h5::Layout& layout = state_->view.datasets()[index].layout;
  if (layout.chunk == 0) {
    state_->view.read(index, out);
    if (dataset.base) xor_into(out, base);
  } else {
    const size_t size = layout.chunk * layout.element.size;
    state_->pool.run(static_cast<int64_t>(layout.chunks()), [&](int64_t item, int worker) {
      const size_t begin = static_cast<size_t>(item) * size;
      const std::span<std::byte> place = out.subspan(begin, std::min(size, out.size() - begin));
      const Bytes plain = state_->decode(index, static_cast<uint64_t>(item), worker, place);
      if (plain.data() != place.data()) std::memcpy(place.data(), plain.data(), place.size());
      if (dataset.base) xor_into(place, base.subspan(begin, place.size()));
    });
  }
  if (hash_of(Bytes(out)) != dataset.hash) {
    throw state_->error(Rule::kDatasetHash, "the decoded bytes do not have the dataset's hash",
                        dataset.path);
  }
}

void UnitReader::read_part(const StoredDataset& dataset, uint64_t first, uint64_t count,
                           std::span<std::byte> out) const {
  const auto index = static_cast<size_t>(&dataset - state_->datasets.data());
  check(index < state_->datasets.size(), "a dataset of another unit");
  const h5::Layout& layout = state_->view.datasets()[index].layout;
  check(!dataset.base && first <= layout.count && count <= layout.count - first &&
            out.size() == count * layout.element.size,
        "wrong range for a part of a dataset");
  if (count == 0) return;
  const uint64_t begin = first * layout.element.size, end = begin + out.size();
  if (layout.chunk == 0) {
    Buffer<std::byte> whole(dataset.bytes);
    state_->view.read(index, {whole.data(), whole.size()});
    std::memcpy(out.data(), whole.data() + begin, out.size());
    return;
  }
  const uint64_t size = layout.chunk * layout.element.size;
  for (uint64_t chunk = begin / size; chunk * size < end; ++chunk) {
    const Bytes plain = state_->decode(index, chunk, 0, {});
    const uint64_t from = std::max(begin, chunk * size), to = std::min(end, (chunk + 1) * size);
    std::memcpy(out.data() + (from - begin), plain.data() + (from - chunk * size), to - from);
  }
}

}  // namespace rlreplay::format
