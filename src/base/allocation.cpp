#include "src/base/allocation.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <optional>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rlreplay {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

void* allocate(size_t bytes) {
  const size_t alignment = bytes < kLargePage ? kLine : kLargePage;
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) != 0) throw std::bad_alloc();
#if defined(__linux__)
  // A request: where it is refused, pages stay small and nothing else changes.
  if (alignment == kLargePage) madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return data;
}

namespace {

/// The number that follows `key` in a file of lines "key number ...".
std::optional<int64_t> value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    int64_t value = 0;
    if (word == key && file >> value) return value;
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// A file that holds one number; "max" and anything else give none.
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The path of this process's control group, "/" where there is none.
std::string control_group(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::/", 0) == 0) return line.substr(3);
  }
  return "/";
}

}  // namespace

int64_t available_memory(const std::string& root) {
  int64_t out = std::numeric_limits<int64_t>::max();
  if (const auto kib = value_of(root + "/proc/meminfo", "MemAvailable:")) out = *kib * 1024;
  // Every group above the process's own limits it too.
  for (std::string group = control_group(root);; group.resize(group.rfind('/'))) {
    const std::string folder = root + "/sys/fs/cgroup" + group + "/";
    const auto limit = number_in(folder + "memory.max");
    const auto used = number_in(folder + "memory.current");
    if (limit && used) {
      const int64_t cache = value_of(folder + "memory.stat", "inactive_file").value_or(0);
      out = std::min(out, std::max<int64_t>(0, *limit - (*used - cache)));
    }
    if (group.find('/') == std::string::npos) break;
  }
  return out;
}

}  // namespace rlreplay
