#include "format/folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/misuse.h"
#include "format/rule.h"
#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace rlreplay::format {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Error failed(const std::string& what, const std::string& where) {
  return failed_call(what, where, errno);
}

bool is_link_or_loop(int reason) {
  return reason == ELOOP || reason == ENOTDIR || reason == EMLINK;
}

Descriptor open_at(int folder, const std::string& name, int flags, int mode = 0) {
  int descriptor;
  do {
    descriptor = ::openat(folder, name.c_str(), flags, mode);
  } while (descriptor < 0 && errno == EINTR);
  return Descriptor(descriptor);
}

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

Listing list_entries(int folder, const std::string& where) {
  Descriptor copy(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  Listing entries(copy ? fdopendir(copy.get()) : nullptr, closedir);
  if (!entries) throw failed("list the folder", where);
  copy.release();  // the listing closes it
  rewinddir(entries.get());
  return entries;
}

/// What lies below a folder; `root` is what errors name before `prefix`.
void list_into(int folder, const std::string& root, const std::string& prefix, size_t most,
               int depth, std::vector<std::string>& out) {
  constexpr int kMaxDepth = 6;
  const Listing entries = list_entries(folder, root + prefix);
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const Descriptor inner = depth < kMaxDepth ? open_at(folder, name, kFolderFlags) : Descriptor();
    if (inner) {
      list_into(inner.get(), root, prefix + name + "/", most, depth + 1, out);
      continue;
    }
    if (depth < kMaxDepth) {
      if (errno == ENOENT) continue;  // it vanished meanwhile
      if (!is_link_or_loop(errno) && errno != EACCES) {
        throw failed("look at", root + prefix + name);
      }
    }
    if (out.size() >= most) {
      throw Error(ErrorCode::kUnsupported,
                  "the folder holds more than " + std::to_string(most) + " files, which is no dump",
                  root + prefix);
    }
    out.push_back(prefix + name);
  }
}

}  // namespace

Error failed_call(const std::string& what, const std::string& where, int reason) {
  const bool full = reason == ENOSPC || reason == EDQUOT;
  return {ErrorCode::kEnvironment,
          "could not " + what + ": " + std::strerror(reason) + (full ? "; free some space" : ""),
          where};
}

void write_all(int file, std::span<const std::byte> bytes, System& system,
               const std::string& where) {
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t n = system.write(file, bytes.data(), std::min(bytes.size(), kMost));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw failed("write", where);
    if (n == 0) throw failed_call("write", where, ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void make_durable(int file, System& system, const std::string& where) {
  if (!is_synced(system.fsync(file))) throw failed("make durable", where);
}

void make_filesystem_durable(int file, System& system, const std::string& where) {
  if (!is_synced(system.syncfs(file))) throw failed("make durable", where);
}

Folder Folder::open(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) {
    throw Error(ErrorCode::kIncomplete, "there is no such folder", path);
  }
  if (!file) throw failed("open the folder", path);
  return {path, std::move(file)};
}

Folder Folder::create(const std::string& path, System& system) {
  if (system.make_folder(AT_FDCWD, path.c_str()) != 0 && errno != EEXIST) {
    throw failed("make the folder", path);
  }
  Folder folder = open(path);
  // Also where it was there: whoever made it may have died before.
  const Descriptor above = open_at(folder.descriptor(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (above) make_durable(above.get(), system, path);
  return folder;
}

Descriptor Folder::open_parent(std::string_view path, std::string& name, System* maker) const {
  Descriptor parent(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!parent) throw failed("open the folder", path_);
  while (true) {
    const size_t slash = path.find('/');
    name = std::string(path.substr(0, slash));
    if (name.empty() || name == "." || name == "..") {
      throw Error(ErrorCode::kInternal, "a path outside the dump", std::string(path));
    }
    if (slash == std::string_view::npos) return parent;
    if (maker != nullptr) {
      if (maker->make_folder(parent.get(), name.c_str()) == 0) {
        make_durable(parent.get(), *maker, path_);
      } else if (errno != EEXIST) {
        throw failed("make a folder", path_ + "/" + name);
      }
    }
    Descriptor next = open_at(parent.get(), name, kFolderFlags);
    if (!next) {
      if (is_link_or_loop(errno)) {
        throw FormatError(Rule::kUnitType, "a link, or no folder, on the way to a unit", name);
      }
      return next;  // absent: errno tells
    }
    parent = std::move(next);
    path.remove_prefix(slash + 1);
  }
}

std::vector<std::string> Folder::list_names(const std::string& name) const {
  std::vector<std::string> out;
  const Descriptor inner = open_at(file_.get(), name, kFolderFlags);
  if (!inner) {
    if (errno == ENOENT || is_link_or_loop(errno)) return out;
    throw failed("open the folder", path_ + "/" + name);
  }
  const Listing entries = list_entries(inner.get(), path_ + "/" + name);
  while (const dirent* entry = readdir(entries.get())) {
    if (entry->d_name != std::string_view(".") && entry->d_name != std::string_view("..")) {
      out.emplace_back(entry->d_name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

void Folder::make_folder(const std::string& name, System& system) const {
  if (system.make_folder(file_.get(), name.c_str()) == 0) {
    make_durable(file_.get(), system, path_);
  } else if (errno != EEXIST) {
    throw failed("make a folder", path_ + "/" + name);
  }
}

bool Folder::exists(std::string_view name) const {
  struct stat status {};
  return ::fstatat(file_.get(), std::string(name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> Folder::list(size_t most) const {
  std::vector<std::string> out;
  list_into(file_.get(), path_ + "/", "", most, 0, out);
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<OpenFile> Folder::open_file(std::string_view path) const {
  const std::string where(path);
  std::string name;
  const Descriptor parent = open_parent(path, name, nullptr);
  Descriptor file =
      parent ? open_at(parent.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
             : Descriptor();
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    if (is_link_or_loop(errno)) throw FormatError(Rule::kFileType, "a link, not a file", where);
    throw failed("open", where);
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw failed("look at", where);
  if (!S_ISREG(status.st_mode)) throw FormatError(Rule::kFileType, "not a regular file", where);
  return OpenFile{std::move(file), static_cast<uint64_t>(status.st_size), where};
}

std::optional<Buffer<std::byte>> Folder::read(std::string_view path, uint64_t most) const {
  const auto file = open_file(path);
  if (!file) return std::nullopt;
  file->expect_at_most(most);
  Buffer<std::byte> bytes(static_cast<size_t>(file->size));
  file->read(0, bytes);
  return bytes;
}

void OpenFile::expect_at_most(uint64_t most) const {
  if (size <= most) return;
  throw FormatError(Rule::kFileSize,
                    "the file has " + std::to_string(size) + " bytes, and at most " +
                        std::to_string(most) + " are read",
                    path);
}

void OpenFile::read(uint64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(file.get(), out.data(), out.size(), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw failed("read", path);
    if (n == 0) throw FormatError(Rule::kFileSize, "the file shrank while it was read", path);
    begin += static_cast<uint64_t>(n);
    out = out.subspan(static_cast<size_t>(n));
  }
}

PendingFile::PendingFile(Descriptor folder, std::string name, System& system, std::string where)
    : folder_(std::move(folder)),
      name_(std::move(name)),
      temporary_(name_ + std::string(kTemporarySuffix)),
      system_(&system),
      where_(std::move(where)) {
  file_ = open_locked(folder_.get(), temporary_, O_RDWR | O_CREAT, where_);
  if (!file_) {
    throw misuse("another writer of this dump is writing a file of this name", where_);
  }
  if (::ftruncate(file_.get(), 0) != 0) throw failed("make", where_);
}

namespace {

/// Whether nobody holds the lock of a file, which is taken for a moment. A link or what is no
/// regular file is nobody's.
PendingFile::Name holder_of(int folder, const std::string& name) {
  const Descriptor file = open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (!file) return errno == ENOENT ? PendingFile::Name::kFree : PendingFile::Name::kLeft;
  const bool held = ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  return held ? PendingFile::Name::kHeld : PendingFile::Name::kLeft;
}

}  // namespace

PendingFile::Name PendingFile::find_name() const { return holder_of(folder_.get(), name_); }

PendingFile::~PendingFile() {
  // What stays behind has a name that says it: no reader takes the file, and a writer removes it.
  if (file_ && !named_) static_cast<void>(system_->remove(folder_.get(), temporary_.c_str()));
}

void PendingFile::commit() {
  make_durable(file_.get(), *system_, where_);
  take_name();
  make_durable(folder_.get(), *system_, where_);
}

void PendingFile::take_name() {
  if (system_->rename(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) {
    throw failed("name", where_);
  }
  named_ = true;
}

PendingFile Folder::begin_file(std::string_view path, System& system) const {
  const std::string where = path_ + "/" + std::string(path);
  std::string name;
  Descriptor parent = open_parent(path, name, &system);
  if (!parent) throw failed("open the folder of", where);
  return {std::move(parent), std::move(name), system, where};
}

void Folder::write_whole(std::string_view path, std::span<const std::byte> bytes,
                         System& system) const {
  PendingFile file = begin_file(path, system);
  write_all(file.get(), bytes, system, file.where());
  file.commit();
}

void Folder::remove(std::string_view path, System& system) const {
  std::string name;
  const Descriptor parent = open_parent(path, name, nullptr);
  if (!parent) return;
  if (system.remove(parent.get(), name.c_str()) != 0 && errno != ENOENT) {
    throw failed("remove", path_ + "/" + std::string(path));
  }
  make_durable(parent.get(), system, path_);
}

}  // namespace rlreplay::format
