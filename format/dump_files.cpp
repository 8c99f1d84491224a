#include "format/dump_files.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include <fcntl.h>

#include "format/faults.h"
#include "format/incomplete.h"
#include "format/manifest.h"
#include "format/misuse.h"
#include "format/record.h"
#include "format/unit.h"
#include "format/unit_index.h"
#include "src/base/descriptor.h"

namespace rlreplay::format {
namespace {

/// How a journal begins: its first record's keys are sorted.
constexpr std::string_view kBegin = R"({"body":{"format":"rlreplay",)";

/// The first bytes of a file; nothing where it is absent or no regular file.
std::optional<std::string> head_of(const Folder& folder, std::string_view path, size_t most) {
  const auto file = folder.open_file(path);
  if (!file) return std::nullopt;
  std::string text(static_cast<size_t>(std::min<uint64_t>(file->size, most)), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

bool is_journal(std::string_view path) {
  return path == kOldJournalName || writer_of(path).has_value();
}

/// Whether a file has no whole line.
bool is_blank(const OpenFile& file) {
  std::string piece;
  for (uint64_t at = 0; at < file.size; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 16, file.size - at)));
    file.read(at, std::as_writable_bytes(std::span(piece)));
    if (piece.find('\n') != piece.npos) return false;
  }
  return true;
}

/// Whether the journal has no whole record. A record of more than a mebibyte is taken for one.
bool is_blank_journal(const Folder& folder, const std::string& path) {
  constexpr size_t kMost = size_t{1} << 20;
  const auto head = head_of(folder, path, kMost);
  return !head || (head->size() < kMost && head->find('\n') == head->npos);
}

/// That journals which are each sound belong to one dump.
void check_together(std::span<const Journal> journals) {
  const Journal& first = journals.front();
  for (const Journal& journal : journals) {
    if (journal.meta == first.meta && journal.version == first.version) continue;
    const std::string path = journal_path(journal.writer);
    throw FormatError(Rule::kWriter,
                      "the journal is of another dump: its `meta` or its version is not that of " +
                          journal_path(first.writer),
                      path, {}, 0);
  }
}

void refuse_twice(std::span<const Journal> journals) {
  std::set<std::string_view> seen;
  for (const Journal& journal : journals) {
    for (const UnitRecord& unit : journal.units) {
      if (seen.insert(unit.path).second) continue;
      throw FormatError(Rule::kDuplicate, "the unit " + unit.path + " is recorded twice",
                        journal_path(journal.writer));
    }
  }
}

}  // namespace

bool is_dump_file(std::string_view path) {
  const bool temporary = path.ends_with(kTemporarySuffix);
  if (temporary) path.remove_suffix(kTemporarySuffix.size());
  return sound_unit_path(path) || path == kManifestName || path == kIncompleteName ||
         path == kIndexName || (is_journal(path) && !temporary);
}

bool looks_like_dump(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return false;
  const Folder folder = Folder::open(path);
  return folder.exists(kManifestName) || !list_journals(folder).empty();
}

std::vector<std::string> list_journals(const Folder& folder) {
  std::vector<std::string> paths;
  for (const std::string& name : folder.list_names(kJournalFolder)) {
    std::string path = std::string(kJournalFolder) + "/" + name;
    if (is_journal(path)) paths.push_back(std::move(path));
  }
  std::ranges::sort(paths, {}, [](const std::string& path) { return *writer_of(path); });
  if (paths.empty() && folder.exists(kOldJournalName)) paths.emplace_back(kOldJournalName);
  return paths;
}

std::optional<OpenFile> open_journal(const Folder& folder, const std::string& path) {
  try {
    return folder.open_file(path);
  } catch (const FormatError& fault) {
    throw FormatError(Rule::kFileType, fault.what(), path);
  }
}

bool has_begun(const Folder& folder) {
  return std::ranges::any_of(list_journals(folder), [&](const std::string& path) {
    const auto file = open_journal(folder, path);
    return file && !is_blank(*file);
  });
}

std::vector<Journal> read_journals(const Folder& folder) {
  const std::vector<std::string> paths = list_journals(folder);
  if (paths.empty()) throw FormatError(Rule::kNotADump, "the folder holds no dump", folder.path());
  std::vector<Journal> journals;
  Faults faults(paths.front());
  for (const std::string& path : paths) {
    faults.gather([&] {
      const auto file = open_journal(folder, path);
      // The journal is made, then its first line: whoever was killed between finished nothing.
      if (file && !is_blank(*file)) journals.push_back(read_journal(*file));
    });
  }
  size_t units = 0;
  for (const Journal& journal : journals) units += journal.units.size();
  if (units > kMaxUnits) {
    faults.add(Rule::kUnitCount, std::to_string(units) + " units, and a dump may have at most " +
                                     std::to_string(kMaxUnits));
  }
  faults.raise();
  if (journals.empty()) {
    throw FormatError(Rule::kNotADump, "the dump ended before it began: start anew", paths.front());
  }
  check_together(journals);
  refuse_twice(journals);
  return journals;
}

std::vector<Journal> read_heads(const Folder& folder) {
  std::vector<Journal> heads;
  for (const std::string& path : list_journals(folder)) {
    const auto file = open_journal(folder, path);
    if (file && !is_blank(*file)) heads.push_back(read_head(*file));
  }
  if (heads.empty()) {
    throw FormatError(Rule::kNotADump, "the folder holds no dump that has begun", folder.path());
  }
  check_together(heads);
  return heads;
}

std::vector<const UnitRecord*> sorted_units(std::span<const Journal> journals,
                                            std::span<const UnitRecord> more) {
  std::vector<const UnitRecord*> units;
  for (const Journal& journal : journals) {
    for (const UnitRecord& unit : journal.units) units.push_back(&unit);
  }
  for (const UnitRecord& unit : more) units.push_back(&unit);
  std::ranges::sort(units, {}, &UnitRecord::path);
  const auto twice = std::ranges::adjacent_find(units, {}, &UnitRecord::path);
  if (twice != units.end()) {
    throw FormatError(Rule::kDuplicate, "the unit " + (*twice)->path + " is recorded twice",
                      kJournalFolder);
  }
  return units;
}

bool nothing_acknowledged(const Folder& folder) {
  for (const std::string& name : folder.list()) {
    if (is_journal(name)) {
      if (!is_blank_journal(folder, name)) return false;
    } else if (name != kIncompleteName && !name.ends_with(kTemporarySuffix)) {
      return false;
    }
  }
  return true;
}

bool begins_as_dump(const Folder& folder) {
  return std::ranges::any_of(list_journals(folder), [&](const std::string& path) {
    return head_of(folder, path, kBegin.size()) == kBegin;
  });
}

Error occupied_by_dump(const Folder& folder) {
  if (folder.exists(kManifestName)) {
    return misuse("the folder holds a finished dump: choose another, or replace it with --force",
                  folder.path());
  }
  for (const std::string& journal : list_journals(folder)) lock_journal(folder, journal).close();
  if (!list_journals(folder).empty()) {
    return misuse(
        "the folder holds an unfinished dump: go on with it (--resume), choose another, "
        "or replace it with --force",
        folder.path());
  }
  return misuse("the folder is not empty: choose another", folder.path());
}

Descriptor lock_dump(const Folder& folder) {
  constexpr std::chrono::milliseconds kPause{10};
  for (int attempt = 0; attempt < 500; ++attempt) {
    if (!folder.exists(kJournalFolder)) return {};
    Descriptor file = open_locked(folder.descriptor(), kJournalFolder, O_RDONLY | O_DIRECTORY,
                                  folder.path() + "/" + kJournalFolder);
    if (file) return file;
    std::this_thread::sleep_for(kPause);
  }
  throw misuse("another process is writing to this dump, seals or removes it", folder.path());
}

Descriptor lock_journal(const Folder& folder, const std::string& path, System* maker) {
  static_cast<void>(open_journal(folder, path));  // a folder of its name
  const bool old = path == kOldJournalName;
  Descriptor inner(::openat(folder.descriptor(), old ? "." : kJournalFolder,
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner) throw failed_call("open the folder of", folder.path() + "/" + path, errno);
  Descriptor file =
      open_locked(inner.get(), path.substr(old ? 0 : sizeof kJournalFolder),
                  O_RDWR | O_APPEND | (maker != nullptr ? O_CREAT : 0), folder.path() + "/" + path);
  if (!file) {
    throw misuse("another process is writing to this dump" +
                     (old ? std::string() : ", as writer " + *writer_of(path)),
                 folder.path());
  }
  if (maker != nullptr) make_durable(inner.get(), *maker, folder.path());
  return file;
}

DumpLock lock_whole(const Folder& folder) {
  DumpLock lock{lock_dump(folder), {}};
  for (std::string& path : list_journals(folder)) {
    Descriptor file = lock_journal(folder, path);
    lock.journals.emplace_back(std::move(path), std::move(file));
  }
  return lock;
}

void finish_sealing(const Folder& folder) {
  if (!folder.exists(kManifestName) || !folder.exists(kIncompleteName)) return;
  check_incomplete(folder);
  System system;
  const DumpLock lock = lock_whole(folder);
  folder.remove(kIncompleteName, system);
}

void remove_leftovers(const Folder& folder, System& system,
                      const std::function<bool(const std::string&)>& kept) {
  for (const std::string& file : folder.list()) {
    if (is_dump_file(file) && !kept(file)) folder.remove(file, system);
  }
}

void remove_dump(const std::string& path) {
  System system;
  const Folder folder = Folder::open(path);
  if (list_journals(folder).empty()) {
    throw misuse("the folder holds no dump: nothing was removed", path);
  }
  const DumpLock lock = lock_whole(folder);
  remove_leftovers(folder, system, is_journal);
  for (const auto& [journal, held] : lock.journals) folder.remove(journal, system);
}

}  // namespace rlreplay::format
