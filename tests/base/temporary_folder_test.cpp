#include "src/base/temporary_folder.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/resource.h>

#include "src/base/descriptor.h"
#include "src/base/error.h"

namespace rlreplay {
namespace {

/// No more files can be opened while it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    // A sanitizer opens a pipe to look at the first object of a type: it sees an Error before that.
    const Error seen(ErrorCode::kEnvironment, "an error");
    static_cast<void>(seen.at("a place").code());
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const Descriptor next(::open("/", O_RDONLY | O_CLOEXEC));
    const rlimit none = {static_cast<rlim_t>(next.get()), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace

TEST_CASE("a temporary folder that cannot be locked is refused, and is not left there") {
  const TemporaryFolder room("rlreplay-test");
  ::setenv("TMPDIR", room.path().c_str(), 1);
  try {
    const NoMoreFiles none;
    const TemporaryFolder unlocked("rlreplay-unlocked");
    FAIL("made");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kEnvironment);
    CHECK_THAT(error.what(), Catch::Matchers::Contains("open"));
    CHECK_THAT(error.where(), Catch::Matchers::Contains("rlreplay-unlocked-"));
  }
  ::unsetenv("TMPDIR");
  CHECK(std::filesystem::is_empty(room.path()));
}

}  // namespace rlreplay
