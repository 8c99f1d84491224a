#include "format/dump_place.h"

#include <filesystem>
#include <iostream>

#include "format/dump_files.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/manifest.h"
#include "format/misuse.h"
#include "format/unit.h"
#include "src/base/input_file.h"

namespace rlreplay::format {
namespace {

namespace fs = std::filesystem;

/// Checks, before a folder is replaced, that it is a dump of ours and nothing else. Errors: kUsage.
void check_replaceable(const Folder& folder) {
  if (!begins_as_dump(folder)) {
    throw misuse("the folder holds no dump of this program: it is not replaced", folder.path());
  }
  for (const std::string& file : folder.list()) {
    if (is_dump_file(file)) continue;
    throw misuse("the folder holds a file that is none of the dump's, which would be lost: move " +
                     file + " away, or choose another folder",
                 folder.path());
  }
}

void remove_empty_folders(const std::string& path) {
  std::error_code ignored;  // not empty
  std::vector<fs::path> folders = {path};
  for (const auto& entry : fs::recursive_directory_iterator(path, ignored)) {
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) folders.push_back(entry.path());
  }
  for (auto it = folders.rbegin(); it != folders.rend(); ++it) fs::remove(*it, ignored);
}

/// Removes the dump that had the name before.
void remove_old(const std::string& old) {
  try {
    remove_dump(old);
    remove_empty_folders(old);
  } catch (const Error& e) {
    std::cerr << "rlreplay: " << old << ": " << e.what() << '\n';
  }
  std::error_code ignored;
  if (fs::exists(old, ignored)) {
    std::cerr << "rlreplay: the replaced dump had files of somebody else's: they are left in "
              << old << '\n';
  }
}

}  // namespace

bool take_sealed(const std::string& path) {
  if (StagedFolder::left_beside(path, kManifestName).empty()) return false;
  StagedFolder staged(path, StagedFolder::Unnamed::kKept, kManifestName);
  if (staged.is_whole()) {
    DumpLock lock;
    std::error_code absent;
    if (fs::is_directory(path, absent) && !fs::is_empty(path, absent)) {
      const Folder folder = Folder::open(path);
      check_replaceable(folder);
      lock = lock_whole(folder);
    }
    staged.take_name([&](const std::string& old) {
      lock = {};
      remove_old(old);
    });
    std::cerr << "rlreplay: " << path
              << " is the dump now that an interrupted run had sealed to take this name\n";
  } else if (!staged.old().empty()) {
    remove_old(staged.old());
  }
  return staged.is_whole();
}

void check_outside_dumps(const std::string& path) {
  std::error_code problem;
  fs::path at = plain_path(path);
  while (at.has_relative_path()) {
    at = at.parent_path();
    const bool holds =
        fs::exists(at / kJournalFolder, problem) || fs::exists(at / kOldJournalName, problem);
    if (!holds || problem) continue;
    if (!begins_as_dump(Folder::open(at.string()))) continue;
    throw misuse("it lies within the dump " + at.string() +
                     ", where nothing else is written: choose another place",
                 path);
  }
}

DumpPlace::DumpPlace(const std::string& path, bool replace, Writer writer)
    : path_(path), writer_(writer) {
  check_outside_dumps(path);
  static_cast<void>(take_sealed(path));  // what then has the name is looked at below
  std::error_code absent;
  const fs::file_type found = fs::status(path, absent).type();
  if (found == fs::file_type::not_found && fs::is_symlink(plain_path(path), absent)) {
    throw Error(ErrorCode::kEnvironment,
                "this is a link that leads nowhere, so that nothing can take its name: choose "
                "another path",
                path);
  }
  if (found != fs::file_type::directory && found != fs::file_type::not_found) {
    throw misuse("a dump is a folder, and this is none: choose another name", path);
  }
  bool occupied = false;
  if (found == fs::file_type::directory) {
    const Folder folder = Folder::open(path);
    const bool worthless = nothing_acknowledged(folder);
    if (!worthless && !replace) throw occupied_by_dump(folder);
    if (!worthless) check_replaceable(folder);
    old_lock_ = lock_whole(folder);
    occupied = !worthless;
  }
  if (!occupied && writer_ != Writer::kOneGo) {
    old_lock_ = {};  // the writer itself takes it
    return;
  }
  const auto unnamed = keeps() ? StagedFolder::Unnamed::kKept : StagedFolder::Unnamed::kRemoved;
  staged_ = std::make_unique<StagedFolder>(path, unnamed, kManifestName);
}

DumpPlace::DumpPlace(DumpPlace&&) noexcept = default;

DumpPlace::~DumpPlace() {
  if (!staged_ || !staged_->in_place() || settled_) return;
  try {
    remove_dump(path_);
    remove_empty_folders(path_);
  } catch (const Error&) {  // nothing was begun, or somebody else has
  }
}

void DumpPlace::settle() {
  settled_ = true;
  if (!staged_) return;
  staged_->take_name([this](const std::string& old) {
    old_lock_ = {};
    remove_old(old);
  });
  old_lock_ = {};
  staged_.reset();
}

}  // namespace rlreplay::format
