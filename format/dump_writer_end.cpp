#include <algorithm>
#include <utility>

#include "format/canonical.h"
#include "format/dump_files.h"
#include "format/dump_writer_state.h"
#include "format/incomplete.h"
#include "format/misuse.h"
#include "format/record.h"
#include "format/unit_index.h"
#include "src/base/error.h"

/// How a writer ends its journal, and the last one the dump.
namespace rlreplay::format {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text));
}

}  // namespace

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
  if (state.done) throw misuse(kWriterDone, folder.path());
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
  if (done) throw misuse(kWriterDone, folder.path());
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

/// Removes what no journal acknowledges and writes index and manifest, with which the dump is
/// sealed. The caller holds the lock of the dump and has seen that no other writer is still to end.
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
