#include "format/dump_files.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fcntl.h>

#include "format/incomplete.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/misuse.h"
#include "format/unit.h"
#include "src/base/descriptor.h"

namespace rlreplay::format {
namespace {

/// How a journal begins: its first record's keys are sorted.
constexpr std::string_view kBegin = R"({"body":{"format":"rlreplay",)";

/// The first bytes of a file; nothing where it is absent or no regular file.
std::optional<std::string> head_of(const Folder& folder, std::string_view name, size_t most) {
  if (!folder.exists(name)) return std::nullopt;
  const auto file = folder.open_file(name);
  if (!file) return std::nullopt;
  std::string text(static_cast<size_t>(std::min<uint64_t>(file->size, most)), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Whether the journal has no whole record. A record of more than a mebibyte is taken for one.
bool is_blank_journal(const Folder& folder) {
  constexpr size_t kMost = size_t{1} << 20;
  const auto head = head_of(folder, kJournalName, kMost);
  return head && head->size() < kMost && head->find('\n') == head->npos;
}

}  // namespace

bool is_dump_file(std::string_view path) {
  const bool temporary = path.ends_with(kTemporarySuffix);
  if (temporary) path.remove_suffix(kTemporarySuffix.size());
  return sound_unit_path(path) || path == kManifestName || path == kIncompleteName ||
         (path == kJournalName && !temporary);
}

bool nothing_acknowledged(const Folder& folder) {
  for (const std::string& name : folder.list()) {
    if (name == kJournalName) {
      if (!is_blank_journal(folder)) return false;
    } else if (name != kIncompleteName && !name.ends_with(kTemporarySuffix)) {
      return false;
    }
  }
  return true;
}

bool begins_as_journal(const Folder& folder) {
  return head_of(folder, kJournalName, kBegin.size()) == kBegin;
}

Error occupied_by_dump(const Folder& folder) {
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

Descriptor lock_journal(const Folder& folder, int flags) {
  Descriptor file = open_locked(folder.descriptor(), kJournalName, O_RDWR | O_APPEND | flags,
                                folder.path() + "/" + kJournalName);
  if (!file) throw misuse("another process is writing to this dump", folder.path());
  return file;
}

void finish_sealing(const Folder& folder) {
  if (!folder.exists(kManifestName) || !folder.exists(kIncompleteName)) return;
  System system;
  const Descriptor journal = lock_journal(folder, 0);
  folder.remove(kIncompleteName, system);
}

void remove_dump(const std::string& path) {
  System system;
  const Folder folder = Folder::open(path);
  if (!folder.exists(kJournalName)) {
    throw misuse("the folder holds no dump: nothing was removed", path);
  }
  const Descriptor journal = lock_journal(folder, 0);
  for (const std::string& file : folder.list()) {
    if (is_dump_file(file) && file != kJournalName) folder.remove(file, system);
  }
  folder.remove(kJournalName, system);
}

}  // namespace rlreplay::format
