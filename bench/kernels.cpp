#include <cstdio>
#include <optional>
#include <regex>
#include <span>
#include <string_view>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/peaks.h"
#include "bench/print.h"
#include "src/base/error.h"
#include "src/engine/torch/operators.h"

namespace rlreplay::bench {
namespace {

constexpr const char* kUsage =
    "usage: kernels [--json] [--filter REGEX] [--threads N] [--repetitions N] [--seconds S]\n"
    "Measures our kernels against libtorch's operators, in turn, on the same number of threads.\n"
    "  --json         one JSON object an item and line\n"
    "  --filter       only items whose name matches\n"
    "  --threads      only this number of threads (default: 1, then 2)\n"
    "  --repetitions  of each item (default 9); medians are printed\n"
    "  --seconds      of each repetition and side (default 0.02)\n";

struct Options {
  bool json = false;
  std::string filter;
  std::vector<int> threads = {1, 2};
  int repetitions = 9;
  double seconds = 0.02;
};

std::optional<Options> parse(std::span<char*> arguments) {
  Options out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view name = arguments[i];
    if (name == "--json") {
      out.json = true;
      continue;
    }
    if (++i == arguments.size()) return {};
    const std::string value = arguments[i];
    if (name == "--filter") {
      out.filter = value;
    } else if (name == "--threads") {
      out.threads = {std::stoi(value)};
    } else if (name == "--repetitions") {
      out.repetitions = std::stoi(value);
    } else if (name == "--seconds") {
      out.seconds = std::stod(value);
    } else {
      return {};
    }
  }
  if (out.repetitions < 1 || !(out.seconds > 0)) return {};
  return out;
}

std::vector<Item> selected_items(const std::string& filter) {
  std::vector<Item> items;
  add_gemm(items);
  add_attention(items);
  add_rows(items);
  const std::regex wanted(filter);
  std::erase_if(items, [&](const Item& item) { return !std::regex_search(item.name, wanted); });
  return items;
}

void run(const std::vector<Item>& items, int threads, const Options& options) {
  ThreadPool pool(threads);
  aten::set_threads(threads);
  const Peaks peaks = measure_peaks(pool);
  if (peaks.cpu_share < 0.9) {
    std::fprintf(stderr,
                 "kernels: the machine is busy with other work (%d%% of %d processors were ours): "
                 "ratios are noise\n",
                 static_cast<int>(100 * peaks.cpu_share), threads);
  }
  const Context context{kernels::cpu_kernels(), pool};
  if (!options.json) {
    std::puts(table_head(peaks, threads, context.kernels.name).c_str());
  }
  for (const Item& item : items) {
    const auto outcome = measure(item, item.make(context), options.repetitions, options.seconds);
    const auto line =
        options.json ? json_line(item, outcome, peaks, threads) : table_line(item, outcome, peaks);
    std::puts(line.c_str());
    std::fflush(stdout);
  }
}

int main(std::span<char*> arguments) {
  const auto options = parse(arguments);
  if (!options) {
    std::fputs(kUsage, stderr);
    return exit_code(ErrorCode::kUsage);
  }
  const auto items = selected_items(options->filter);
  if (items.empty()) throw Error(ErrorCode::kUsage, "no item matches " + options->filter);
  for (const int threads : options->threads) run(items, threads, *options);
  return 0;
}

}  // namespace
}  // namespace rlreplay::bench

int main(int argc, char** argv) {
  try {
    return rlreplay::bench::main({argv + 1, argv + argc});
  } catch (const rlreplay::Error& error) {
    std::fprintf(stderr, "kernels: %s\n", error.what());
    return rlreplay::exit_code(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels: %s\n", error.what());
    return rlreplay::exit_code(rlreplay::ErrorCode::kUsage);
  }
}
