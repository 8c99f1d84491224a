#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/hdf5_pipeline.h"
#include "bench/median.h"
#include "bench/recording.h"
#include "format/dump_reader.h"
#include "format/dump_writer.h"
#include "src/base/error.h"

/// Writing and reading dumps against HDF5's own filter pipeline at the same settings, in one run;
/// then what recording a training step costs.
/// usage: dump [--json] [--threads N] [--mib N] [--units N] [--repetitions N] [--folder DIR]
///             [--steps N]
namespace rlreplay::bench {
namespace {

using format::Dataset;
using format::dataset_of;

struct Arguments {
  bool json = false;
  int threads = 2;
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
                           "\"pipeline\":%.3f,\"ratio\":%.3f,\"unit\":\"GB/s\",\"threads\":%d}\n"
                         : "%-16s %8.3f GB/s, HDF5 pipeline %8.3f GB/s, ratio %6.2f, %d threads\n";
  std::printf(text, name, mine, other, median(ratios), arguments.threads);
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

void run(const Arguments& arguments) {
  const auto units = static_cast<uint64_t>(arguments.units);
  const std::vector<Dataset> data = make_data((arguments.mib << 20) / units);
  double bytes = 0;
  for (const Dataset& d : data) bytes += static_cast<double>(d.bytes.size() * units);
  const std::string dump = arguments.folder + "/rlreplay-bench-dump";
  const std::string plain = arguments.folder + "/rlreplay-bench-pipeline";
  const auto unit_path = [](uint64_t i) { return "rollout/" + std::to_string(i) + ".h5"; };
  const auto plain_path = [&](uint64_t i) { return plain + "/" + std::to_string(i) + ".h5"; };
  std::filesystem::create_directories(plain);
  format::WriterOptions writer;
  writer.threads = arguments.threads;
  format::ReaderOptions reader;
  reader.threads = arguments.threads;
  register_zstd();
  const auto write = [&] {
    std::filesystem::remove_all(dump);
    format::DumpWriter out = format::DumpWriter::create(dump, R"({"ranks":1})", writer);
    for (uint64_t i = 0; i < units; ++i) out.append(unit_path(i), data);
    out.seal();
  };
  const auto read = [&] {
    const format::DumpReader in = format::DumpReader::open(dump, reader);
    for (const format::UnitRecord& unit : in.units()) read_whole(in.open_unit(unit));
  };
  compare("write", arguments, bytes, write, [&] {
    for (uint64_t i = 0; i < units; ++i) pipeline_write(plain_path(i), data, writer.packing);
  });
  compare("read and verify", arguments, bytes, read, [&] {
    for (uint64_t i = 0; i < units; ++i) pipeline_read(plain_path(i), data);
  });
  if (!arguments.json) {
    const auto packed = std::filesystem::file_size(dump + "/" + unit_path(0)) * units;
    std::printf("packed to %.3f of %.0f MB\n", static_cast<double>(packed) / bytes, bytes * 1e-6);
  }
  std::filesystem::remove_all(dump);
  std::filesystem::remove_all(plain);
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
