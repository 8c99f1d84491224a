#include <catch2/catch.hpp>
#include <functional>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/dump_writer.h"
#include "format/verify.h"
#include "tests/environment.h"
#include "tests/format/support.h"

/// A state of 2 billion parameters with both moments, in units of 1 GiB: tensors that are zero but
/// for their beginnings. A 32nd of it without RLREPLAY_FULL=1.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

constexpr uint64_t kUnits = 23;  // 24.7 GB
constexpr uint64_t kProgram = uint64_t{160} << 20;

uint64_t unit_bytes() { return (uint64_t{1} << 30) / (rlreplay::test::full() ? 1 : 32); }

std::string path_of(uint64_t unit) {
  return "weights/0-0/" + (unit + 1 < kUnits ? "rank0-part" + std::to_string(unit) : "rank0") +
         ".h5";
}

/// The first floats of a unit's tensor; behind them are zeros.
std::vector<float> beginning(uint64_t unit) {
  std::vector<float> out(4096);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(unit * out.size() + i + 1);
  return out;
}

/// The peak memory, in bytes, of a process that does `act`, which must return true.
uint64_t peak_of(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool good = false;
    try {
      good = act();
    } catch (const std::exception& e) {
      static_cast<void>(std::fprintf(stderr, "%s\n", e.what()));
    }
    std::_Exit(good ? 0 : 1);
  }
  int status = 0;
  rusage used{};
  REQUIRE(::wait4(child, &status, 0, &used) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return static_cast<uint64_t>(used.ru_maxrss) << 10;
}

bool write(const std::string& path) {
  DumpWriter writer = DumpWriter::create(path, R"({"ranks":1})");
  std::vector<float> values(unit_bytes() / sizeof(float));
  for (uint64_t unit = 0; unit < kUnits; ++unit) {
    const std::vector<float> begin = beginning(unit);
    std::ranges::copy(begin, values.begin());
    Dataset tensor;
    tensor.path = "0-0/parameters/" + std::to_string(unit);
    tensor.dtype = DType::kF32;
    tensor.shape = {values.size()};
    tensor.bytes = std::as_bytes(std::span(values));
    writer.append(path_of(unit), {&tensor, 1});
  }
  writer.seal();
  return true;
}

bool read(const std::string& path) {
  const DumpReader dump = DumpReader::open(path);
  for (uint64_t number = 0; number < kUnits; ++number) {
    const UnitReader unit = dump.open_unit(*dump.find(path_of(number)));
    const std::vector<float> wanted = beginning(number);
    std::vector<std::byte> begin;
    uint64_t bytes = 0;
    unit.stream(unit.datasets().front(), [&](std::span<const std::byte> piece) {
      const auto part = piece.first(std::min(piece.size(), 4 * wanted.size() - begin.size()));
      begin.insert(begin.end(), part.begin(), part.end());
      bytes += piece.size();
    });
    if (bytes != unit_bytes()) return false;
    if (!std::ranges::equal(begin, std::as_bytes(std::span(wanted)))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a state is written in the memory of its largest unit, and verified and read in less") {
  TemporaryFolder folder;
  const std::string path = folder / "state";
  const uint64_t writing = peak_of([&] { return write(path); });
  const uint64_t quick = peak_of([&] { return verify(path, false).whole_units == kUnits; });
  const uint64_t deep = peak_of([&] {
    const VerifyReport report = verify(path, true);
    return report.whole_units == kUnits && report.problems.empty();
  });
  const uint64_t reading = peak_of([&] { return read(path); });
  INFO("MiB of writing, verify, verify --deep, reading: "
       << (writing >> 20) << " " << (quick >> 20) << " " << (deep >> 20) << " " << (reading >> 20));
#ifndef __SANITIZE_ADDRESS__  // which holds what was freed, and more beside it
  CHECK(writing < unit_bytes() + kProgram);
  CHECK(quick < kProgram);
  CHECK(deep < unit_bytes() + kProgram);
  CHECK(reading < kProgram);
#endif
}
