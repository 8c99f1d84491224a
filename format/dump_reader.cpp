#include "format/dump_reader.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "format/chain_reader.h"
#include "format/checked_image.h"
#include "format/dump_files.h"
#include "format/folder.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/rule.h"
#include "format/whole_dataset.h"

namespace rlreplay::format {
namespace {

/// The first byte of a journal's first damaged line; `whole` where all of its lines are sound, or
/// where the file is so much longer than it should be that it is not read to find out.
uint64_t damage_of(const OpenFile& journal, uint64_t whole) {
  constexpr uint64_t kReadable = uint64_t{1} << 20;
  if (journal.size > whole + kReadable) return whole;
  try {
    static_cast<void>(read_journal(journal));
  } catch (const FormatError& fault) {
    return fault.problem().offset.value_or(whole);
  }
  return whole;
}

/// The journals of a finished dump are not needed to read it, but a damaged one is a finding.
void check_journal(const Folder& folder, const JournalEntry& entry) {
  const std::string path = journal_path(entry.writer);
  const std::string other = "the journal is not the one that the manifest names: ";
  const auto file = open_journal(folder, path);
  if (!file) throw FormatError(Rule::kJournal, other + "it is absent", path);
  const auto fault = [&](const std::string& found, const std::string& wanted) {
    return FormatError(Rule::kJournal, other + found + ", expected " + wanted, path, {},
                       damage_of(*file, std::min(file->size, entry.size)));
  };
  if (file->size != entry.size) {
    throw fault("it has " + std::to_string(file->size) + " bytes", std::to_string(entry.size));
  }
  if (const Hash found = hash_file(file->file.get(), file->size, path).finish();
      found != entry.hash) {
    throw fault("it hashes to " + found.hex(), entry.hash.hex());
  }
}

/// Checks the types and sizes of index and journals, before the manifest is read.
void check_files(const Folder& folder) {
  if (const auto index = folder.open_file(kIndexName)) index->expect_at_most(kMaxIndexBytes);
  for (const std::string& path : list_journals(folder)) {
    if (const auto file = open_journal(folder, path)) file->expect_at_most(kMaxJournalBytes);
  }
}

UnitIndex index_of(std::span<const UnitRecord* const> sorted) {
  return UnitIndex::parse(UnitIndex::encode(sorted));
}

/// The index of a finished dump.
UnitIndex read_index(const Folder& folder, const Manifest& manifest) {
  if (manifest.version == kOldVersion) return index_of(sorted_units({}, manifest.old_units));
  const std::string other = "the index is not the one that the manifest names: ";
  const auto fault = [&](const std::string& what, std::optional<uint64_t> at) {
    return FormatError(Rule::kIndex, other + what, kIndexName, {}, at);
  };
  const auto file = folder.open_file(kIndexName);
  if (!file) throw fault("it is absent", {});
  if (file->size != manifest.index.size) {
    throw fault("it has " + std::to_string(file->size) + " bytes, expected " +
                    std::to_string(manifest.index.size),
                std::min(file->size, manifest.index.size));
  }
  auto bytes = folder.read(kIndexName, manifest.index.size);
  if (!bytes) throw fault("it is absent", {});
  if (const Hash found = hash_of(*bytes); found != manifest.index.hash) {
    throw fault("it hashes to " + found.hex() + ", expected " + manifest.index.hash.hex(), 0);
  }
  UnitIndex index = UnitIndex::parse(std::move(*bytes));
  if (index.size() == manifest.index.units) return index;
  throw FormatError(Rule::kIndexForm,
                    "the index has " + std::to_string(index.size()) + " units, and its manifest " +
                        "says " + std::to_string(manifest.index.units),
                    kIndexName, {}, 16);
}

void check_root(const Manifest& manifest, const UnitIndex& index) {
  const Hash root = index.root(manifest.meta);
  if (root == manifest.root) return;
  throw FormatError(
      Rule::kRoot,
      "the root is given as " + manifest.root.hex() + ", and from the units follows " + root.hex(),
      kManifestName, {}, 0);
}

/// The whole units of a dump without manifest, in the form of a sealed one's; nothing where the
/// dump was sealed meanwhile.
std::optional<std::pair<Manifest, UnitIndex>> from_journals(const Folder& folder) {
  if (list_journals(folder).empty()) {
    throw FormatError(Rule::kNotADump, "the folder holds no dump", folder.path());
  }
  if (has_begun(folder) && !folder.exists(kIncompleteName)) {
    if (folder.exists(kManifestName)) return std::nullopt;
    throw FormatError(Rule::kManifestMissing, "the dump was finished, but its manifest is missing",
                      kManifestName);
  }
  std::vector<Journal> journals = read_journals(folder);
  Manifest manifest;
  manifest.complete = false;
  manifest.version = journals.front().version;
  manifest.meta = journals.front().meta;
  manifest.unstable = find_incomplete(folder);
  UnitIndex index = index_of(sorted_units(journals));
  manifest.root = index.root(manifest.meta);
  for (const Journal& journal : journals) {
    manifest.journals.push_back({journal.writer, journal.whole_bytes, {}, journal.ended});
  }
  return std::pair(std::move(manifest), std::move(index));
}

/// The units that were opened last, as far as they are small together.
class RecentUnits {
 public:
  std::optional<UnitReader> find(const UnitRecord& record) {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(
        units_, [&](const UnitReader& unit) { return unit.record() == record; });
    if (at == units_.end()) return std::nullopt;
    std::rotate(units_.begin(), at, std::next(at));
    return units_.front();
  }

  /// Lets go of what the next unit takes the place of, before it is read: its memory is used again.
  void make_room(const UnitRecord& next) {
    constexpr size_t kMost = 16;
    const std::lock_guard lock(mutex_);
    while (!units_.empty() && (units_.size() >= kMost || bytes_ + held(next) > kMostHeldUnit)) {
      bytes_ -= held(units_.back().record());
      units_.pop_back();
    }
  }

  void add(const UnitReader& unit) {
    const std::lock_guard lock(mutex_);
    units_.push_front(unit);
    bytes_ += held(unit.record());
  }

 private:
  /// Bytes of memory that an open unit takes: none above kMostHeldUnit, where its file is mapped.
  static uint64_t held(const UnitRecord& unit) {
    return unit.size <= kMostHeldUnit ? unit.size : 0;
  }

  std::mutex mutex_;
  std::deque<UnitReader> units_;  // the last one first
  uint64_t bytes_ = 0;
};

}  // namespace

struct DumpReader::State {
  State(Folder where, const ReaderOptions& how)
      : folder(std::move(where)), options(how), pool(how.threads) {}

  Folder folder;
  ReaderOptions options;
  mutable ThreadPool pool;
  std::shared_ptr<SpareBuffer> spare = std::make_shared<SpareBuffer>();  // each image, too
  Manifest manifest;
  std::optional<UnitList> units, kept;  // of `kept` those that are asked for, where not all are
  bool sealed = false;
  mutable RecentUnits recent;  // they use the pool
};

DumpReader::DumpReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DumpReader::~DumpReader() = default;
DumpReader::DumpReader(DumpReader&&) noexcept = default;

DumpReader DumpReader::open(const std::string& path, const ReaderOptions& options) {
  auto state = std::make_unique<State>(Folder::open(path), options);
  const auto bytes = state->folder.read(kManifestName, kMaxManifestBytes);
  state->sealed = bytes.has_value();
  if (state->sealed) {
    check_files(state->folder);
    state->manifest = parse_manifest(*bytes);
    state->units.emplace(read_index(state->folder, state->manifest));
    check_root(state->manifest, state->units->index());
    for (const JournalEntry& entry : state->manifest.journals) check_journal(state->folder, entry);
  } else {
    auto unfinished = from_journals(state->folder);
    if (!unfinished) return open(path, options);
    state->manifest = std::move(unfinished->first);
    state->units.emplace(std::move(unfinished->second));
  }
  return DumpReader(std::move(state));
}

const ReaderOptions& DumpReader::options() const { return state_->options; }
bool DumpReader::sealed() const { return state_->sealed; }
bool DumpReader::complete() const { return state_->sealed && state_->manifest.complete; }
const std::string& DumpReader::version() const { return state_->manifest.version; }
const std::optional<DerivedFrom>& DumpReader::derived_from() const {
  return state_->manifest.derived_from;
}
const std::string& DumpReader::meta() const { return state_->manifest.meta; }
const std::string& DumpReader::unstable() const { return state_->manifest.unstable; }
Hash DumpReader::root() const { return state_->manifest.root; }
const std::vector<JournalEntry>& DumpReader::journals() const { return state_->manifest.journals; }
const UnitList& DumpReader::units() const { return state_->kept ? *state_->kept : *state_->units; }

void DumpReader::keep(
    const std::function<bool(std::string_view kind, const std::string& group)>& wanted) {
  std::vector<UnitRecord> kept;
  for (const UnitRecord& unit : units()) {
    UnitRecord part = unit;
    std::erase_if(part.groups,
                  [&](const std::string& group) { return !wanted(kind_of(unit.path), group); });
    if (!part.groups.empty()) kept.push_back(std::move(part));
  }
  std::vector<const UnitRecord*> sorted;
  for (const UnitRecord& unit : kept) sorted.push_back(&unit);
  state_->kept.emplace(index_of(sorted));
}

const UnitRecord* DumpReader::find(std::string_view path) const {
  const auto row = state_->units->index().find(path);
  return row ? &(*state_->units)[*row] : nullptr;
}

std::vector<const UnitRecord*> DumpReader::find(std::string_view kind,
                                                std::string_view group) const {
  std::vector<const UnitRecord*> found;
  for (const size_t row : units().index().find(kind, group)) found.push_back(&units()[row]);
  return found;
}

namespace {

/// What the folder says of any file, said of a unit.
FormatError of_unit(const FormatError& fault, const std::string& path) {
  const Rule rule = fault.rule() == Rule::kFileSize ? Rule::kUnitSize : Rule::kUnitType;
  return {rule, fault.what(), path, {}, fault.problem().offset};
}

/// A dump of which nothing else is left either was one when it was opened.
std::string missing_unit(const Folder& folder) {
  const bool is_gone = !folder.exists(kManifestName) && !folder.exists(kJournalFolder);
  return is_gone ? "a unit is missing, and the dump with it: it was removed while it was read"
                 : "a unit is missing";
}

}  // namespace

template <class Use>
auto DumpReader::with_file(const UnitRecord& unit, Use use) const {
  if (const uint64_t most = state_->options.unit_bytes; unit.size > most) {
    throw FormatError(Rule::kUnitLimit,
                      "the unit has " + std::to_string(unit.size) + " bytes, more than the " +
                          std::to_string(most) + " that this reader may take",
                      unit.path);
  }
  try {
    const auto file = state_->folder.open_file(unit.path);
    if (!file) throw FormatError(Rule::kUnitMissing, missing_unit(state_->folder), unit.path);
    if (file->size != unit.size) {
      throw FormatError(
          Rule::kUnitSize,
          "the file has " + std::to_string(file->size) + " bytes, not " + std::to_string(unit.size),
          unit.path, {}, std::min(file->size, unit.size));
    }
    return use(*file);
  } catch (const FormatError& fault) {
    if (fault.rule() >= Rule::kUnitLimit) throw;
    throw of_unit(fault, unit.path);
  }
}

void DumpReader::check_there(const UnitRecord& unit) const {
  with_file(unit, [](const OpenFile&) {});
}

void DumpReader::check_unit(const UnitRecord& unit) const {
  with_file(unit,
            [&](const OpenFile& file) { CheckedImage::check(file, unit.hash, state_->pool); });
}

UnitReader DumpReader::open_unit(const UnitRecord& unit, uint64_t most_held) const {
  const UnitRecord& whole = state_->kept ? *find(unit.path) : unit;
  if (auto recent = state_->recent.find(whole)) return *recent;
  state_->recent.make_room(whole);
  CheckedImage image = with_file(unit, [&](const OpenFile& file) {
    return CheckedImage::read(file, unit.hash, state_->pool, state_->spare, most_held);
  });
  UnitReader reader = UnitReader::open(std::move(image), whole, state_->pool,
                                       state_->options.limits, state_->options.frame_checksums);
  state_->recent.add(reader);
  return reader;
}

Buffer<std::byte> DumpReader::read(const UnitReader& unit, const StoredDataset& dataset) const {
  check_whole(unit.record(), dataset);
  Buffer<std::byte> out(dataset.bytes);
  const std::span<std::byte> place(out);
  if (!dataset.base) {
    unit.read(dataset, place);
    return out;
  }
  ChainReader chain(*this, [&](const StoredDataset& other) {
    return other.name() == dataset.name() ? place : std::span<std::byte>();
  });
  const std::string_view path = dataset.path;
  chain.begin(unit, path.substr(0, path.find('/')));
  chain.read(unit, dataset);
  return out;
}

Buffer<std::byte> DumpReader::read_base(const UnitReader& unit,
                                        const StoredDataset& dataset) const {
  const UnitRecord* record = find(dataset.base->unit);
  if (record != nullptr) {
    const UnitReader parent = open_unit(*record);
    for (const StoredDataset& d : parent.datasets()) {
      if (d.name() == dataset.name() && d.hash == dataset.base->hash) {
        return read(parent, d);
      }
    }
  }
  throw FormatError(Rule::kParent,
                    "the base with the hash " + dataset.base->hash.hex() +
                        (record == nullptr ? " is in no unit: there is no " : " is not in ") +
                        dataset.base->unit,
                    unit.record().path, dataset.path);
}

}  // namespace rlreplay::format
