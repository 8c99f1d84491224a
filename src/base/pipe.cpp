#include "src/base/pipe.h"

#include <array>

#include <fcntl.h>
#include <unistd.h>

#include "src/base/environment_error.h"

namespace rlreplay {

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw environment_error("cannot make a pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace rlreplay
