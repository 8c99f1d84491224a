#include "format/unit_writer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "format/codec.h"
#include "format/misuse.h"
#include "format/shuffle.h"
#include "src/base/buffer.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

using Bytes = std::span<const std::byte>;

/// The part of `bytes` that chunk `index` holds; the last one may be short.
Bytes part(Bytes bytes, size_t chunk, size_t index) {
  const size_t begin = index * chunk;
  return bytes.subspan(begin, std::min(chunk, bytes.size() - begin));
}

/// All but the hash.
StoredDataset stored_form(const Dataset& dataset) {
  return {dataset.path, dataset.dtype,      dataset.shape,       {},
          dataset.base, dataset.attributes, dataset.bytes.size()};
}

/// What a reader refuses, or reads as another text, must not be stored.
void check_attributes(const h5::Attributes& attributes, const std::string& where) {
  const auto refuse = [&](const std::string& name, const std::string& what) {
    throw Error(ErrorCode::kUnsupported, "\"" + name + "\" of this dataset " + what, where);
  };
  constexpr size_t kOwn = 6;  // dtype, shape, hash, encoding, base_unit, base_hash
  const h5::Limits limits;
  if (attributes.size() + kOwn > limits.attributes) {
    refuse(attributes.rbegin()->first,
           "is one attribute too many: readers take " + std::to_string(limits.attributes - kOwn));
  }
  for (const auto& [name, value] : attributes) {
    const auto* text = std::get_if<std::string>(&value);
    const size_t bytes =
        text != nullptr ? text->size() : 8 * std::get<std::vector<uint64_t>>(value).size();
    if (text != nullptr && text->find('\0') != text->npos) {
      refuse(name, "has a text with a NUL, at which every reader of HDF5 ends it");
    }
    if (bytes > limits.attribute_bytes) {
      refuse(name, "has " + std::to_string(bytes) + " bytes, of which readers take " +
                       std::to_string(limits.attribute_bytes) + ": fewer names, or shorter ones");
    }
  }
}

/// The hash of a file that all threads read back in pieces; one item of each job hashes the pieces
/// of the job before.
Hash hash_of_file(Sink& file, uint64_t size, ThreadPool& pool) {
  constexpr size_t kPiece = size_t{1} << 18;
  const size_t room = 8 * kPiece;
  Buffer<std::byte> now(room), before(room);
  size_t there = 0;
  Hasher hasher;
  for (uint64_t first = 0; first < size; first += room) {
    const auto count = static_cast<size_t>(std::min<uint64_t>(room, size - first));
    pool.run(static_cast<int64_t>((count + kPiece - 1) / kPiece) + 1, [&](int64_t item, int) {
      if (item == 0) return hasher.update({before.data(), there});
      const size_t begin = static_cast<size_t>(item - 1) * kPiece;
      file.read(first + begin, {now.data() + begin, std::min(kPiece, count - begin)});
    });
    now.swap(before);
    there = count;
  }
  hasher.update({before.data(), there});
  return hasher.finish();
}

}  // namespace

struct UnitWriter::State {
  State(std::string unit_path, ThreadPool& threads, const Packing& how, Sink* out)
      : path(std::move(unit_path)),
        pool(threads),
        packing(how),
        sink(out == nullptr ? memory : *out),
        file(how.level, sink) {
    for (int i = 0; i < pool.threads(); ++i) encoders.emplace_back(packing.level);
  }

  std::string path;
  ThreadPool& pool;
  Packing packing;
  MemorySink memory;  // where no other sink was given
  Sink& sink;
  h5::Builder file;
  std::vector<ChunkEncoder> encoders;  // one a worker
  std::vector<StoredDataset> stored;
  std::set<std::string> paths;

  /// Compressed chunks of one dataset, each in a place of the largest possible one's size.
  struct Batch {
    size_t first = 0;
    std::vector<size_t> sizes;
    size_t place = 0;
    Buffer<std::byte> frames;
  };
  // Kept: fresh memory costs as much as copying it. `before` is not stored yet.
  Batch now, before;

  void check_dataset(const Dataset& dataset) const;
  h5::Layout layout_of(const Dataset& dataset) const;
  void begin(const Dataset& dataset, const h5::Layout& layout, const Hash& hash);
  void write_chunks(const Dataset& dataset, const h5::Layout& layout, StoredDataset& form);
  /// Stores what is compressed. Nothing else may be put into the file before.
  void store();
  size_t encode(const Dataset& dataset, const h5::Layout& layout, size_t index, int worker,
                std::span<std::byte> frame);
  /// The record of the file, once it has its end.
  UnitRecord record_of(uint64_t size, const Hash& hash);
};

void UnitWriter::State::check_dataset(const Dataset& dataset) const {
  const std::string where = path + ":" + dataset.path;
  if (!sound_dataset_path(dataset.path)) {
    throw misuse("a dataset's path has 2 to 4 names of [A-Za-z0-9._%-] joined by slashes", where);
  }
  const auto elements = elements_of(dataset.shape);
  if (!elements || *elements > UINT64_MAX / 8 ||
      *elements * size_of(dataset.dtype) != dataset.bytes.size()) {
    throw misuse("the bytes of a dataset do not fit its dtype and shape", where);
  }
  if (dataset.base &&
      (dataset.base_bytes.size() != dataset.bytes.size() || !sound_unit_path(dataset.base->unit))) {
    throw misuse("the base of a difference must have the tensor's size and a unit's path", where);
  }
  check_attributes(dataset.attributes, where);
  for (const char* name : {"dtype", "shape", "hash", "encoding", "base_unit", "base_hash"}) {
    if (dataset.attributes.contains(name)) {
      throw misuse(std::string("the attribute \"") + name + "\" is the format's own", where);
    }
  }
}

h5::Layout UnitWriter::State::layout_of(const Dataset& dataset) const {
  h5::Layout layout{element_of(dataset.dtype), *elements_of(dataset.shape), 0, false};
  if (dataset.bytes.size() > packing.plain_bytes || (dataset.base && layout.count > 0)) {
    layout.chunk = std::min<uint64_t>(layout.count, packing.chunk_bytes / layout.element.size);
    layout.shuffled = layout.element.size > 1;
  }
  return layout;
}

size_t UnitWriter::State::encode(const Dataset& dataset, const h5::Layout& layout, size_t index,
                                 int worker, std::span<std::byte> frame) {
  const size_t size = layout.chunk * layout.element.size;
  Bytes chunk = part(dataset.bytes, size, index);
  std::byte* scratch = pool.scratch(worker, 2 * size);
  if (chunk.size() < size || dataset.base) {
    const std::span<std::byte> copy(scratch + size, size);
    std::memcpy(copy.data(), chunk.data(), chunk.size());
    std::memset(copy.data() + chunk.size(), 0, size - chunk.size());
    if (dataset.base) {
      xor_into(copy.first(chunk.size()), part(dataset.base_bytes, size, index));
    }
    chunk = copy;
  }
  if (layout.shuffled) {
    shuffle(chunk, layout.element.size, {scratch, size});
    chunk = {scratch, size};
  }
  return encoders[static_cast<size_t>(worker)].encode(chunk, frame);
}

/// Chunks are compressed by all threads, a batch at a time; beside that one item of a batch's job
/// stores the batch before, of this dataset or the last one, and one of the first batch's hashes
/// the dataset.
void UnitWriter::State::write_chunks(const Dataset& dataset, const h5::Layout& layout,
                                     StoredDataset& form) {
  const size_t bound = frame_bound(layout.chunk * layout.element.size);
  const size_t batch = std::min<size_t>(layout.chunks(), 8 * static_cast<size_t>(pool.threads()));
  for (size_t first = 0; first < layout.chunks(); first += batch) {
    now.first = first;
    now.sizes.resize(std::min(batch, layout.chunks() - first));
    now.place = bound;
    now.frames.resize(batch * bound);
    pool.run(static_cast<int64_t>(now.sizes.size()) + 2, [&](int64_t item, int worker) {
      if (item == 0) return store();
      if (item == 1) {
        if (first == 0) form.hash = dataset.hash();
        return;
      }
      const auto i = static_cast<size_t>(item - 2);
      now.sizes[i] = encode(dataset, layout, first + i, worker, {&now.frames[i * bound], bound});
    });
    if (first == 0) begin(dataset, layout, form.hash);
    std::swap(now, before);
  }
}

void UnitWriter::State::store() {
  for (size_t i = 0; i < before.sizes.size(); ++i) {
    file.write_chunk(before.first + i, {&before.frames[i * before.place], before.sizes[i]});
  }
  before.sizes.clear();
}

void UnitWriter::State::begin(const Dataset& dataset, const h5::Layout& layout, const Hash& hash) {
  h5::Attributes attributes = dataset.attributes;
  attributes["dtype"] = std::string(to_string(dataset.dtype));
  attributes["shape"] = dataset.shape;
  attributes["hash"] = hash.hex();
  attributes["encoding"] = std::string(dataset.base ? "xor" : "plain");
  if (dataset.base) {
    attributes["base_unit"] = dataset.base->unit;
    attributes["base_hash"] = dataset.base->hash.hex();
  }
  file.begin(dataset.path, layout, attributes);
}

std::unique_ptr<UnitWriter::State> UnitWriter::begin(std::string path, ThreadPool& pool,
                                                     const Packing& packing, Sink* sink) {
  if (!sound_unit_path(path)) {
    throw misuse(
        "a unit's path is KIND/NAME.h5 or KIND/NAME/NAME.h5, KIND rollout, train, "
        "weights or x-VENDOR",
        path);
  }
  // The most is that of SPEC.md, "Storage"; the least keeps the index of chunks small.
  if (packing.chunk_bytes < (64 << 10) || packing.chunk_bytes > (4 << 20)) {
    throw misuse("chunks have 64 KiB to 4 MiB", path);
  }
  auto state = std::make_unique<State>(std::move(path), pool, packing, sink);
  state->file.root_attribute("format", kFormat);
  state->file.root_attribute("version", this_version());
  state->file.root_attribute("unit", state->path);
  return state;
}

UnitWriter::UnitWriter(std::string path, ThreadPool& pool, const Packing& packing)
    : state_(begin(std::move(path), pool, packing, nullptr)) {}
UnitWriter::UnitWriter(std::string path, ThreadPool& pool, const Packing& packing, Sink& sink)
    : state_(begin(std::move(path), pool, packing, &sink)) {}
UnitWriter::~UnitWriter() = default;
UnitWriter::UnitWriter(UnitWriter&&) noexcept = default;

void UnitWriter::add(const Dataset& dataset) {
  state_->check_dataset(dataset);
  if (!state_->paths.insert(dataset.path).second) {
    throw misuse("a dataset is added twice", state_->path + ":" + dataset.path);
  }
  StoredDataset stored = stored_form(dataset);
  const h5::Layout layout = state_->layout_of(dataset);
  if (layout.chunk > 0) {
    state_->write_chunks(dataset, layout, stored);
  } else {
    stored.hash = dataset.hash();
    state_->store();
    state_->begin(dataset, layout, stored.hash);
    state_->file.write(dataset.bytes);
  }
  state_->stored.push_back(std::move(stored));
}

EncodedUnit UnitWriter::finish() {
  state_->store();
  const uint64_t size = state_->file.finish();
  const Hash hash = hash_of(state_->memory.bytes());
  EncodedUnit unit{state_->record_of(size, hash), {}};
  unit.image = {state_->memory.release(), static_cast<size_t>(size)};
  return unit;
}

UnitRecord UnitWriter::finish_file() {
  state_->store();
  const uint64_t size = state_->file.finish();
  return state_->record_of(size, hash_of_file(state_->sink, size, state_->pool));
}

UnitRecord UnitWriter::State::record_of(uint64_t size, const Hash& hash) {
  UnitRecord record;
  record.path = path;
  record.size = size;
  record.hash = hash;
  std::set<std::string> groups;
  for (const StoredDataset& d : stored) {
    record.logical += d.bytes;
    groups.insert(d.path.substr(0, d.path.find('/')));
  }
  record.groups.assign(groups.begin(), groups.end());
  record.content = content_of(std::move(stored));
  return record;
}

Hash content_of(std::span<const Dataset> datasets) {
  std::vector<StoredDataset> stored;
  for (const Dataset& dataset : datasets) {
    stored.push_back(stored_form(dataset));
    stored.back().hash = dataset.hash();
  }
  return content_of(std::move(stored));
}

}  // namespace rlreplay::format
