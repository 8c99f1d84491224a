#include "bench/print.h"

#include <cstdio>

#include "src/base/json_line.h"

namespace rlreplay::bench {
namespace {

template <class... Args>
std::string format(const char* form, Args... args) {
  char text[512];
  std::snprintf(text, sizeof text, form, args...);
  return text;
}

const char* unit_name(Unit unit) { return unit == Unit::kGflops ? "GFLOP/s" : "GB/s"; }

std::optional<double> median_of(const std::optional<Rate>& rate) {
  return rate ? std::optional(rate->median) : std::nullopt;
}

std::optional<double> best_of(const std::optional<Rate>& rate) {
  return rate ? std::optional(rate->best) : std::nullopt;
}

double peak_of(const Item& item, const Peaks& peaks) {
  return item.unit == Unit::kGflops ? peaks.fma_gflops : peaks.read_gbytes;
}

std::optional<double> share_of_peak(const Item& item, const Outcome& outcome, const Peaks& peaks) {
  if (!outcome.ours) return {};
  return outcome.ours->median / (item.unit == Unit::kGflops ? peaks.fma_gflops : peaks.read_gbytes);
}

std::string cell(std::optional<double> value, int width, int digits) {
  return value ? format("%*.*f", width, digits, *value) : format("%*s", width, "-");
}

}  // namespace

std::string table_head(const Peaks& peaks, int threads, std::string_view kernels) {
  return format("%d thread%s, %.*s; this machine: %.1f GFLOP/s fma, %.1f GB/s read\n", threads,
                threads == 1 ? "" : "s", static_cast<int>(kernels.size()), kernels.data(),
                peaks.fma_gflops, peaks.read_gbytes) +
         format("%-48s %9s %9s %-7s %6s %6s %7s", "item (medians)", "ours", "torch", "unit",
                "ratio", "best", "of peak");
}

std::string table_line(const Item& item, const Outcome& outcome, const Peaks& peaks) {
  std::optional<double> best_ratio;
  if (outcome.ours && outcome.torch) best_ratio = outcome.ours->best / outcome.torch->best;
  return format("%-48s ", item.name.c_str()) + cell(median_of(outcome.ours), 9, 1) + " " +
         cell(median_of(outcome.torch), 9, 1) + format(" %-7s ", unit_name(item.unit)) +
         cell(outcome.ratio, 6, 2) + " " + cell(best_ratio, 6, 2) + " " +
         cell(share_of_peak(item, outcome, peaks), 7, 2);
}

std::string json_line(const Item& item, const Outcome& outcome, const Peaks& peaks, int threads) {
  return JsonLine()
      .text("name", item.name)
      .number("ours", median_of(outcome.ours))
      .number("torch", median_of(outcome.torch))
      .number("ratio", outcome.ratio)
      .number("ours_best", best_of(outcome.ours))
      .number("torch_best", best_of(outcome.torch))
      .text("unit", unit_name(item.unit))
      .number("share_of_peak", share_of_peak(item, outcome, peaks))
      .number("peak", peak_of(item, peaks))
      .integer("threads", threads)
      .str();
}

}  // namespace rlreplay::bench
