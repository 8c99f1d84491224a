#include "src/base/durable.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace rlreplay {

bool is_synced(int result) { return result == 0 || errno == EINVAL; }

void make_names_durable(const std::string& folder) {
  const Descriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file && is_synced(::fsync(file.get()))) return;
  throw Error(ErrorCode::kEnvironment,
              std::string("could not make the folder durable: ") + std::strerror(errno), folder);
}

}  // namespace rlreplay
