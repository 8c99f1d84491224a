#include <algorithm>
#include <utility>

#include "format/canonical.h"
#include "format/checked_image.h"
#include "format/dump_files.h"
#include "format/dump_writer_state.h"
#include "format/incomplete.h"
#include "format/misuse.h"
#include "format/record.h"
#include "format/rule.h"
#include "src/base/error.h"

/// How a writer comes to a dump: the first one, beside others, or where writers died.
namespace rlreplay::format {
namespace {

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

/// The system calls until a dump is sealed.
std::shared_ptr<System> appending_system(const WriterOptions& options) {
  std::shared_ptr<System> system = sealing_system(options);
  if (options.durable == Durable::kAppended) return system;
  return std::make_shared<UnsyncedSystem>(std::move(system));
}

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
  static_cast<void>(ranks_of(canonical));  // refuses some
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
  // The lock is held to the end: meanwhile nobody seals the dump or adds a journal.
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
  // A writer may have died in the middle of sealing: its dump is whole, and refused as such below.
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
  // Only now all journals are read: what none of them acknowledges goes.
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

}  // namespace rlreplay::format
