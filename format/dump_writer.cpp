#include "format/dump_writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fcntl.h>

#include "format/canonical.h"
#include "format/checked_image.h"
#include "format/dump_files.h"
#include "format/folder.h"
#include "format/group_content.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/misuse.h"
#include "format/record.h"
#include "format/rule.h"
#include "format/unit_counts.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text));
}

/// That an acknowledged unit is there and has its size; `bytes`: and its bytes their hash.
void check_unit(const Folder& folder, const UnitRecord& unit, bool bytes, ThreadPool& pool) {
  const auto file = folder.open_file(unit.path);
  if (!file) throw FormatError(Rule::kUnitMissing, "an acknowledged unit is missing", unit.path);
  if (file->size != unit.size) {
    throw FormatError(Rule::kUnitSize,
                      "an acknowledged unit has " + std::to_string(file->size) + " bytes, not " +
                          std::to_string(unit.size),
                      unit.path);
  }
  if (bytes) CheckedImage::check(*file, unit.hash, pool);
}

std::shared_ptr<System> sealing_system(const WriterOptions& options) {
  return options.system ? options.system : std::make_shared<System>();
}

/// The system calls until a dump is sealed.
std::shared_ptr<System> appending_system(const WriterOptions& options) {
  std::shared_ptr<System> system = sealing_system(options);
  if (options.durable == Durable::kAppended) return system;
  return std::make_shared<UnsyncedSystem>(std::move(system));
}

}  // namespace

namespace {

constexpr char kDone[] = "the dump is sealed, or this writer of it has ended";

}  // namespace

struct DumpWriter::State {
  State(Folder where, const WriterOptions& how, std::shared_ptr<System> calls)
      : folder(std::move(where)), options(how), system(std::move(calls)), pool(how.threads) {}

  Folder folder;
  WriterOptions options;
  std::shared_ptr<System> system;
  ThreadPool pool;
  std::string meta, unstable;
  std::vector<UnitRecord> units;
  std::set<std::string, std::less<>> paths;    // of the units
  std::set<std::string, std::less<>> writers;  // whose units they are
  uint64_t bytes = 0;                          // of the units in the index
  std::optional<JournalWriter> journal;        // the own one
  std::vector<JournalWriter> adopted;          // of writers that died, in whose place this one is
  bool done = false;
  uint64_t foreign = 0;  // units of other writers, as far as they were counted
  std::map<std::string, std::pair<uint64_t, uint64_t>> counted;  // bytes and lines of a journal

  void count_others();
  void take(const Journal& journal);
  void take(const UnitRecord& unit);
  void adopt(Descriptor file, const Journal& journal);
  void begin_journal();
  void keep_journal(bool reread);
  void end_journals();
  void release();
  [[nodiscard]] std::vector<Journal> read_others() const;
  void remove_unacknowledged(std::span<const Journal> others);
  [[nodiscard]] std::vector<JournalEntry> entries(std::span<const Journal> others) const;
};

DumpWriter::DumpWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DumpWriter::~DumpWriter() = default;
DumpWriter::DumpWriter(DumpWriter&&) noexcept = default;

namespace {

/// Makes the folder of journals and locks the dump, whoever removes it meanwhile.
Descriptor make_and_lock(const Folder& folder, System& system) {
  while (true) {
    folder.make_folder(kJournalFolder, system);
    if (Descriptor lock = lock_dump(folder)) return lock;
  }
}

void check_writer_name(const std::string& writer) {
  if (sound_name(writer)) return;
  throw misuse("a writer's name has 1 to 100 of A-Z a-z 0-9 . _ - and no dot in front", writer);
}

}  // namespace

DumpWriter DumpWriter::create(const std::string& path, std::string_view meta,
                              const WriterOptions& options) {
  check_writer_name(options.writer);
  std::string canonical = canonical_object(meta, "meta");
  ranks_of(canonical);
  std::string unstable = canonical_object(options.unstable.value_or("{}"), "unstable");
  const std::shared_ptr<System> system = appending_system(options);
  Folder folder = Folder::create(path, *system);
  if (!nothing_acknowledged(folder)) throw occupied_by_dump(folder);
  const Descriptor lock = make_and_lock(folder, *system);
  for (const std::string& journal : list_journals(folder)) {  // of writers that began nothing
    lock_journal(folder, journal).close();
  }
  if (!nothing_acknowledged(folder)) throw occupied_by_dump(folder);  // it was, until it was ours
  const std::string own = journal_path(options.writer);
  Descriptor file = lock_journal(folder, own, system.get());
  make_durable(folder.descriptor(), *system, path);
  auto state = std::make_unique<State>(std::move(folder), options, system);
  state->meta = std::move(canonical);
  state->unstable = std::move(unstable);
  write_incomplete(state->folder, state->unstable, *system);
  Journal journal;
  journal.writer = options.writer;
  state->writers.insert(options.writer);
  state->journal.emplace(std::move(file), journal, *system, path + "/" + own);
  state->journal->begin(state->meta);
  return DumpWriter(std::move(state));
}

DumpWriter DumpWriter::join(const std::string& path, const WriterOptions& options) {
  check_writer_name(options.writer);
  auto state = std::make_unique<State>(Folder::open(path), options, appending_system(options));
  const Folder& folder = state->folder;
  const Descriptor lock = lock_dump(folder);
  if (!lock) throw FormatError(Rule::kNotADump, "the folder holds no dump to join", path);
  if (folder.exists(kManifestName)) {
    throw misuse("the dump is sealed: no writer can join it", path);
  }
  const std::vector<Journal> heads = read_heads(folder);
  if (heads.size() >= kMaxWriters) {
    throw Error(ErrorCode::kUnsupported,
                "a dump has at most " + std::to_string(kMaxWriters) + " writers", path);
  }
  state->meta = heads.front().meta;
  state->unstable = find_incomplete(folder);
  const std::string own = journal_path(options.writer);
  Descriptor file = lock_journal(folder, own, state->system.get());
  Journal journal;
  journal.writer = options.writer;
  const bool begun = std::ranges::find(heads, options.writer, &Journal::writer) != heads.end();
  if (begun) journal = read_journal(*open_journal(folder, own));
  if (journal.ended) {
    throw misuse("the writer " + options.writer + " has ended: join by another name", path);
  }
  state->take(journal);
  state->journal.emplace(std::move(file), journal, *state->system, path + "/" + own);
  if (!begun) state->journal->begin(state->meta);
  return DumpWriter(std::move(state));
}

DumpWriter DumpWriter::resume(const std::string& path, const WriterOptions& options) {
  check_writer_name(options.writer);
  auto state = std::make_unique<State>(Folder::open(path), options, appending_system(options));
  Folder& folder = state->folder;
  if (list_journals(folder).empty()) {
    throw FormatError(Rule::kNotADump, "the folder holds no dump to resume", path);
  }
  finish_sealing(folder);
  DumpLock lock = lock_whole(folder);
  check_incomplete(folder);
  if (folder.exists(kManifestName)) {
    throw misuse("the dump is finished: there is nothing to resume", path);
  }
  make_durable(folder.descriptor(), *state->system, path);
  const std::vector<Journal> journals = read_journals(folder);
  if (!lock.dump || journals.front().writer.empty()) {
    throw misuse("the dump was begun by a program of version " + journals.front().version +
                     " of the format, which alone can go on with it",
                 path);
  }
  for (const Journal& journal : journals) {
    for (const UnitRecord& unit : journal.units)
      check_unit(folder, unit, options.check, state->pool);
    state->take(journal);
    const auto held = std::ranges::find(lock.journals, journal_path(journal.writer),
                                        &std::pair<std::string, Descriptor>::first);
    if (!journal.ended) state->adopt(std::move(held->second), journal);
  }
  state->meta = journals.front().meta;
  state->unstable =
      options.unstable ? canonical_object(*options.unstable, "unstable") : find_incomplete(folder);
  state->remove_unacknowledged({});
  write_incomplete(folder, state->unstable, *state->system);
  return DumpWriter(std::move(state));
}

/// The journal of the own name is gone on with, else any whose writer died, else a new one is
/// begun with the first unit.
void DumpWriter::State::adopt(Descriptor file, const Journal& of) {
  adopted.emplace_back(std::move(file), of, *system, folder.path() + "/" + journal_path(of.writer));
  if (of.writer == options.writer) {
    journal.emplace(std::move(adopted.back()));
    adopted.pop_back();
  }
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

void DumpWriter::State::remove_unacknowledged(std::span<const Journal> others) {
  std::set<std::string, std::less<>> theirs;
  for (const Journal& other : others) {
    theirs.insert(journal_path(other.writer));
    for (const UnitRecord& unit : other.units) theirs.insert(unit.path);
  }
  for (const std::string& writer : writers) theirs.insert(journal_path(writer));
  remove_leftovers(folder, *system, [&](const std::string& file) {
    return paths.contains(file) || theirs.contains(file) || file == kManifestName ||
           file == kIncompleteName;
  });
}

void DumpWriter::State::take(const Journal& of) {
  writers.insert(of.writer);
  for (const UnitRecord& unit : of.units) take(unit);
}

void DumpWriter::State::take(const UnitRecord& unit) {
  units.push_back(unit);
  paths.insert(unit.path);
  bytes += index_bytes(unit);
}

/// Another program may have removed or changed the journal: without it nobody could find what was
/// acknowledged, which is known here.
void DumpWriter::State::keep_journal(bool reread) {
  if (!journal || journal->is_intact(reread)) return;
  const std::string path = journal_path(journal->writer());
  folder.write_whole(path, bytes_of(journal_text(journal->writer(), meta, units)), *system);
  throw Error(ErrorCode::kEnvironment,
              "another program has removed or changed " + path +
                  " while the dump was being written: it is written anew with the " +
                  std::to_string(units.size()) +
                  " units that are stored; go on with them (capture --resume), or close the dump "
                  "(seal --recovered)",
              folder.path());
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
  if (state_->done || ended) throw misuse(kDone, path);
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

/// What the manifest says of all journals, sorted by writer.
std::vector<JournalEntry> DumpWriter::State::entries(std::span<const Journal> others) const {
  std::vector<JournalEntry> out;
  const auto add_own = [&](const JournalWriter& own) {
    out.push_back({own.writer(), own.size(), own.hash(), own.ended()});
  };
  if (journal) add_own(*journal);
  for (const JournalWriter& of : adopted) add_own(of);
  const auto add_stored = [&](const std::string& writer) {
    if (std::ranges::find(out, writer, &JournalEntry::writer) != out.end()) return;
    const std::string path = journal_path(writer);
    const auto file = open_journal(folder, path);
    if (!file) throw Error(ErrorCode::kEnvironment, "a journal has just been removed", path);
    out.push_back(
        {writer, file->size, hash_file(file->file.get(), file->size, path).finish(), true});
  };
  for (const std::string& writer : writers) add_stored(writer);
  for (const Journal& other : others) add_stored(other.writer);
  std::ranges::sort(out, {}, &JournalEntry::writer);
  return out;
}

namespace {

/// Whether somebody still writes to a journal.
bool at_work(const Folder& folder, const std::string& writer) {
  try {
    lock_journal(folder, journal_path(writer)).close();
    return false;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUsage) throw;
    return true;
  }
}

const Journal* find_open(std::span<const Journal> journals) {
  const auto open = std::ranges::find(journals, false, &Journal::ended);
  return open == journals.end() ? nullptr : &*open;
}

}  // namespace

Hash DumpWriter::seal(const SealOptions& options) {
  State& state = *state_;
  const Folder& folder = state.folder;
  if (state.done) throw misuse(kDone, folder.path());
  const Descriptor lock = lock_dump(folder);
  if (folder.exists(kManifestName)) throw misuse("the dump is sealed", folder.path());
  std::vector<Journal> others = state.read_others();
  if (const Journal* open = find_open(others)) {
    const bool works = at_work(folder, open->writer);
    throw misuse("the writer " + open->writer +
                     (works ? " is at work: whoever ends last seals the dump"
                            : " died before its end: let it go on, or close the dump without it "
                              "(seal --recovered)"),
                 folder.path());
  }
  options.complete ? state.end_journals() : state.keep_journal(true);
  return seal_all(options, std::move(others));
}

void DumpWriter::State::end_journals() {
  if (done) throw misuse(kDone, folder.path());
  keep_journal(true);
  if (journal) journal->end();
  for (JournalWriter& of : adopted) of.end();
}

void DumpWriter::State::release() {
  done = true;
  journal.reset();
  adopted.clear();
}

void DumpWriter::end() {
  state_->end_journals();
  state_->release();
}

std::optional<Hash> DumpWriter::finish(const SealOptions& options) {
  State& state = *state_;
  state.end_journals();
  const Folder& folder = state.folder;
  const Descriptor lock = lock_dump(folder);
  std::vector<Journal> others = state.read_others();
  const bool sealed = folder.exists(kManifestName);  // by one who saw the end of this one
  if (sealed || find_open(others) != nullptr) {
    state.release();
    return std::nullopt;
  }
  return seal_all(options, std::move(others));
}

/// With the lock of the dump.
Hash DumpWriter::seal_all(const SealOptions& options, std::vector<Journal> others) {
  State& state = *state_;
  const Folder& folder = state.folder;
  const Durable durable = state.options.durable;
  state.remove_unacknowledged(others);
  Manifest manifest;
  manifest.meta = state.meta;
  manifest.unstable =
      options.unstable ? canonical_object(*options.unstable, "unstable") : state.unstable;
  manifest.derived_from = options.derived_from;
  const UnitIndex index = UnitIndex::parse(UnitIndex::encode(sorted_units(others, state.units)));
  manifest.index = {index.bytes().size(), index.size(), hash_of(index.bytes())};
  manifest.root = index.root(manifest.meta);
  manifest.journals = state.entries(others);
  manifest.complete = std::ranges::all_of(manifest.journals, &JournalEntry::ended);
  // The manifest says that all units are there: it comes to the disk after them.
  const auto system = durable == Durable::kSealed ? sealing_system(state.options) : state.system;
  if (durable == Durable::kSealed) {
    make_filesystem_durable(folder.descriptor(), *system, folder.path());
  }
  folder.write_whole(kIndexName, index.bytes(), *system);
  folder.write_whole(kManifestName, bytes_of(manifest_text(manifest)), *system);
  folder.remove(kIncompleteName, *system);
  state.release();
  return manifest.root;
}

}  // namespace rlreplay::format
