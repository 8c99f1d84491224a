#include "src/base/layout.h"

#include <array>
#include <cstdint>
#include <optional>

#include "src/base/error.h"
#include "src/base/number_text.h"

namespace rlreplay {
namespace {

[[noreturn]] void refuse(std::string_view part, const std::string& why) {
  throw Error(ErrorCode::kUsage, "a layout is written like dp=2,tp=2,pp=1,cp=1,sp=1,zero=1: \"" +
                                     std::string(part) + "\" " + why);
}

constexpr std::array<std::string_view, 7> kKeys{"dp", "tp", "pp", "cp", "ep", "sp", "zero"};

size_t key_index(std::string_view part, std::string_view key) {
  for (size_t i = 0; i < kKeys.size(); ++i) {
    if (kKeys[i] == key) return i;
  }
  refuse(part, "is none of dp=, tp=, pp=, cp=, ep=, sp=, zero=");
}

int parse_size(std::string_view part, std::string_view digits, bool is_switch) {
  const auto size = parse_number<int>(digits);
  const std::string_view bare = digits.substr(digits.starts_with('-') ? 1 : 0);
  const bool is_number = !bare.empty() && bare.find_first_not_of("0123456789") == bare.npos;
  if (!is_number) refuse(part, "has no number");
  if (is_switch && (!size || *size < 0 || *size > 1)) refuse(part, "is 0 or 1");
  if (!is_switch && (!size || *size < 1 || *size > kMaxRanks)) {
    refuse(part, "is not between 1 and " + std::to_string(kMaxRanks));
  }
  return *size;
}

}  // namespace

Layout parse_layout(std::string_view text) {
  std::array<std::optional<int>, kKeys.size()> sizes;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, end);
    const size_t equals = std::min(part.find('='), part.size());
    const size_t key = key_index(part, part.substr(0, equals));
    if (sizes[key]) refuse(part, "is the second of its kind");
    sizes[key] = parse_size(part, part.substr(std::min(equals + 1, part.size())), key >= 5);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (sizes[4].value_or(1) > 1) {
    throw Error(
        ErrorCode::kUnsupported,
        "layout " + std::string(text) + ": no model that is supported has experts, so ep is 1");
  }
  Layout out{sizes[0].value_or(1), sizes[1].value_or(1),      sizes[2].value_or(1),
             sizes[3].value_or(1), sizes[5].value_or(0) == 1, sizes[6].value_or(0) == 1};
  // By pairs first, which fit: the product of four such sizes may not.
  if (int64_t{out.dp} * out.tp > kMaxRanks || int64_t{out.pp} * out.cp > kMaxRanks ||
      out.ranks() > kMaxRanks) {
    refuse(text, "has more than " + std::to_string(kMaxRanks) + " ranks");
  }
  return out;
}

std::string to_string(const Layout& l) {
  return "dp=" + std::to_string(l.dp) + ",tp=" + std::to_string(l.tp) +
         ",pp=" + std::to_string(l.pp) + ",cp=" + std::to_string(l.cp) + (l.sp ? ",sp=1" : "") +
         (l.zero ? ",zero=1" : "");
}

// tp counts fastest, then cp, dp and pp; rank_of is the inverse.
RankPlace place_of(const Layout& l, int rank) {
  return {.dp = rank / (l.tp * l.cp) % l.dp,
          .tp = rank % l.tp,
          .pp = rank / (l.tp * l.cp * l.dp),
          .cp = rank / l.tp % l.cp};
}

int rank_of(const Layout& l, const RankPlace& p) {
  return ((p.pp * l.dp + p.dp) * l.cp + p.cp) * l.tp + p.tp;
}

std::string rank_name(const Layout& l, int rank) {
  const RankPlace p = place_of(l, rank);
  std::string axes;
  const auto add = [&](int size, const char* name, int at) {
    if (size > 1) axes += (axes.empty() ? "" : ", ") + std::string(name) + std::to_string(at);
  };
  add(l.dp, "dp ", p.dp);
  add(l.tp, "tp ", p.tp);
  add(l.pp, "pp ", p.pp);
  add(l.cp, "cp ", p.cp);
  return "rank " + std::to_string(rank) + (axes.empty() ? "" : " (" + axes + ")");
}

}  // namespace rlreplay
