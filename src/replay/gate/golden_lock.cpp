#include "src/replay/gate/golden_lock.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>

#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/input_file.h"

namespace fs = std::filesystem;

namespace rlreplay::gate {
namespace {

constexpr std::chrono::milliseconds kPatience{30'000}, kBetween{10};
constexpr size_t kMaxBytes = size_t{64} << 20;

/// A folder's lock. A file system that has none (some of networks) is written to without.
Descriptor locked_folder(const std::string& folder) {
  Descriptor out(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!out) throw environment_error("cannot open the folder", folder);
  for (auto waited = kBetween; ::flock(out.get(), LOCK_EX | LOCK_NB) != 0; waited += kBetween) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (waited > kPatience) {
      throw Error(ErrorCode::kEnvironment,
                  "another process has been writing golden files here for half a minute: wait for "
                  "it, or end it",
                  folder);
    }
    std::this_thread::sleep_for(kBetween);
  }
  return out;
}

}  // namespace

GoldenLock::GoldenLock(const std::vector<std::string>& files) {
  std::set<std::string> folders;  // in one order, so that no two wait for each other
  for (const std::string& file : files) {
    folders.insert(fs::weakly_canonical(fs::absolute(file)).parent_path().string());
  }
  for (const std::string& folder : folders) folders_.push_back(locked_folder(folder));
}

std::string state_of(const std::string& path) {
  std::error_code absent;
  if (!fs::exists(path, absent)) return "";
  return hash_of(read_file(path, kMaxBytes, "a golden file")).hex();
}

void check_unchanged(const std::string& path, const std::string& state) {
  if (state_of(path) == state) return;
  throw Error(ErrorCode::kIncomplete,
              "the file has changed meanwhile, and is left as it is: do it again", path);
}

}  // namespace rlreplay::gate
