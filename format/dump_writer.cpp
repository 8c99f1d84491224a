#include "format/dump_writer.h"

#include <algorithm>
#include <utility>

#include "format/dump_files.h"
#include "format/dump_writer_state.h"
#include "format/group_content.h"
#include "format/misuse.h"
#include "format/record.h"
#include "format/unit_counts.h"
#include "src/base/error.h"

namespace rlreplay::format {

DumpWriter::DumpWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DumpWriter::~DumpWriter() = default;
DumpWriter::DumpWriter(DumpWriter&&) noexcept = default;

void DumpWriter::State::take(const Journal& of) {
  writers.insert(of.writer);
  for (const UnitRecord& unit : of.units) take(unit);
}

void DumpWriter::State::take(const UnitRecord& unit) {
  units.push_back(unit);
  paths.insert(unit.path);
  bytes += index_bytes(unit);
}

const std::string& DumpWriter::meta() const { return state_->meta; }
const std::vector<UnitRecord>& DumpWriter::units() const { return state_->units; }

const UnitRecord* DumpWriter::find(std::string_view path) const {
  if (!state_->paths.contains(path)) return nullptr;
  return &*std::ranges::find(state_->units, path, &UnitRecord::path);
}

/// A unit that has been written under a temporary name, or its own, and is locked.
struct DumpWriter::Stored {
  PendingFile file;
  UnitRecord record;
};

DumpWriter::Stored DumpWriter::store(const NewUnit& unit) {
  check_free(unit.path);
  if (!sound_unit_path(unit.path)) {
    throw misuse("the path of a unit lies outside the grammar", unit.path);
  }
  PendingFile file = state_->folder.begin_file(unit.path, *state_->system);
  FileSink sink(file.get(), *state_->system, file.where());
  UnitWriter writer(unit.path, state_->pool, state_->options.packing, sink);
  std::vector<Dataset> hashed(unit.datasets.begin(), unit.datasets.end());
  for (Dataset& dataset : hashed) {
    dataset.known_hash = dataset.hash();
    writer.add(dataset);
  }
  UnitRecord record = writer.finish_file();
  record.group_contents = group_contents(kind_of(unit.path), hashed);
  record.counts = unit_counts(kind_of(unit.path), hashed);
  check_claim(file, unit.path);
  return {std::move(file), std::move(record)};
}

UnitRecord DumpWriter::append(const std::string& path, std::span<const Dataset> datasets) {
  const NewUnit unit{path, datasets};
  return append({&unit, 1}).front();
}

std::vector<UnitRecord> DumpWriter::append(std::span<const NewUnit> units) {
  State& state = *state_;
  state.count_others();
  if (units.empty()) return {};
  std::vector<Stored> stored;
  std::vector<UnitRecord> records;
  std::set<std::string_view> paths;
  uint64_t bytes = 0;
  for (const NewUnit& unit : units) {
    if (!paths.insert(unit.path).second) throw misuse("a unit is given twice", unit.path);
    stored.push_back(store(unit));
    records.push_back(stored.back().record);
    check_room(records.back(), records.size() - 1, bytes);
    bytes += index_bytes(records.back());
  }
  constexpr size_t kBatch = 4;  // fewer are made durable one by one, at no cost to other files
  if (stored.size() < kBatch) {
    for (Stored& unit : stored) unit.file.commit();
  } else {
    // A batch waits for the disk once for its bytes and once for its names.
    const bool durable = state.options.durable == Durable::kAppended;
    const auto sync = [&] {
      if (!durable) return;
      make_filesystem_durable(state.folder.descriptor(), *state.system, state.folder.path());
    };
    sync();
    for (Stored& unit : stored) unit.file.take_name();
    sync();
  }
  acknowledge(records);
  return records;
}

UnitRecord DumpWriter::append(const EncodedUnit& unit) {
  check_free(unit.record.path);
  state_->count_others();
  check_room(unit.record, 0, 0);
  PendingFile file = state_->folder.begin_file(unit.record.path, *state_->system);
  write_all(file.get(), unit.image.bytes(), *state_->system, file.where());
  check_claim(file, unit.record.path);
  file.commit();
  acknowledge({&unit.record, 1});
  return unit.record;
}

void DumpWriter::check_free(const std::string& path) const {
  const bool ended = state_->journal && state_->journal->ended();
  if (state_->done || ended) throw misuse(kWriterDone, path);
  if (find(path) != nullptr) throw misuse("the dump has this unit already", path);
}

/// That no other writer has the path: a file of this name may be one that is not acknowledged yet,
/// whose writer holds its lock, or what a writer left that died.
void DumpWriter::check_claim(const PendingFile& file, const std::string& path) const {
  using Name = PendingFile::Name;
  const Name name = file.find_name();
  if (name == Name::kFree) return;
  bool theirs = name == Name::kHeld;
  for (const Journal& other : theirs ? std::vector<Journal>{} : state_->read_others()) {
    theirs = theirs || std::ranges::find(other.units, path, &UnitRecord::path) != other.units.end();
  }
  if (theirs) throw misuse("another writer of this dump has written this unit", path);
}

/// What a reader refuses must not be acknowledged: a dump that grew too large is closed with what
/// it has. The record comes on top of `units` units of its batch, which take `bytes` in the index.
void DumpWriter::check_room(const UnitRecord& record, uint64_t units, uint64_t bytes) const {
  constexpr uint64_t kRoom = 1024;  // of a header, of what stands around a unit in a line
  const State& state = *state_;
  const WriterOptions& options = state.options;
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kUnsupported, what, state.folder.path() + "/" + record.path);
  };
  if (record.size > options.unit_bytes) {
    refuse("the unit has " + std::to_string(record.size) + " bytes, of which readers take " +
           std::to_string(options.unit_bytes) + ": it is not stored");
  }
  const uint64_t journal = state.journal ? state.journal->size() : 0;
  if (state.units.size() + state.foreign + units < kMaxUnits &&
      state.bytes + bytes + index_bytes(record) + kRoom <= options.index_bytes &&
      journal + 8 * bytes + unit_json(record).size() + kRoom <= kMaxJournalBytes) {
    return;
  }
  refuse("a dump holds at most " + std::to_string(kMaxUnits) + " units, " +
         std::to_string(options.index_bytes >> 20) + " MiB of an index and " +
         std::to_string(kMaxJournalBytes >> 20) +
         " MiB of a journal, and is full: what it has is whole; close it (rlreplay seal "
         "--recovered) and begin another");
}

/// How many units the other writers have, looked at now and then: what they have read of it once
/// is not read again.
void DumpWriter::State::count_others() {
  constexpr size_t kOften = 1024;
  if (units.size() % kOften != 0) return;
  foreign = 0;
  for (const std::string& path : list_journals(folder)) {
    if (writers.contains(*writer_of(path))) continue;
    const auto file = open_journal(folder, path);
    if (!file) continue;
    auto& [at, lines] = counted[path];
    lines += count_lines(*file, at);
    at = std::max(at, file->size);
    foreign += lines > 0 ? lines - 1 : 0;
  }
}

void DumpWriter::acknowledge(std::span<const UnitRecord> records) {
  state_->begin_journal();
  state_->keep_journal(false);
  state_->journal->append(records);
  for (const UnitRecord& record : records) state_->take(record);
}

void DumpWriter::State::begin_journal() {
  if (journal) return;
  if (!adopted.empty()) {
    journal.emplace(std::move(adopted.front()));
    adopted.erase(adopted.begin());
    return;
  }
  const Descriptor lock = lock_dump(folder);
  Journal fresh;
  fresh.writer = options.writer;
  for (int number = 0; folder.exists(journal_path(fresh.writer)); ++number) {
    fresh.writer = std::to_string(number);
  }
  const std::string path = journal_path(fresh.writer);
  journal.emplace(lock_journal(folder, path, system.get()), fresh, *system,
                  folder.path() + "/" + path);
  journal->begin(meta);
  writers.insert(fresh.writer);
}

/// The other writers' journals, whose units are none of `units`.
std::vector<Journal> DumpWriter::State::read_others() const {
  std::vector<Journal> others;
  for (const std::string& path : list_journals(folder)) {
    if (writers.contains(*writer_of(path))) continue;
    const auto file = open_journal(folder, path);
    if (!file) continue;
    Journal other = read_journal(*file);
    if (other.lines > 0) others.push_back(std::move(other));
  }
  return others;
}

}  // namespace rlreplay::format
