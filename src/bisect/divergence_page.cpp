#include "src/bisect/divergence_page.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "src/base/words.h"
#include "src/bisect/markup.h"

namespace rlreplay::bisect {
namespace {

using replay::EventDifference;
using replay::StepDifference;

std::string causes_html(const std::vector<replay::Cause>& causes) {
  std::string rows;
  for (const replay::Cause& cause : causes) {
    rows += "<tr><td>" + markup_text(cause.kind) + "<td>" + markup_text(cause.text) + "\n";
  }
  return rows.empty() ? ""
                      : "<h2>What else differs</h2>\n<table><tr><th>of<th>difference\n" + rows +
                            "</table>\n";
}

/// Deeper where more events of a cell differ.
std::string shade(size_t events, size_t most) {
  const double part = static_cast<double>(events) / static_cast<double>(most);
  return "background:hsl(4,90%," + formatted("%.1f", 94 - 44 * part) + "%)";
}

std::string cell_html(const std::vector<const EventDifference*>& events, size_t most,
                      const engine::Event& origin) {
  if (events.empty()) return "<td>";
  std::vector<std::string> names;
  bool begins = false;
  for (const EventDifference* difference : events) {
    const engine::Event& event = difference->event;
    names.push_back(std::string(engine::name(event.op)) + "/" + event.tensor);
    begins = begins || event == origin;
  }
  return "<td class=\"cell" + std::string(begins ? " begins" : "") + "\" style=\"" +
         shade(events.size(), most) + "\" title=\"" + markup_text(joined(names, ", ")) + "\">" +
         std::to_string(events.size());
}

/// A column a layer, a row a phase: how many events of each differ.
std::string map_html(const StepDifference& step) {
  std::map<std::pair<engine::Phase, int>, std::vector<const EventDifference*>> cells;
  std::set<engine::Phase> phases;
  std::set<int> layers;
  size_t most = 1;
  for (const EventDifference& difference : step.events) {
    const engine::Event& event = difference.event;
    auto& cell = cells[{event.phase, event.layer}];
    cell.push_back(&difference);
    most = std::max(most, cell.size());
    phases.insert(event.phase);
    layers.insert(event.layer);
  }
  std::string head = "<tr><th>", rows;
  for (const int layer : layers) {
    head += "<th>" + (layer < 0 ? "no layer" : "layer " + std::to_string(layer));
  }
  for (const engine::Phase phase : phases) {
    rows += "<tr><th>" + std::string(engine::name(phase));
    for (const int layer : layers) {
      rows += cell_html(cells[{phase, layer}], most, step.origin->event);
    }
    rows += "\n";
  }
  return "<h2>Where</h2>\n<p>events that differ, by phase and layer; framed: where it begins</p>\n"
         "<table class=\"map\">" +
         head + "\n" + rows + "</table>\n";
}

std::array<int64_t, 64> floats_by_power(const StepDifference& step) {
  std::array<int64_t, 64> sum{};
  for (const EventDifference& event : step.events) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += event.ulps_by_power[i];
  }
  return sum;
}

/// A bar a power of two; heights are logarithms, since few floats are far apart.
std::string histogram_html(const StepDifference& step) {
  constexpr double kHeight = 140, kBar = 26;
  const auto sum = floats_by_power(step);
  const auto last = std::find_if(sum.rbegin(), sum.rend(), [](int64_t n) { return n > 0; });
  const size_t bars = static_cast<size_t>(sum.rend() - last);
  if (bars == 0) return {};
  const double most = std::log2(1 + static_cast<double>(*std::ranges::max_element(sum)));
  std::string out;
  for (size_t i = 0; i < bars; ++i) {
    const double x = kBar * static_cast<double>(i);
    const double height = kHeight * std::log2(1 + static_cast<double>(sum[i])) / most;
    const std::string from = std::to_string(uint64_t{1} << i);
    out += "<rect x=\"" + formatted("%.1f", x + 2) + "\" y=\"" +
           formatted("%.1f", 16 + kHeight - height) + "\" width=\"" + formatted("%.1f", kBar - 4) +
           "\" height=\"" + formatted("%.1f", height) + "\" fill=\"#cf222e\"><title>" +
           counted(sum[i], "float") + " from " + from +
           " ulp up to twice that</title></rect><text x=\"" + formatted("%.1f", x + kBar / 2) +
           "\" y=\"" + formatted("%.1f", kHeight + 30) + "\">" + std::to_string(i) + "</text>";
  }
  return "<h2>How far</h2>\n<p>floats by their distance: bar i is 2<sup>i</sup> to 2<sup>i+1</sup> "
         "- 1 ulp, heights are logarithms</p>\n<svg class=\"bars\" width=\"" +
         formatted("%.1f", kBar * static_cast<double>(bars)) + "\" height=\"" +
         formatted("%.1f", kHeight + 36) +
         "\" role=\"img\" aria-label=\"how many floats lie how far apart\">" + out + "</svg>\n";
}

}  // namespace

std::string divergence_html(const replay::DumpsDifference& difference) {
  std::string out = causes_html(difference.causes);
  if (difference.origin() == nullptr) return out;
  return out + map_html(difference.events->step) + histogram_html(difference.events->step);
}

std::string dumps_html(const replay::DumpsDifference& difference, const std::string& name_a,
                       const std::string& name_b, const std::string& report) {
  const std::string title =
      difference.identical() ? "two dumps agree" : name_a + " and " + name_b + " differ";
  return html_page(title, divergence_html(difference) + "<h2>Report</h2>\n<pre>" +
                              markup_text(report) + "</pre>\n");
}

}  // namespace rlreplay::bisect
