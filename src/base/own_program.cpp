#include "src/base/own_program.h"

#include "src/base/environment_error.h"

namespace rlreplay {

std::filesystem::path own_program() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw environment_error("cannot find this program", "/proc/self/exe", failed.value());
  return self;
}

}  // namespace rlreplay
