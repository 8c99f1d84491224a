#include <algorithm>
#include <cstdio>
#include <optional>
#include <regex>
#include <span>
#include <string_view>

#include "bench/measure.h"
#include "bench/peaks.h"
#include "bench/step_item.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/process.h"

namespace rlreplay::bench {
namespace {

constexpr const char* kUsage =
    "usage: step [--json] [--filter REGEX] [--threads N] [--profile]\n"
    "Measures whole optimizer steps and generation of the kernel sets portable (ours) and torch, "
    "in\n"
    "turn, each in a process of its own. The larger model needs about 16 GiB.\n"
    "  --json     one JSON object an item and line\n"
    "  --filter   only items whose name matches\n"
    "  --threads  of both sides (default 2)\n"
    "  --profile  where each side's time goes, on stderr; shares of events, so coarse for torch\n";

struct Options {
  bool json = false;
  bool profile = false;
  std::string filter;
  int threads = 2;
  std::string side;  // in a process of its own: the kernel set
  std::string item;
};

std::optional<Options> parse(std::span<char*> arguments) {
  Options out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view name = arguments[i];
    if (name == "--json" || name == "--profile") {
      (name == "--json" ? out.json : out.profile) = true;
      continue;
    }
    if (++i == arguments.size()) return {};
    const std::string value = arguments[i];
    if (name == "--filter") {
      out.filter = value;
    } else if (name == "--threads") {
      out.threads = std::stoi(value);
    } else if (name == "--side") {
      out.side = value;
    } else if (name == "--item") {
      out.item = value;
    } else {
      return {};
    }
  }
  if (out.threads < 1) return {};
  return out;
}

/// The process of one side: its result on stdout.
int print_side(const Options& options) {
  const auto items = step_items();
  const auto item =
      std::ranges::find_if(items, [&](const auto& i) { return i.name == options.item; });
  if (item == items.end()) throw Error(ErrorCode::kUsage, "there is no item " + options.item);
  const SideResult r = run_side(*item, options.side, options.threads, options.profile);
  std::string seconds;
  for (const double s : r.seconds) seconds += (seconds.empty() ? "" : ", ") + std::to_string(s);
  std::puts(JsonLine()
                .json("seconds", "[" + seconds + "]")
                .integer("tokens", r.tokens)
                .number("processors", r.processors)
                .number("peak_mib", r.peak_mib)
                .str()
                .c_str());
  return 0;
}

SideResult start_side(const std::string& program, const std::string& kernels, const StepItem& item,
                      const Options& options) {
  Command command{{program, "--side", kernels, "--item", item.name, "--threads",
                   std::to_string(options.threads)}};
  if (options.profile) command.arguments.push_back("--profile");
  const ProcessResult process = run_process(command, {}, {std::chrono::hours(2), 1 << 20});
  if (process.end != ProcessResult::End::kExit || process.code != 0) {
    throw Error(ErrorCode::kEnvironment, item.name + " on " + kernels + " " + process.describe());
  }
  std::fputs(process.error_tail.c_str(), stderr);
  const auto document = JsonDocument::parse(process.output, "the output of " + kernels);
  const JsonValue root = document.root();
  SideResult out;
  for (size_t i = 0; i < root["seconds"].size(); ++i) {
    out.seconds.push_back(root["seconds"].at(i).number());
  }
  out.tokens = root["tokens"].integer(0, INT64_MAX);
  out.processors = root["processors"].number();
  out.peak_mib = root["peak_mib"].number();
  return out;
}

/// All processes of one side.
struct Side {
  std::vector<double> seconds;
  double tokens = 0, processors = 0, peak_mib = 0;

  void add(const SideResult& r, int rounds) {
    seconds.insert(seconds.end(), r.seconds.begin(), r.seconds.end());
    tokens = static_cast<double>(r.tokens);
    processors += r.processors / rounds;
    peak_mib = std::max(peak_mib, r.peak_mib);
  }
  double rate() const { return tokens / median(seconds); }
  /// Processor seconds a repetition: what other work on the machine changes least.
  double processor_seconds() const { return processors * median(seconds); }
};

void print(const StepItem& item, const Side& ours, const Side& torch, const Options& options) {
  const double ratio = ours.rate() / torch.rate();
  if (!options.json) {
    std::printf("%-24s %10.1f %10.1f tokens/s %6.2f %10.0f %10.0f\n", item.name.c_str(),
                ours.rate(), torch.rate(), ratio, ours.peak_mib, torch.peak_mib);
  } else {
    std::puts(JsonLine()
                  .text("name", item.name)
                  .number("ours", ours.rate())
                  .number("torch", torch.rate())
                  .number("ratio", ratio)
                  .text("unit", "tokens/s")
                  .number("processor_ratio", torch.processor_seconds() / ours.processor_seconds())
                  .number("ours_seconds", median(ours.seconds))
                  .number("torch_seconds", median(torch.seconds))
                  .number("ours_peak_mib", ours.peak_mib)
                  .number("torch_peak_mib", torch.peak_mib)
                  .number("ours_processors", ours.processors)
                  .number("torch_processors", torch.processors)
                  .integer("threads", options.threads)
                  .str()
                  .c_str());
  }
  std::fflush(stdout);
}

void warn_if_busy(int threads) {
  ThreadPool pool(threads);
  const Peaks peaks = measure_peaks(pool);
  if (peaks.cpu_share >= 0.9) return;
  std::fprintf(stderr,
               "step: the machine is busy with other work (%d%% of %d processors were ours): "
               "ratios are noise\n",
               static_cast<int>(100 * peaks.cpu_share), threads);
}

int main(const std::string& program, std::span<char*> arguments) {
  const auto options = parse(arguments);
  if (!options) {
    std::fputs(kUsage, stderr);
    return exit_code(ErrorCode::kUsage);
  }
  if (!options->side.empty()) return print_side(*options);
  auto items = step_items();
  const std::regex wanted(options->filter);
  std::erase_if(items, [&](const auto& item) { return !std::regex_search(item.name, wanted); });
  if (items.empty()) throw Error(ErrorCode::kUsage, "no item matches " + options->filter);
  warn_if_busy(options->threads);
  if (!options->json) {
    std::printf("%-24s %10s %10s %8s %6s %10s %10s\n", "item (medians)", "ours", "torch", "unit",
                "ratio", "ours MiB", "torch MiB");
  }
  for (const StepItem& item : items) {
    Side ours, torch;
    for (int i = 0; i < item.rounds; ++i) {
      ours.add(start_side(program, "portable", item, *options), item.rounds);
      torch.add(start_side(program, "torch", item, *options), item.rounds);
    }
    print(item, ours, torch, *options);
  }
  return 0;
}

}  // namespace
}  // namespace rlreplay::bench

int main(int argc, char** argv) {
  try {
    return rlreplay::bench::main(argv[0], {argv + 1, argv + argc});
  } catch (const rlreplay::Error& error) {
    std::fprintf(stderr, "step: %s\n", error.what());
    return rlreplay::exit_code(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step: %s\n", error.what());
    return rlreplay::exit_code(rlreplay::ErrorCode::kUsage);
  }
}
