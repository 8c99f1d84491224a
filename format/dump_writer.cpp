#include "format/dump_writer.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fcntl.h>

#include "format/canonical.h"
#include "format/dump_files.h"
#include "format/folder.h"
#include "format/group_content.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/misuse.h"
#include "format/record.h"
#include "format/rule.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text));
}

void check_unit(const Folder& folder, const UnitRecord& unit) {
  const auto bytes = folder.read(unit.path, unit.size);
  if (!bytes) throw FormatError(Rule::kUnitMissing, "an acknowledged unit is missing", unit.path);
  if (bytes->size() != unit.size || hash_of({bytes->data(), bytes->size()}) != unit.hash) {
    throw FormatError(Rule::kUnitHash, "an acknowledged unit is damaged", unit.path);
  }
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

struct DumpWriter::State {
  State(Folder where, const WriterOptions& how, std::shared_ptr<System> calls)
      : folder(std::move(where)), options(how), system(std::move(calls)), pool(how.threads) {}

  Folder folder;
  WriterOptions options;
  std::shared_ptr<System> system;
  ThreadPool pool;
  std::string meta, unstable;
  std::vector<UnitRecord> units;
  std::set<std::string, std::less<>> paths;  // of the units
  uint64_t record_bytes = 0;                 // of the units' records
  std::optional<JournalWriter> journal;      // holds the lock
  bool sealed = false;

  void take(const UnitRecord& unit);
  void remove_unacknowledged();
  void keep_journal(bool reread);
};

DumpWriter::DumpWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DumpWriter::~DumpWriter() = default;
DumpWriter::DumpWriter(DumpWriter&&) noexcept = default;

DumpWriter DumpWriter::create(const std::string& path, std::string_view meta,
                              const WriterOptions& options) {
  std::string canonical = canonical_object(meta, "meta");
  ranks_of(canonical);
  std::string unstable = canonical_object(options.unstable.value_or("{}"), "unstable");
  const std::shared_ptr<System> system = appending_system(options);
  Folder folder = Folder::create(path, *system);
  if (!nothing_acknowledged(folder)) throw occupied_by_dump(folder);
  Descriptor file = lock_journal(folder, O_CREAT);
  if (!nothing_acknowledged(folder)) throw occupied_by_dump(folder);  // it was, until it was ours
  make_durable(folder.descriptor(), *system, path);
  auto state = std::make_unique<State>(std::move(folder), options, system);
  state->meta = std::move(canonical);
  state->unstable = std::move(unstable);
  write_incomplete(state->folder, state->unstable, *system);
  state->journal.emplace(std::move(file), Journal{}, *system, path + "/" + kJournalName);
  state->journal->begin(state->meta);
  return DumpWriter(std::move(state));
}

DumpWriter DumpWriter::resume(const std::string& path, const WriterOptions& options) {
  auto state = std::make_unique<State>(Folder::open(path), options, appending_system(options));
  Folder& folder = state->folder;
  if (!folder.exists(kJournalName)) {
    throw FormatError(Rule::kNotADump, "the folder holds no dump to resume", path);
  }
  finish_sealing(folder);
  Descriptor file = lock_journal(folder, 0);
  if (folder.exists(kManifestName)) {
    throw misuse("the dump is finished: there is nothing to resume", path);
  }
  make_durable(folder.descriptor(), *state->system, path);
  const auto bytes = folder.read(kJournalName, kMaxJournalBytes);
  if (!bytes) throw FormatError(Rule::kNotADump, "the journal has just been removed", path);
  const Journal journal = parse_journal({bytes->data(), bytes->size()});
  if (journal.meta.empty()) {
    throw FormatError(Rule::kNotADump, "the dump ended before it began: start anew", path);
  }
  for (const UnitRecord& unit : journal.units) check_unit(folder, unit);
  state->meta = journal.meta;
  for (const UnitRecord& unit : journal.units) state->take(unit);
  state->unstable =
      options.unstable ? canonical_object(*options.unstable, "unstable") : find_incomplete(folder);
  state->remove_unacknowledged();
  write_incomplete(folder, state->unstable, *state->system);
  state->journal.emplace(std::move(file), journal, *state->system, path + "/" + kJournalName);
  return DumpWriter(std::move(state));
}

void DumpWriter::State::remove_unacknowledged() {
  for (const std::string& file : folder.list()) {
    const bool kept = paths.contains(file) || file == kJournalName || file == kManifestName ||
                      file == kIncompleteName;
    if (is_dump_file(file) && !kept) folder.remove(file, *system);
  }
}

void DumpWriter::State::take(const UnitRecord& unit) {
  units.push_back(unit);
  paths.insert(unit.path);
  record_bytes += unit_json(unit).size() + 1;
}

/// Another program may have removed or changed the journal: without it nobody could find what was
/// acknowledged, which is known here.
void DumpWriter::State::keep_journal(bool reread) {
  if (journal->is_intact(reread)) return;
  folder.write_whole(kJournalName, bytes_of(journal_text(meta, units)), *system);
  throw Error(ErrorCode::kEnvironment,
              "another program has removed or changed journal.jsonl while the dump was being "
              "written: it is written anew with the " +
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

UnitRecord DumpWriter::append(const std::string& path, std::span<const Dataset> datasets) {
  check_free(path);
  if (!sound_unit_path(path)) throw misuse("the path of a unit lies outside the grammar", path);
  PendingFile file = state_->folder.begin_file(path, *state_->system);
  FileSink sink(file.get(), *state_->system, file.where());
  UnitWriter unit(path, state_->pool, state_->options.packing, sink);
  std::vector<Dataset> hashed(datasets.begin(), datasets.end());
  for (Dataset& dataset : hashed) {
    dataset.known_hash = dataset.hash();
    unit.add(dataset);
  }
  UnitRecord record = unit.finish_file();
  record.group_contents = group_contents(kind_of(path), hashed);
  check_room(record);
  file.commit();
  return acknowledge(record);
}

UnitRecord DumpWriter::append(const EncodedUnit& unit) {
  check_free(unit.record.path);
  check_room(unit.record);
  state_->folder.write_whole(unit.record.path, unit.image.bytes(), *state_->system);
  return acknowledge(unit.record);
}

void DumpWriter::check_free(const std::string& path) const {
  if (state_->sealed) throw misuse("the dump is sealed", path);
  if (find(path) != nullptr) throw misuse("the dump has this unit already", path);
}

/// What a reader refuses must not be acknowledged: a dump that grew too large is closed with what
/// it has.
void DumpWriter::check_room(const UnitRecord& record) const {
  constexpr uint64_t kHeader = uint64_t{1} << 20;  // the manifest's other keys, with room to spare
  const WriterOptions& options = state_->options;
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kUnsupported, what, state_->folder.path() + "/" + record.path);
  };
  if (record.size > options.unit_bytes) {
    refuse("the unit has " + std::to_string(record.size) + " bytes, of which readers take " +
           std::to_string(options.unit_bytes) + ": it is not stored");
  }
  const uint64_t bytes = state_->record_bytes + unit_json(record).size() + 1 + state_->meta.size() +
                         state_->unstable.size() + kHeader;
  if (state_->units.size() < kMaxUnits && bytes <= options.manifest_bytes) return;
  refuse("a dump holds at most " + std::to_string(kMaxUnits) + " units and " +
         std::to_string(options.manifest_bytes >> 20) +
         " MiB of their records, and is full: what it has is whole; close it (rlreplay seal "
         "--recovered) and begin another");
}

UnitRecord DumpWriter::acknowledge(const UnitRecord& record) {
  state_->keep_journal(false);
  state_->journal->append(record);
  state_->take(record);
  return record;
}

Hash DumpWriter::seal(const SealOptions& options) {
  if (state_->sealed) throw misuse("the dump is sealed", state_->folder.path());
  const Durable durable = state_->options.durable;
  state_->remove_unacknowledged();
  Manifest manifest;
  manifest.complete = options.complete;
  manifest.meta = state_->meta;
  manifest.unstable =
      options.unstable ? canonical_object(*options.unstable, "unstable") : state_->unstable;
  manifest.derived_from = options.derived_from;
  manifest.units = state_->units;
  std::sort(manifest.units.begin(), manifest.units.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  manifest.root = root_of(manifest.meta, manifest.units);
  state_->keep_journal(true);
  manifest.journal_size = state_->journal->size();
  manifest.journal_hash = state_->journal->hash();
  // The manifest says that all units are there: it comes to the disk after them.
  const Folder& folder = state_->folder;
  const auto system =
      durable == Durable::kSealed ? sealing_system(state_->options) : state_->system;
  if (durable == Durable::kSealed) {
    make_filesystem_durable(folder.descriptor(), *system, folder.path());
  }
  folder.write_whole(kManifestName, bytes_of(manifest_text(manifest)), *system);
  state_->sealed = true;
  folder.remove(kIncompleteName, *system);
  return manifest.root;
}

}  // namespace rlreplay::format
