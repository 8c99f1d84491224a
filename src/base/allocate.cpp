#include "src/base/allocate.h"

#include <cstdlib>
#include <new>

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

}  // namespace rlreplay
