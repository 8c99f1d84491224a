#include <algorithm>
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
/// usage: units [--units N] [--ranks N] [--together N] [--folder DIR] [--program RLREPLAY]
///        --ranks: units a step; --together: that are appended, and made durable, at once (0: that
///        seal alone makes durable); with a program, also what its `show` and `verify` take
namespace rlreplay::bench {
namespace {

namespace fs = std::filesystem;
using format::dataset_of;

struct Arguments {
  uint64_t units = 10'000, ranks = 100, together = 0;
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
    } else if (name == "--ranks") {
      arguments.ranks = std::stoull(argv[i + 1]);
    } else if (name == "--together") {
      arguments.together = std::stoull(argv[i + 1]);
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

/// The units of a run: each rank has one of each step.
struct Units {
  uint64_t ranks;

  std::string group(uint64_t unit) const { return std::to_string(unit / ranks) + "-0"; }
  std::string path(uint64_t unit) const {
    return "train/" + group(unit) + "/rank" + std::to_string(unit % ranks) + ".h5";
  }
  std::vector<format::Dataset> datasets(uint64_t unit) const;
};

std::vector<format::Dataset> Units::datasets(uint64_t unit) const {
  const std::string of = group(unit) + "/";
  const std::vector<uint64_t> ids = {unit}, offsets = {0, 4};
  const std::vector<double> losses = {static_cast<double>(unit) / 8};
  std::vector<format::Dataset> datasets = {dataset_of(of + "sample_id", DType::kU64, {1}, ids),
                                           dataset_of(of + "offsets", DType::kU64, {2}, offsets),
                                           dataset_of(of + "scalars", DType::kF64, {1}, losses)};
  datasets.back().attributes["columns"] = std::string("loss");
  return datasets;
}

void append(format::DumpWriter& writer, const Units& run, uint64_t units, uint64_t together) {
  for (uint64_t first = 0; first < units; first += together) {
    std::vector<std::vector<format::Dataset>> datasets;
    for (uint64_t unit = first; unit < std::min(units, first + together); ++unit) {
      datasets.push_back(run.datasets(unit));
    }
    std::vector<format::NewUnit> made;
    for (const auto& of : datasets) made.push_back({run.path(first + made.size()), of});
    writer.append(made);
  }
}

/// Runs `act` in a process of its own and prints what it took. Whether it returned true.
bool measured(const char* name, const std::function<bool()>& act) {
  std::fflush(stdout);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child < 0) throw Error(ErrorCode::kEnvironment, "no process can be started");
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
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  std::printf("%-28s %9.3f s, %9.3f s of processors, %5ld MiB%s\n", name, took.count(),
              seconds(used.ru_utime) + seconds(used.ru_stime), used.ru_maxrss >> 10,
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
  if (arguments.together == 0) options.durable = format::Durable::kSealed;
  format::ReaderOptions reading;
  reading.threads = 1;
  const Units run{arguments.ranks};
  const uint64_t steps = (units + run.ranks - 1) / run.ranks;
  std::printf("%llu units, %llu steps\n", static_cast<unsigned long long>(units),
              static_cast<unsigned long long>(steps));
  bool good = measured("append", [&] {
    const std::string meta = "{\"ranks\":" + std::to_string(run.ranks) + "}";
    auto writer = format::DumpWriter::create(path, meta, options);
    append(writer, run, units, std::max<uint64_t>(1, arguments.together));
    return writer.units().size() == units;
  });
  good &= measured("open, unfinished",
                   [&] { return format::DumpReader::open(path, reading).units().size() == units; });
  good &= measured("resume, seal", [&] {
    auto writer = format::DumpWriter::resume(path, options);
    writer.seal();
    return writer.units().size() == units;
  });
  uint64_t stored = 0;
  for (const auto& file : fs::recursive_directory_iterator(path)) {
    if (file.is_regular_file()) stored += file.file_size();
  }
  std::printf("%-28s %9.1f MB\n", "files", static_cast<double>(stored) / 1e6);
  good &= measured("open",
                   [&] { return format::DumpReader::open(path, reading).units().size() == units; });
  good &= measured("open, find", [&] {
    const auto dump = format::DumpReader::open(path, reading);
    const format::UnitRecord* unit = dump.find(run.path(units - 1));
    const auto ranks = dump.find("train", run.group(0));
    return unit != nullptr && unit->path == run.path(units - 1) &&
           ranks.size() == std::min(units, run.ranks) &&
           ranks.back()->path == run.path(ranks.size() - 1);
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
    for (const std::string verb : {"verify --quick", "show", "verify"}) {
      std::vector<std::string> words = {arguments.program, verb.substr(0, verb.find(' '))};
      if (words[1] != verb) words.push_back("--quick");
      words.push_back(path);
      good &= measured(("rlreplay " + verb).c_str(), [&] { return has_run(words); });
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
