#include "src/base/staged_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "src/base/descriptor.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/temporary_folder.h"

namespace rlreplay {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".rlreplay-new";
constexpr const char* kLock = "lock";
constexpr std::string_view kWhole = "whole\n";  // the last line of the lock's file

Error failed(const std::string& what, const std::string& where) {
  return environment_error("could not " + what, where);
}

bool rename_to(const std::string& from, const std::string& to, unsigned flags) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

bool is_empty_or_absent(const std::string& path) {
  std::error_code ignored;
  return !fs::exists(path, ignored) || fs::is_empty(path, ignored);
}

/// What tells a folder from others that have its name at other times.
std::string identity_of(const std::string& path) {
  struct statx s {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &s) != 0) {
    return "none\n";
  }
  std::string out = "replaces";
  for (const int64_t part :
       {int64_t{s.stx_dev_major}, int64_t{s.stx_dev_minor}, static_cast<int64_t>(s.stx_ino),
        int64_t{s.stx_btime.tv_sec}, int64_t{s.stx_btime.tv_nsec}}) {
    out += " " + std::to_string(part);
  }
  return out + "\n";
}

/// What a new folder takes the name from, as identity_of tells it: an empty folder gives way as if
/// it were none.
std::string replaced_by_new(const std::string& path) {
  return is_empty_or_absent(path) ? "none\n" : identity_of(path);
}

/// Why no other folder can get this one's name; empty where one can.
std::string fixed_name(const std::string& path) {
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &status) != 0) return {};
  if (S_ISLNK(status.stx_mode)) return "a link that leads nowhere";
  if ((status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return "a mount point";
  const bool writable = ::access(fs::path(path).parent_path().c_str(), W_OK) == 0;
  return writable ? "" : "in a folder that you may not write to";
}

}  // namespace

StagedFolder::StagedFolder(const std::string& path, Unnamed unnamed, const std::string& mark)
    : final_(plain_path(path)),
      staging_(final_ + kSuffix),
      content_(staging_ + "/content"),
      unjudged_(staging_ + "/unjudged"),
      aside_(staging_ + "/old"),
      building_(unnamed == Unnamed::kKept ? content_ : unjudged_),
      keep_(unnamed == Unnamed::kKept) {
  if (const std::string why = fixed_name(final_); !why.empty()) {
    in_place_ = fs::is_directory(final_) && is_empty_or_absent(final_);
    if (!in_place_) {
      throw Error(ErrorCode::kEnvironment,
                  "this is " + why + ", so that nothing can take its name: choose another path",
                  final_);
    }
    building_ = content_ = final_;
    unfinished_.emplace([] {});
    return;
  }
  unfinished_.emplace([this] { undo(); }, [this] { open(); });
  recover(mark);
  note_replaced();
  recovered_ = true;
}

StagedFolder::~StagedFolder() {
  if (!named_ && keep_ && !is_empty_or_absent(building_)) return;
  unfinished_.reset();
  remove_what_is_built();
}

void StagedFolder::open() {
  while (!lock_) {
    if (::mkdir(staging_.c_str(), 0777) != 0 && errno != EEXIST) {
      throw failed("make the folder", staging_);
    }
    const Descriptor folder(
        ::open(staging_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder && errno == ENOENT) continue;
    if (!folder) throw failed("open the folder", staging_);
    const std::string lock = staging_ + "/" + kLock;
    const fs::file_type found = fs::symlink_status(lock).type();
    const bool absent = found == fs::file_type::not_found;
    if (absent ? !is_empty_or_absent(staging_) : found != fs::file_type::regular) {
      throw Error(ErrorCode::kUsage,
                  "a folder of this name is needed to build the new one in, and is somebody's: "
                  "move it away",
                  staging_);
    }
    try {
      lock_ = open_locked(folder.get(), kLock, O_RDWR | O_CREAT, lock);
    } catch (const Error&) {
      if (!fs::exists(staging_)) continue;  // whoever had it has just ended
      throw;
    }
    if (!lock_) throw Error(ErrorCode::kUsage, "another process is writing to this path", final_);
  }
}

void StagedFolder::recover(const std::string& mark) {
  if (fs::exists(aside_) && !fs::exists(final_)) {  // killed between two renames
    if (!rename_to(aside_, final_, 0)) throw failed("give the old one its name again", aside_);
  }
  if (!mark.empty() && fs::exists(content_ + "/" + mark)) return recover_whole();
  if (read_notes() && !is_empty_or_absent(content_) && identity_of(content_) != replaced_) {
    throw Error(ErrorCode::kUsage,
                "what lies here is whole and never took the name that it was made for: move it "
                "there or elsewhere, or remove it",
                content_);
  }
  if (!fs::exists(content_) && !fs::exists(unjudged_) && !fs::exists(aside_)) return;
  std::cerr << "rlreplay: removes what an interrupted run left in " << staging_ << '\n';
  for (const std::string& left : {content_, unjudged_, aside_}) {
    remove_tree(left);
    if (!fs::exists(left)) continue;
    throw Error(ErrorCode::kEnvironment,
                "what an interrupted run left here cannot be removed: remove it", left);
  }
}

/// What the lock's file says: what the leftover was made to replace, and whether it is whole.
bool StagedFolder::read_notes() {
  std::string notes(256, '\0');
  const ssize_t size = ::pread(lock_.get(), notes.data(), notes.size(), 0);
  notes.resize(size > 0 ? static_cast<size_t>(size) : 0);
  const bool whole = notes.ends_with(kWhole);
  replaced_ = notes.substr(0, notes.size() - (whole ? kWhole.size() : 0));
  return whole;
}

/// The run was killed after the last byte was written: before the new one took the name, or before
/// the old one was removed.
void StagedFolder::recover_whole() {
  static_cast<void>(read_notes());  // for what it was made to replace
  whole_ = is_empty_or_absent(final_) || identity_of(final_) == replaced_;
  if (whole_) {
    building_ = content_;
    return;
  }
  if (identity_of(content_) != replaced_) {
    throw Error(ErrorCode::kUsage,
                "what lies here is whole, and was not made to replace what is " + final_ +
                    " now: move it away, or remove it",
                content_);
  }
  named_ = true;
  old_ = content_;
}

/// Notes in the lock's file what had the name when the work began.
void StagedFolder::note_replaced() {
  if (whole_ || named_) return;
  replaced_ = replaced_by_new(final_);
  // Where nothing can be written, whole leftovers are for a person to judge.
  if (::ftruncate(lock_.get(), 0) != 0) return;
  if (::pwrite(lock_.get(), replaced_.data(), replaced_.size(), 0) < 0) return;
}

/// Noted after what had the name: from here on a kill or a refusal leaves a whole one.
void StagedFolder::note_whole() {
  const auto size = static_cast<ssize_t>(kWhole.size());
  const auto at = static_cast<off_t>(replaced_.size());
  if (::pwrite(lock_.get(), kWhole.data(), kWhole.size(), at) == size) return;
  std::cerr << "rlreplay: could not note in " << staging_
            << " that what is built there is whole: " << std::strerror(errno) << '\n';
}

std::string StagedFolder::left_beside(const std::string& path, const std::string& mark) {
  std::error_code ignored;
  const std::string content = plain_path(path) + kSuffix + "/content";
  return fs::exists(content + "/" + mark, ignored) ? content : "";
}

void StagedFolder::take_name(const std::function<void(const std::string&)>& remove_old) {
  try {
    unfinished_->finish([&] {
      exchange();
      if (!old_.empty()) remove_old(old_);
      remove_what_is_built();
    });
  } catch (...) {
    keep_ = true;
    unfinished_.reset();
    throw;
  }
}

void StagedFolder::exchange() {
  if (!in_place_) put_in_place();
  named_ = true;
  make_names_durable(fs::path(final_).parent_path());
}

void StagedFolder::put_in_place() {
  if (building_ == unjudged_) {
    if (!rename_to(unjudged_, content_, 0)) throw failed("rename what is judged", unjudged_);
    building_ = content_;
  }
  make_names_durable(staging_);
  note_whole();
  if (!is_empty_or_absent(final_) && replaced_by_new(final_) != replaced_) {
    throw Error(ErrorCode::kUsage,
                "another process has put something here meanwhile, which is left as it is: the new "
                "one is whole in " +
                    content_,
                final_);
  }
  if (is_empty_or_absent(final_)) {  // a rename replaces an empty folder, and no other
    if (rename_to(content_, final_, 0)) return;
  } else if (rename_to(content_, final_, RENAME_EXCHANGE)) {
    old_ = rename_to(content_, aside_, 0) ? aside_ : content_;
    return;
  } else if ((errno == EINVAL || errno == ENOSYS) && rename_to(final_, aside_, 0)) {
    old_ = aside_;  // the file system knows no exchange
    if (rename_to(content_, final_, 0)) return;
    const int reason = errno;
    rename_to(aside_, final_, 0);
    errno = reason;
  }
  throw failed(
      "give the new one its name; it is whole in " + content_ + ", the old one is as it was",
      final_);
}

/// What another run left is nobody's to remove before it has been looked at.
void StagedFolder::undo() noexcept {
  const bool nothing =
      is_empty_or_absent(content_) && is_empty_or_absent(unjudged_) && is_empty_or_absent(aside_);
  if ((recovered_ && !keep_) || nothing) remove_what_is_built();
}

void StagedFolder::remove_what_is_built() noexcept {
  std::error_code ignored;
  if (in_place_) return;  // somebody else may have begun there
  remove_tree(unjudged_);
  if (!named_) remove_tree(content_);
  if (!is_empty_or_absent(old_) && !old_.empty()) return;
  fs::remove(old_, ignored);
  fs::remove(staging_ + "/" + kLock, ignored);  // under its lock
  fs::remove(staging_, ignored);
}

}  // namespace rlreplay
