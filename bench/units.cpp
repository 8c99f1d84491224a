#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "format/verify.h"
#include "src/base/error.h"

/// A dump of many small units: time and peak memory of each thing that is done with it, each in a
/// process of its own. What is found is checked: exit code 1 where it is not what was written.
/// usage: units [--units N] [--folder DIR] [--program RLREPLAY]
///        with a program, also what its `show` and `verify --quick` take
namespace rlreplay::bench {
namespace {

namespace fs = std::filesystem;
using format::dataset_of;

constexpr uint64_t kRanks = 100;  // units a step

struct Arguments {
  uint64_t units = 10'000;
  std::string folder = fs::temp_directory_path().string();
  std::string program;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) throw Error(ErrorCode::kUsage, "unknown or unfinished option", name);
    if (name == "--units") {
      arguments.units = std::stoull(argv[i + 1]);
    } else if (name == "--folder") {
      arguments.folder = argv[i + 1];
    } else if (name == "--program") {
      arguments.program = argv[i + 1];
    } else {
      throw Error(ErrorCode::kUsage, "unknown option", name);
    }
  }
  return arguments;
}

std::string group_of(uint64_t unit) { return std::to_string(unit / kRanks) + "-0"; }

std::string path_of(uint64_t unit) {
  return "train/" + group_of(unit) + "/rank" + std::to_string(unit % kRanks) + ".h5";
}

void append(format::DumpWriter& writer, uint64_t unit) {
  const std::string group = group_of(unit) + "/";
  const std::vector<uint64_t> ids = {unit}, offsets = {0, 4};
  const std::vector<double> losses = {static_cast<double>(unit) / 8};
  std::vector<format::Dataset> datasets = {dataset_of(group + "sample_id", DType::kU64, {1}, ids),
                                           dataset_of(group + "offsets", DType::kU64, {2}, offsets),
                                           dataset_of(group + "scalars", DType::kF64, {1}, losses)};
  datasets.back().attributes["columns"] = std::string("loss");
  writer.append(path_of(unit), datasets);
}

/// Runs `act` in a process of its own and prints what it took. Whether it returned true.
bool measured(const char* name, const std::function<bool()>& act) {
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = act();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", name, e.what());
    }
    std::_Exit(good ? 0 : 1);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::printf("%-28s %9.3f s %7ld MiB%s\n", name, took.count(), used.ru_maxrss >> 10,
              good ? "" : "  WRONG");
  return good;
}

bool has_run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (std::freopen("/dev/null", "w", stdout) == nullptr) return false;
  ::execv(arguments[0], arguments.data());
  return false;
}

int run(const Arguments& arguments) {
  const std::string path =
      arguments.folder + "/rlreplay-units-" + std::to_string(static_cast<long>(::getpid()));
  const uint64_t units = arguments.units;
  format::WriterOptions options;
  options.threads = 1;
  options.durable = format::Durable::kSealed;
  format::ReaderOptions reading;
  reading.threads = 1;
  std::printf("%llu units, %llu steps\n", static_cast<unsigned long long>(units),
              static_cast<unsigned long long>((units + kRanks - 1) / kRanks));
  bool good = measured("append", [&] {
    auto writer = format::DumpWriter::create(path, R"({"ranks":100})", options);
    for (uint64_t unit = 0; unit < units; ++unit) append(writer, unit);
    return writer.units().size() == units;
  });
  good &= measured("open, unfinished",
                   [&] { return format::DumpReader::open(path, reading).units().size() == units; });
  good &= measured("resume, seal", [&] {
    auto writer = format::DumpWriter::resume(path, options);
    writer.seal();
    return writer.units().size() == units;
  });
  good &= measured("open",
                   [&] { return format::DumpReader::open(path, reading).units().size() == units; });
  good &= measured("open, find", [&] {
    const auto dump = format::DumpReader::open(path, reading);
    const format::UnitRecord* unit = dump.find(path_of(units - 1));
    const auto ranks = dump.find("train", group_of(0));
    return unit != nullptr && unit->path == path_of(units - 1) &&
           ranks.size() == std::min(units, kRanks) &&
           ranks.back()->path == path_of(ranks.size() - 1);
  });
  good &= measured("open, every record", [&] {
    const auto dump = format::DumpReader::open(path, reading);
    uint64_t bytes = 0;
    for (const format::UnitRecord& unit : dump.units()) bytes += unit.logical;
    return bytes == units * 32;
  });
  good &= measured("verify_quick",
                   [&] { return format::verify_quick(path, reading).whole_units == units; });
  good &=
      measured("verify", [&] { return format::verify(path, false, reading).whole_units == units; });
  if (!arguments.program.empty()) {
    for (const auto& verb : {std::vector<std::string>{"verify", "--quick"}, {"show"}}) {
      std::vector<std::string> words = {arguments.program};
      words.insert(words.end(), verb.begin(), verb.end());
      words.push_back(path);
      good &= measured(("rlreplay " + verb[0]).c_str(), [&] { return has_run(words); });
    }
  }
  fs::remove_all(path);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace rlreplay::bench

int main(int argc, char** argv) {
  try {
    return rlreplay::bench::run(rlreplay::bench::parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "units: %s\n", e.what());
    return 2;
  }
}
