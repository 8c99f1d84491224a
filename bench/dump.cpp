#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "bench/hdf5_pipeline.h"
#include "bench/median.h"
#include "bench/recording.h"
#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "src/base/error.h"

/// Writing and reading dumps against HDF5's own filter pipeline at the same settings, in one run;
/// then what recording a training step costs.
/// usage: dump [--json] [--threads N] [--processes N] [--mib N] [--units N] [--repetitions N]
///             [--folder DIR] [--steps N]
namespace rlreplay::bench {
namespace {

using format::Dataset;
using format::dataset_of;

struct Arguments {
  bool json = false;
  int threads = 2;
  int processes = 1;  // that write to one dump, or read it, each its share of the units
  uint64_t mib = 128;
  int units = 4;  // that these are divided among
  int repetitions = 5;
  std::string folder = "/dev/shm";
  int steps = 8;  // of one measurement of recording
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      arguments.json = true;
      continue;
    }
    if (i + 1 == argc) throw Error(ErrorCode::kUsage, "unknown or unfinished option", name);
    const std::string value = argv[++i];
    if (name == "--threads") {
      arguments.threads = std::stoi(value);
    } else if (name == "--processes") {
      arguments.processes = std::stoi(value);
    } else if (name == "--mib") {
      arguments.mib = std::stoull(value);
    } else if (name == "--units") {
      arguments.units = std::stoi(value);
    } else if (name == "--repetitions") {
      arguments.repetitions = std::stoi(value);
    } else if (name == "--steps") {
      arguments.steps = std::stoi(value);
    } else if (name == "--folder") {
      arguments.folder = value;
    } else {
      throw Error(ErrorCode::kUsage, "unknown option", name);
    }
  }
  if (arguments.processes < 1 || arguments.processes > arguments.units) {
    throw Error(ErrorCode::kUsage, "of --processes each has a unit at least: give more --units");
  }
  return arguments;
}

/// splitmix64.
struct Random {
  uint64_t state;
  uint64_t bits() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  float normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return static_cast<float>(sum);
  }
};

/// A quarter each: token ids with the frequencies of text, log-probabilities, fp32 and bf16
/// weights.
std::vector<Dataset> make_data(uint64_t bytes) {
  Random random{1};
  const uint64_t quarter = bytes / 4;
  std::vector<int32_t> tokens(quarter / 4);
  for (int32_t& t : tokens) t = static_cast<int32_t>(std::exp(random.uniform() * 11.9)) - 1;
  std::vector<float> log_probs(quarter / 4);
  for (float& x : log_probs)
    x = random.uniform() < 0.25 ? 0.0f : -std::exp(3 * random.normal() - 4);
  std::vector<float> weights(quarter / 4);
  for (float& x : weights) x = 0.02f * random.normal();
  std::vector<uint16_t> halves(quarter / 2);
  for (uint16_t& x : halves) {
    const float value = 0.02f * random.normal();
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    x = static_cast<uint16_t>(word >> 16);
  }
  const uint64_t words = tokens.size(), pairs = halves.size();
  std::vector<Dataset> all;
  all.push_back(dataset_of("0/tokens", DType::kI32, {words}, std::move(tokens)));
  all.push_back(dataset_of("0/log_probs", DType::kF32, {words}, std::move(log_probs)));
  all.push_back(dataset_of("0/w", DType::kF32, {words}, std::move(weights)));
  all.push_back(dataset_of("0/b", DType::kBF16, {pairs}, std::move(halves)));
  return all;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs work(i) in `count` processes at once, or here where one is enough.
void in_processes(int count, const std::function<void(int)>& work) {
  if (count == 1) return work(0);
  std::vector<pid_t> all;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child < 0) throw Error(ErrorCode::kEnvironment, "no process can be started");
    if (child == 0) {
      try {
        work(i);
        ::_exit(0);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "dump: process %d: %s\n", i, e.what());
        ::_exit(1);
      }
    }
    all.push_back(child);
  }
  bool failed = false;
  for (const pid_t child : all) {
    int status = 0;
    failed |= ::waitpid(child, &status, 0) != child || status != 0;
  }
  if (failed) throw Error(ErrorCode::kEnvironment, "a process has failed");
}

/// Both sides in turn, so that a busy machine slows both.
void compare(const char* name, const Arguments& arguments, double bytes,
             const std::function<void()>& ours, const std::function<void()>& pipeline) {
  std::vector<double> a, b, ratios;
  ours();
  pipeline();
  for (int i = 0; i < arguments.repetitions; ++i) {
    a.push_back(seconds_of(ours));
    b.push_back(seconds_of(pipeline));
    ratios.push_back(b.back() / a.back());
  }
  const double mine = bytes / median(a) * 1e-9, other = bytes / median(b) * 1e-9;
  const char* text = arguments.json
                         ? "{\"schema\":\"rlreplay.bench/1\",\"name\":\"%s\",\"ours\":%.3f,"
                           "\"pipeline\":%.3f,\"ratio\":%.3f,\"unit\":\"GB/s\",\"threads\":%d,"
                           "\"processes\":%d}\n"
                         : "%-16s %8.3f GB/s, HDF5 pipeline %8.3f GB/s, ratio %6.2f, threads %d, "
                           "processes %d\n";
  std::printf(text, name, mine, other, median(ratios), arguments.threads, arguments.processes);
  std::fflush(stdout);
}

/// All datasets of a unit at once.
void read_whole(const format::UnitReader& unit) {
  std::vector<Buffer<std::byte>> all;
  std::vector<format::UnitReader::Read> reads;
  for (const format::StoredDataset& d : unit.datasets()) {
    all.emplace_back(d.bytes);
    reads.push_back({&d, all.back()});
  }
  unit.read(reads);
}

/// The same tensors as a dump and through the pipeline, in units that processes share.
class Comparison {
 public:
  explicit Comparison(const Arguments& arguments)
      : arguments_(arguments),
        data_(make_data((arguments.mib << 20) / static_cast<uint64_t>(arguments.units))),
        dump_(arguments.folder + "/rlreplay-bench-dump"),
        plain_(arguments.folder + "/rlreplay-bench-pipeline") {
    std::filesystem::create_directories(plain_);
    writer_.threads = arguments.threads;
  }
  ~Comparison() {
    std::filesystem::remove_all(dump_);
    std::filesystem::remove_all(plain_);
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void run() const {
    compare(
        "write", arguments_, bytes(), [&] { write(); },
        [&] { each_plain([&](auto& path) { pipeline_write(path, data_, writer_.packing); }); });
    compare(
        "read and verify", arguments_, bytes(), [&] { read(); },
        [&] { each_plain([&](auto& path) { pipeline_read(path, data_); }); });
    if (arguments_.json) return;
    const auto packed = std::filesystem::file_size(dump_ + "/" + unit_path(0));
    std::printf("packed to %.3f of %.0f MB\n",
                static_cast<double>(packed) * arguments_.units / bytes(), bytes() * 1e-6);
  }

 private:
  static std::string unit_path(int i) { return "rollout/" + std::to_string(i) + ".h5"; }

  double bytes() const {
    double out = 0;
    for (const Dataset& d : data_) out += static_cast<double>(d.bytes.size());
    return out * arguments_.units;
  }

  /// Calls `work` with the units of each process in it.
  void each_share(const std::function<void(int process, std::span<const int> units)>& work) const {
    in_processes(arguments_.processes, [&](int process) {
      std::vector<int> share;
      for (int i = process; i < arguments_.units; i += arguments_.processes) share.push_back(i);
      work(process, share);
    });
  }

  void append(format::DumpWriter& out, std::span<const int> units) const {
    for (const int unit : units) out.append(unit_path(unit), data_);
  }

  /// Several processes are a writer each, beside the one that began the dump and seals it.
  void write() const {
    std::filesystem::remove_all(dump_);
    format::DumpWriter first = format::DumpWriter::create(dump_, R"({"ranks":1})", writer_);
    each_share([&](int process, std::span<const int> units) {
      if (arguments_.processes == 1) return append(first, units);
      format::WriterOptions options = writer_;
      options.writer = std::to_string(process + 1);
      format::DumpWriter out = format::DumpWriter::join(dump_, options);
      append(out, units);
      out.end();
    });
    first.seal();
  }

  void read() const {
    each_share([&](int, std::span<const int> units) {
      format::ReaderOptions options;
      options.threads = arguments_.threads;
      const format::DumpReader in = format::DumpReader::open(dump_, options);
      for (const int unit : units) read_whole(in.open_unit(*in.find(unit_path(unit))));
    });
  }

  void each_plain(const std::function<void(const std::string& path)>& work) const {
    each_share([&](int, std::span<const int> units) {
      for (const int unit : units) work(plain_ + "/" + std::to_string(unit) + ".h5");
    });
  }

  const Arguments& arguments_;
  std::vector<Dataset> data_;
  std::string dump_, plain_;
  format::WriterOptions writer_;
};

void run(const Arguments& arguments) {
  register_zstd();
  Comparison(arguments).run();
  measure_recording({arguments.json, arguments.threads, arguments.repetitions, arguments.steps,
                     arguments.folder});
}

}  // namespace
}  // namespace rlreplay::bench

int main(int argc, char** argv) {
  try {
    rlreplay::bench::run(rlreplay::bench::parse(argc, argv));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dump: %s\n", e.what());
    return 1;
  }
}
