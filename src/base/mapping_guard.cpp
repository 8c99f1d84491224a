#include "src/base/mapping_guard.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/environment_error.h"
#include "src/base/error.h"

namespace rlreplay {
namespace {

/// The guarded mappings of the process, which has one handler of SIGBUS.
class GuardTable {
 public:
  int add(const void* begin, size_t size) {
    const std::lock_guard lock(change_);
    if (page_size_ == 0) watch();
    size_t i = 0;
    while (i < used_ && guards_[i].begin != 0) ++i;
    if (i == guards_.size()) {
      throw Error(ErrorCode::kEnvironment,
                  "more than " + std::to_string(i) + " files are mapped at once");
    }
    guards_[i].lost = false;
    guards_[i].end = reinterpret_cast<uintptr_t>(begin) + size;
    guards_[i].begin = reinterpret_cast<uintptr_t>(begin);
    if (i == used_) ++used_;
    return static_cast<int>(i);
  }

  void remove(int guard) {
    const std::lock_guard lock(change_);
    guards_[static_cast<size_t>(guard)].begin = 0;
    guards_[static_cast<size_t>(guard)].end = 0;
  }

  bool has_lost_pages(int guard) const { return guards_[static_cast<size_t>(guard)].lost; }

 private:
  struct Guard {
    std::atomic<uintptr_t> begin = 0;  // 0: free
    std::atomic<uintptr_t> end = 0;
    std::atomic<bool> lost = false;
  };

  void watch();
  static void on_bus_error(int, siginfo_t* info, void*);
  bool give_zeros(uintptr_t at);

  // The kernel allows a process fewer mappings than this by default.
  std::array<Guard, 1 << 16> guards_;
  std::atomic<size_t> used_ = 0;
  std::mutex change_;  // never taken by the handler
  uintptr_t page_size_ = 0;
  struct sigaction before_ {};
};

// A signal handler is given no object and may take no lock: it finds what has static storage and is
// there before any code runs.
constinit GuardTable guard_table;

bool GuardTable::give_zeros(uintptr_t at) {
  for (size_t i = 0; i < used_.load(); ++i) {
    if (at < guards_[i].begin.load() || at >= guards_[i].end.load()) continue;
    guards_[i].lost = true;
    void* const page = reinterpret_cast<void*>(at / page_size_ * page_size_);
    return ::mmap(page, page_size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           page;
  }
  return false;
}

/// Leaves a SIGBUS that is no guard's to the handler before this one: the access is tried again.
void GuardTable::on_bus_error(int, siginfo_t* info, void*) {
  if (!guard_table.give_zeros(reinterpret_cast<uintptr_t>(info->si_addr)))
    ::sigaction(SIGBUS, &guard_table.before_, nullptr);
}

void GuardTable::watch() {
  page_size_ = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGBUS, &action, &before_) != 0) {
    throw environment_error("cannot watch for SIGBUS");
  }
}

}  // namespace

int guard_mapping(const void* begin, size_t size) { return guard_table.add(begin, size); }

void end_guard(int guard) { guard_table.remove(guard); }

bool has_lost_pages(int guard) { return guard_table.has_lost_pages(guard); }

}  // namespace rlreplay
