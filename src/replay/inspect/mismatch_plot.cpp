#include "src/replay/inspect/mismatch_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "src/base/text_table.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

constexpr double kWidth = 860, kPanel = 300, kLeft = 80, kRight = 24, kTop = 44, kBottom = 48;
constexpr double kHeader = 44;
constexpr char kInk[] = "#333333", kGrid[] = "#e4e4e4", kMean[] = "#2f6db5", kMax[] = "#c8442b";

std::string fixed(double x) { return formatted("%.1f", x); }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// The elements of a drawing, in pixels from its upper left corner.
class Svg {
 public:
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    out_ += "<line x1='" + fixed(x1) + "' y1='" + fixed(y1) + "' x2='" + fixed(x2) + "' y2='" +
            fixed(y2) + "' stroke='" + colour + "'/>\n";
  }
  void rect(double x, double y, double width, double height, const char* colour) {
    out_ += "<rect x='" + fixed(x) + "' y='" + fixed(y) + "' width='" + fixed(width) +
            "' height='" + fixed(height) + "' fill='" + colour + "'/>\n";
  }
  /// `anchor`: start, middle or end.
  void text(double x, double y, const std::string& what, const char* anchor, int size = 12) {
    out_ += "<text x='" + fixed(x) + "' y='" + fixed(y) + "' text-anchor='" + anchor +
            "' font-size='" + std::to_string(size) + "' fill='" + kInk + "'>" + escaped(what) +
            "</text>\n";
  }
  void path(const std::vector<std::pair<double, double>>& points, const char* colour) {
    std::string list;
    for (const auto& [x, y] : points) {
      list += (list.empty() ? "" : " ") + fixed(x) + "," + fixed(y);
      out_ += "<circle cx='" + fixed(x) + "' cy='" + fixed(y) + "' r='3' fill='" + colour + "'/>\n";
    }
    out_ += "<polyline points='" + list + "' fill='none' stroke-width='1.5' stroke='" +
            std::string(colour) + "'/>\n";
  }
  std::string finish(double height) const {
    return "<svg xmlns='http://www.w3.org/2000/svg' width='" + fixed(kWidth) + "' height='" +
           fixed(height) + "' viewBox='0 0 " + fixed(kWidth) + " " + fixed(height) +
           "' font-family='sans-serif'>\n<rect width='100%' height='100%' fill='white'/>\n" + out_ +
           "</svg>\n";
  }

 private:
  std::string out_;
};

/// The frame of one panel; places in it are shares of its plane, from the lower left.
struct Panel {
  double top;
  double x(double share) const { return kLeft + share * (kWidth - kLeft - kRight); }
  double y(double share) const { return top + kTop + (1 - share) * (kPanel - kTop - kBottom); }
  void frame(Svg& svg, const std::string& title, const std::string& below) const {
    svg.text(kLeft, top + kTop - 14, title, "start", 14);
    svg.line(x(0), y(0), x(1), y(0), kInk);
    svg.line(x(0), y(0), x(0), y(1), kInk);
    svg.text(x(0.5), y(0) + 38, below, "middle");
  }
};

/// 1, 2 or 5 times a power of ten, of which at most five fit.
double tick(double most) {
  double out = 1;
  for (const double next : {2.0, 2.5, 2.0}) {
    if (most / out > 5) out *= next;
  }
  return most / out > 5 ? 10 * tick(most / 10) : out;
}

void draw_distribution(Svg& svg, const Panel& panel, const Mismatch& m) {
  panel.frame(svg, "tokens by |train - rollout|", "|train - rollout|, from");
  const auto most = static_cast<double>(std::max<int64_t>(1, *std::ranges::max_element(m.decades)));
  for (double count = 0; count <= most; count += tick(most)) {
    const double y = panel.y(count / most);
    if (count > 0) svg.line(panel.x(0), y, panel.x(1), y, kGrid);
    svg.text(panel.x(0) - 8, y + 4, short_number(count), "end");
  }
  for (size_t i = 0; i < kDecades; ++i) {
    const double height = static_cast<double>(m.decades[i]) / most;
    const double left = (static_cast<double>(i) + 0.1) / kDecades;
    const double width = panel.x(0.8 / kDecades) - panel.x(0);
    svg.rect(panel.x(left), panel.y(height), width, panel.y(0) - panel.y(height), kMean);
    const double middle = panel.x(left) + width / 2;
    if (m.decades[i] > 0) {
      svg.text(middle, panel.y(height) - 4, std::to_string(m.decades[i]), "middle", 11);
    }
    const std::string name = i == 0 ? "0" : i == 1 ? "above 0" : decade_name(i);
    svg.text(middle, panel.y(0) + 18, name, "middle", 11);
  }
}

/// Decades that hold all positive values of the parts.
struct Scale {
  double low = -8, high = 0;
  double share(double value) const {
    if (value <= 0) return 0;
    return std::clamp((std::log10(value) - low) / (high - low), 0.0, 1.0);
  }
};

Scale scale_of(const std::map<int64_t, MismatchSums>& parts) {
  double low = 0, high = 0;
  for (const auto& [key, sums] : parts) {
    for (const double value : {sums.max, sums.mean(sums.distance).value_or(0)}) {
      if (value <= 0) continue;
      low = low == 0 ? value : std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (high == 0) return {};
  Scale out{std::floor(std::log10(low)), std::ceil(std::log10(high))};
  if (out.high <= out.low) out.high = out.low + 1;
  return out;
}

void draw_lines(Svg& svg, const Panel& panel, const std::map<int64_t, MismatchSums>& parts,
                const std::string& what, std::string (*name)(int64_t)) {
  panel.frame(svg, "|train - rollout| by " + what, what);
  const Scale scale = scale_of(parts);
  for (int decade = static_cast<int>(scale.low); decade <= static_cast<int>(scale.high); ++decade) {
    const double y = panel.y((decade - scale.low) / (scale.high - scale.low));
    svg.line(panel.x(0), y, panel.x(1), y, kGrid);
    svg.text(panel.x(0) - 8, y + 4, formatted("1e%+03d", decade), "end");
  }
  std::vector<std::pair<double, double>> means, maxima;
  const size_t every = std::max<size_t>(1, (parts.size() + 15) / 16);  // labels that fit
  size_t i = 0;
  for (const auto& [key, sums] : parts) {
    const double x = panel.x((static_cast<double>(i) + 0.5) / static_cast<double>(parts.size()));
    means.emplace_back(x, panel.y(scale.share(sums.mean(sums.distance).value_or(0))));
    maxima.emplace_back(x, panel.y(scale.share(sums.max)));
    if (i++ % every == 0) svg.text(x, panel.y(0) + 18, name(key), "middle", 11);
  }
  svg.path(maxima, kMax);
  svg.path(means, kMean);
  for (const auto& [place, colour, label] :
       {std::tuple(150.0, kMax, "largest"), std::tuple(70.0, kMean, "mean")}) {
    const double x = panel.x(1) - place, y = panel.top + kTop - 18;
    svg.rect(x, y - 5, 14, 4, colour);
    svg.text(x + 20, y, label, "start");
  }
}

}  // namespace

std::string mismatch_svg(const Mismatch& m, const std::string& title) {
  Svg svg;
  svg.text(kLeft, 28, title, "start", 16);
  std::string below = "largest " + short_number(m.all.measured(m.all.max)) + ", p99 " +
                      short_number(m.all.measured(m.p99)) + ", mean " +
                      short_number(m.all.mean(m.all.distance)) + " of " +
                      std::to_string(m.all.finite()) + " tokens";
  if (m.all.nonfinite > 0) below += "; " + std::to_string(m.all.nonfinite) + " more not finite";
  svg.text(kLeft, kHeader + 2, below, "start");
  double top = kHeader;
  draw_distribution(svg, {top}, m);
  top += kPanel;
  draw_lines(svg, {top}, m.by_position, "position in the response", bucket_name);
  top += kPanel;
  if (m.by_rollout.size() > 1) {
    draw_lines(svg, {top}, m.by_rollout, "rollout",
               [](int64_t key) { return std::to_string(key); });
    top += kPanel;
  }
  return svg.finish(top);
}

}  // namespace rlreplay::replay
