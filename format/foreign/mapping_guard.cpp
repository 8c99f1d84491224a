#include "format/foreign/mapping_guard.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/error.h"

namespace rlreplay::foreign {
namespace {

struct Guard {
  std::atomic<uintptr_t> begin = 0;  // 0: free
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> lost = false;
};

// A signal handler sees what has static storage and no locks. The kernel allows a process fewer
// mappings than this by default.
std::array<Guard, 1 << 16> guards;
std::atomic<size_t> used = 0;
std::mutex change;
uintptr_t page_size = 0;
struct sigaction before;

bool give_zeros(uintptr_t at) {
  for (size_t i = 0; i < used.load(); ++i) {
    if (at < guards[i].begin.load() || at >= guards[i].end.load()) continue;
    guards[i].lost = true;
    void* const page = reinterpret_cast<void*>(at / page_size * page_size);
    return ::mmap(page, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           page;
  }
  return false;
}

/// A SIGBUS that is no guard's goes where it went before: the access is tried again under the old
/// handler.
void on_bus_error(int, siginfo_t* info, void*) {
  if (!give_zeros(reinterpret_cast<uintptr_t>(info->si_addr)))
    ::sigaction(SIGBUS, &before, nullptr);
}

void watch() {
  page_size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGBUS, &action, &before) != 0) {
    throw Error(ErrorCode::kEnvironment,
                std::string("cannot watch for SIGBUS: ") + std::strerror(errno));
  }
}

}  // namespace

int guard_mapping(const void* begin, size_t size) {
  const std::lock_guard lock(change);
  if (page_size == 0) watch();
  size_t i = 0;
  while (i < used && guards[i].begin != 0) ++i;
  if (i == guards.size()) throw Error(ErrorCode::kEnvironment, "too many files are open");
  guards[i].lost = false;
  guards[i].end = reinterpret_cast<uintptr_t>(begin) + size;
  guards[i].begin = reinterpret_cast<uintptr_t>(begin);
  if (i == used) ++used;
  return static_cast<int>(i);
}

void end_guard(int guard) {
  const std::lock_guard lock(change);
  guards[static_cast<size_t>(guard)].begin = 0;
  guards[static_cast<size_t>(guard)].end = 0;
}

bool has_lost_pages(int guard) { return guards[static_cast<size_t>(guard)].lost; }

}  // namespace rlreplay::foreign
