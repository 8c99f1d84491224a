// Files that somebody writes to while they are read.
#include "format/foreign/mapped_file.h"

#include <atomic>
#include <thread>

#include <unistd.h>

#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kBytes = size_t{1} << 20;

/// A file that nobody has touched for longer than the times of files are coarse.
std::string settled_file(const TempFolder& folder) {
  const std::string path = folder.write("file", std::string(kBytes, 'x'));
  ::usleep(30'000);
  return path;
}

void changed(const MappedFile& file) {
  try {
    file.check_unchanged();
    FAIL("the change was not noticed");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kCorrupt);
    CHECK(std::string(error.what()).find("changed while it was read") != std::string::npos);
    CHECK(error.where() == file.path());
  }
}

TEST_CASE("pages that a file loses read as zeros, from any thread, and the reader is told") {
  const TempFolder folder;
  const std::string path = settled_file(folder);
  const MappedFile file(path);
  const MappedFile whole(folder.write("other", "y"));
  file.check_unchanged();
  REQUIRE(::truncate(path.c_str(), 4096) == 0);
  std::atomic<size_t> kept = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      for (const uint8_t byte : file.bytes()) kept += byte == 'x' ? 1 : 0;
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(kept == 4 * 4096);
  changed(file);
  whole.check_unchanged();
}

TEST_CASE("a file that is overwritten in place is noticed") {
  const TempFolder folder;
  const std::string path = settled_file(folder);
  const MappedFile file(path);
  CHECK(file.bytes()[0] == 'x');
  folder.write("file", std::string(kBytes, 'z'));
  changed(file);
}

TEST_CASE("a small file of this moment keeps what was read") {
  const TempFolder folder;
  for (int i = 0; i < 20; ++i) {
    const std::string before(100, static_cast<char>('a' + i));
    const MappedFile file(folder.write("file", before));
    folder.write("file", std::string(100, '-'));
    CHECK(as_text(file.bytes()) == before);
    file.check_unchanged();
  }
}

}  // namespace
}  // namespace rlreplay::foreign
