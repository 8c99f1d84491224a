#include "format/dump_writer.h"

#include <algorithm>
#include <utility>

#include <sys/file.h>

#include "format/canonical.h"
#include "format/folder.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/record.h"
#include "format/rule.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text));
}

Error misuse(const std::string& message, const std::string& where) {
  return {ErrorCode::kUsage, message, where};
}

void lock_for_writing(const File& journal, const std::string& path) {
  if (::flock(journal.get(), LOCK_EX | LOCK_NB) != 0) {
    throw misuse("another process is writing to this dump", path);
  }
}

/// What a writer that died before its first line may have left.
bool nothing_acknowledged(const Folder& folder) {
  for (const std::string& name : folder.list()) {
    if (name == kJournalName) {
      const auto bytes = folder.read(name, 1 << 20);
      if (bytes && std::find(bytes->data(), bytes->data() + bytes->size(), std::byte{'\n'}) !=
                       bytes->data() + bytes->size()) {
        return false;
      }
    } else if (name != kIncompleteName && !name.ends_with(kTemporarySuffix)) {
      return false;
    }
  }
  return true;
}

Error occupied(const Folder& folder) {
  if (folder.exists(kManifestName)) {
    return misuse("the folder holds a finished dump: choose another, or replace it with --force",
                  folder.path());
  }
  if (folder.exists(kJournalName)) {
    return misuse(
        "the folder holds an unfinished dump: go on with it (--resume), choose another, "
        "or replace it with --force",
        folder.path());
  }
  return misuse("the folder is not empty: choose another", folder.path());
}

void check_unit(const Folder& folder, const UnitRecord& unit) {
  const auto bytes = folder.read(unit.path, unit.size);
  if (!bytes) throw FormatError(Rule::kUnitMissing, "an acknowledged unit is missing", unit.path);
  if (bytes->size() != unit.size || hash_of({bytes->data(), bytes->size()}) != unit.hash) {
    throw FormatError(Rule::kUnitHash, "an acknowledged unit is damaged", unit.path);
  }
}

}  // namespace

struct DumpWriter::State {
  State(Folder where, const WriterOptions& how)
      : folder(std::move(where)),
        options(how),
        system(how.system ? how.system : std::make_shared<System>()),
        pool(how.threads) {}

  Folder folder;
  WriterOptions options;
  std::shared_ptr<System> system;
  ThreadPool pool;
  std::string meta, unstable;
  std::vector<UnitRecord> units;
  std::optional<JournalWriter> journal;  // holds the lock
  bool sealed = false;

  void remove_unacknowledged();
};

DumpWriter::DumpWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
DumpWriter::~DumpWriter() = default;
DumpWriter::DumpWriter(DumpWriter&&) noexcept = default;

DumpWriter DumpWriter::create(const std::string& path, std::string_view meta,
                              const WriterOptions& options) {
  std::string canonical = canonical_object(meta, "meta");
  ranks_of(canonical);
  std::string unstable = canonical_object(options.unstable.value_or("{}"), "unstable");
  const std::shared_ptr<System> system =
      options.system ? options.system : std::make_shared<System>();
  Folder folder = Folder::create(path, *system);
  if (!nothing_acknowledged(folder)) throw occupied(folder);
  File file = folder.open_append(kJournalName, *system);
  lock_for_writing(file, path);
  if (!nothing_acknowledged(folder)) throw occupied(folder);  // it was, until the lock was ours
  auto state = std::make_unique<State>(std::move(folder), options);
  state->system = system;
  state->meta = std::move(canonical);
  state->unstable = std::move(unstable);
  write_incomplete(state->folder, state->unstable, *system);
  state->journal.emplace(std::move(file), Journal{}, *system, path + "/" + kJournalName);
  state->journal->begin(state->meta);
  return DumpWriter(std::move(state));
}

DumpWriter DumpWriter::resume(const std::string& path, const WriterOptions& options) {
  auto state = std::make_unique<State>(Folder::open(path), options);
  Folder& folder = state->folder;
  if (!folder.exists(kJournalName)) {
    throw FormatError(Rule::kNotADump, "the folder holds no dump to resume", path);
  }
  File file = folder.open_append(kJournalName, *state->system);
  lock_for_writing(file, path);
  if (folder.exists(kManifestName)) {
    if (folder.exists(kIncompleteName)) folder.remove(kIncompleteName, *state->system);
    throw misuse("the dump is finished: there is nothing to resume", path);
  }
  const auto bytes = folder.read(kJournalName, kMaxJournalBytes);
  const Journal journal = parse_journal({bytes->data(), bytes->size()});
  if (journal.meta.empty()) {
    throw FormatError(Rule::kNotADump, "the dump ended before it began: start anew", path);
  }
  for (const UnitRecord& unit : journal.units) check_unit(folder, unit);
  state->meta = journal.meta;
  state->units = journal.units;
  state->unstable =
      options.unstable ? canonical_object(*options.unstable, "unstable") : find_incomplete(folder);
  state->remove_unacknowledged();
  write_incomplete(folder, state->unstable, *state->system);
  state->journal.emplace(std::move(file), journal, *state->system, path + "/" + kJournalName);
  return DumpWriter(std::move(state));
}

void DumpWriter::State::remove_unacknowledged() {
  for (const std::string& file : folder.list()) {
    std::string_view path = file;
    if (path.ends_with(kTemporarySuffix)) path.remove_suffix(kTemporarySuffix.size());
    const bool ours = sound_unit_path(path) ||
                      (path != file && (path == kManifestName || path == kIncompleteName));
    const bool kept =
        std::any_of(units.begin(), units.end(), [&](const auto& u) { return u.path == file; });
    if (ours && !kept) folder.remove(file, *system);
  }
}

const std::string& DumpWriter::meta() const { return state_->meta; }
const std::vector<UnitRecord>& DumpWriter::units() const { return state_->units; }

const UnitRecord* DumpWriter::find(std::string_view path) const {
  for (const UnitRecord& unit : state_->units) {
    if (unit.path == path) return &unit;
  }
  return nullptr;
}

UnitRecord DumpWriter::append(const std::string& path, std::span<const Dataset> datasets) {
  check_free(path);
  if (!sound_unit_path(path)) throw misuse("the path of a unit lies outside the grammar", path);
  PendingFile file = state_->folder.begin_file(path, *state_->system);
  FileSink sink(file.get(), *state_->system, file.where());
  UnitWriter unit(path, state_->pool, state_->options.packing, sink);
  for (const Dataset& dataset : datasets) unit.add(dataset);
  const UnitRecord record = unit.finish_file();
  file.commit();
  return acknowledge(record);
}

UnitRecord DumpWriter::append(const EncodedUnit& unit) {
  check_free(unit.record.path);
  state_->folder.write_whole(unit.record.path, unit.image.bytes(), *state_->system);
  return acknowledge(unit.record);
}

void DumpWriter::check_free(const std::string& path) const {
  if (state_->sealed) throw misuse("the dump is sealed", path);
  if (find(path) != nullptr) throw misuse("the dump has this unit already", path);
}

UnitRecord DumpWriter::acknowledge(const UnitRecord& record) {
  state_->journal->append(record);
  state_->units.push_back(record);
  return record;
}

Hash DumpWriter::seal(const SealOptions& options) {
  if (state_->sealed) throw misuse("the dump is sealed", state_->folder.path());
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
  const auto journal = state_->folder.read(kJournalName, kMaxJournalBytes);
  check(journal.has_value(), "the journal vanished while it was held");
  manifest.journal_size = journal->size();
  manifest.journal_hash = hash_of({journal->data(), journal->size()});
  state_->folder.write_whole(kManifestName, bytes_of(manifest_text(manifest)), *state_->system);
  state_->sealed = true;
  state_->folder.remove(kIncompleteName, *state_->system);
  return manifest.root;
}

void remove_dump(const std::string& path) {
  System system;
  const Folder folder = Folder::open(path);
  if (!folder.exists(kJournalName)) {
    throw misuse("the folder holds no dump: nothing was removed", path);
  }
  const File journal = folder.open_append(kJournalName, system);
  lock_for_writing(journal, path);
  for (const std::string& file : folder.list()) {
    std::string_view name = file;
    if (name.ends_with(kTemporarySuffix)) name.remove_suffix(kTemporarySuffix.size());
    if (sound_unit_path(name) || name == kManifestName || name == kIncompleteName) {
      folder.remove(file, system);
    }
  }
  folder.remove(kJournalName, system);
}

}  // namespace rlreplay::format
