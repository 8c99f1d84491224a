#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

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
            if (unit < static_cast<uint64_t>(writes - 2)) writer.flush();
          }
          writer.flush();
        }(),
        rlreplay::Error);
    CHECK_THROWS_AS(writer.append(unit_path(0), unit_datasets(0)), rlreplay::Error);
    CHECK_THROWS_AS(writer.finish(), rlreplay::Error);
    // Two writes begin a dump, one acknowledges what is stored together: here a unit.
    CHECK(DumpReader::open(path).units().size() == static_cast<size_t>(writes - 2));
  }
}

namespace {

/// A disk on which nothing is durable at once.
class SlowDisk final : public System {
 public:
  int fsync(int file) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    return System::fsync(file);
  }
  int syncfs(int file) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return System::syncfs(file);
  }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a slow disk holds up the run: what is not stored is never more than a second's") {
  TemporaryFolder folder;
  WriterOptions options;
  options.system = std::make_shared<SlowDisk>();
  BackgroundWriter writer(DumpWriter::create(folder / "a", kMeta, options), UINT64_MAX);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t unit = 0; unit < 40; ++unit) writer.append(unit_path(unit), unit_datasets(unit));
  CHECK(seconds_since(begin) > 0.5);
  const size_t stored = DumpReader::open(folder / "a").units().size();
  CHECK(stored > 15);
  const auto handed = writer.drain();
  REQUIRE(handed.has_value());
  CHECK(handed->size() == 40);
  CHECK(DumpReader::open(folder / "a").units().size() == 40);
}

TEST_CASE("what is done once units are stored finds them stored, in order, also behind the last") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  BackgroundWriter writer(DumpWriter::create(path, kMeta), UINT64_MAX);
  std::vector<size_t> expected, stored;
  const auto look = [&] { stored.push_back(DumpReader::open(path).units().size()); };
  for (uint64_t unit = 0; unit < 9; ++unit) {
    writer.append(unit_path(unit), unit_datasets(unit));
    writer.when_stored(look);
    expected.push_back(unit + 1);
  }
  writer.flush();
  writer.when_stored(look);
  expected.push_back(9);
  REQUIRE(stored.size() == expected.size());
  CHECK(std::ranges::is_sorted(stored));
  for (size_t i = 0; i < stored.size(); ++i) CHECK(stored[i] >= expected[i]);
}

TEST_CASE("nothing is done for units that could not be stored") {
  TemporaryFolder folder;
  WriterOptions options;
  options.system = std::make_shared<FullDisk>(3);  // two begin a dump, one acknowledges
  std::atomic<int> stored = 0;
  {
    BackgroundWriter writer(DumpWriter::create(folder / "a", kMeta, options), UINT64_MAX);
    writer.append(unit_path(0), unit_datasets(0));
    writer.when_stored([&] { ++stored; });
    writer.flush();
    CHECK_THROWS_AS(
        [&] {
          writer.append(unit_path(1), unit_datasets(1));
          writer.when_stored([&] { ++stored; });
          writer.flush();
        }(),
        rlreplay::Error);
    writer.when_stored([&] { ++stored; });
  }
  CHECK(stored == 1);
}
