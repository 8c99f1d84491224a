#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>

#include "format/background_writer.h"
#include "format/dump_reader.h"
#include "src/base/error.h"
#include "tests/format/dumps.h"

using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

/// A disk that is full from some write on.
class FullDisk final : public System {
 public:
  explicit FullDisk(int writes) : left_(writes) {}
  ssize_t write(int file, const void* bytes, size_t size) override {
    if (left_-- > 0) return System::write(file, bytes, size);
    errno = ENOSPC;
    return -1;
  }
  ssize_t write_at(int file, const void* bytes, size_t size, off_t at) override {
    if (left_ > 0) return System::write_at(file, bytes, size, at);
    errno = ENOSPC;
    return -1;
  }

 private:
  std::atomic<int> left_;
};

}  // namespace

TEST_CASE("a background writer leaves the bytes of a foreground one, whatever its queue") {
  TemporaryFolder folder;
  write_dump(folder / "whole", 9);
  for (const uint64_t limit : {uint64_t{0}, uint64_t{20'000}, UINT64_MAX}) {
    const std::string path = folder / std::to_string(limit);
    BackgroundWriter writer(DumpWriter::create(path, kMeta), limit);
    for (uint64_t unit = 0; unit < 9; ++unit) {
      writer.append(unit_path(unit), unit_datasets(unit));
      if (unit == 4) {
        writer.flush();
        CHECK(DumpReader::open(path).units().size() == 5);
      }
    }
    writer.finish().seal();
    CHECK(snapshot(path) == snapshot(folder / "whole"));
  }
}

TEST_CASE("an error of the background is thrown, once and for all, and loses nothing") {
  TemporaryFolder folder;
  for (const int writes : {4, 5, 8}) {
    const std::string path = folder / std::to_string(writes);
    WriterOptions options;
    options.system = std::make_shared<FullDisk>(writes);
    BackgroundWriter writer(DumpWriter::create(path, kMeta, options), 1 << 20);
    CHECK_THROWS_AS(
        [&] {
          for (uint64_t unit = 0; unit < 9; ++unit) {
            writer.append(unit_path(unit), unit_datasets(unit));
          }
          writer.flush();
        }(),
        rlreplay::Error);
    CHECK_THROWS_AS(writer.append(unit_path(0), unit_datasets(0)), rlreplay::Error);
    CHECK_THROWS_AS(writer.finish(), rlreplay::Error);
    // Two writes begin a dump, one acknowledges a unit.
    CHECK(DumpReader::open(path).units().size() == static_cast<size_t>(writes - 2));
  }
}
