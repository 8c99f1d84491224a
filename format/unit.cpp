#include "format/unit.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "src/base/ascii.h"
#include "src/base/number_text.h"

namespace rlreplay::format {

const int kMajor = 1;
const int kMinor = 0;

namespace {

constexpr std::string_view kSuffix = ".h5";

/// A number as it is printed: `-3` and `007` are none.
std::optional<int64_t> printed_number(std::string_view text) {
  const auto number = parse_number<int64_t>(text);
  return number && *number >= 0 && std::to_string(*number) == text ? number : std::nullopt;
}

struct RankPlace {
  int64_t rank = 0;
  bool part = false;
};

RankPlace rank_place(std::string_view unit_path) {
  constexpr std::string_view kPrefix = "rank", kPart = "-part";
  std::string_view name = unit_path.substr(unit_path.rfind('/') + 1);
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return {};
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  const size_t cut = name.find(kPart);
  const bool part = cut != name.npos;
  const auto rank = printed_number(name.substr(0, cut));
  if (!rank || (part && !printed_number(name.substr(cut + kPart.size())))) return {};
  return {*rank, part};
}

}  // namespace

bool sound_name(std::string_view name) {
  const auto allowed = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= 100 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

std::string_view kind_of(std::string_view unit_path) {
  return unit_path.substr(0, unit_path.find('/'));
}

bool sound_unit_path(std::string_view path) {
  const std::string_view kind = kind_of(path);
  const bool known = kind == "rollout" || kind == "train" || kind == "weights" ||
                     (kind.starts_with("x-") && sound_name(kind));
  if (!known || kind.size() == path.size() || !path.ends_with(kSuffix)) return false;
  std::string_view rest = path.substr(kind.size() + 1);
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) {
    if (!sound_name(rest.substr(0, slash))) return false;
    rest.remove_prefix(slash + 1);
  }
  return sound_name(rest.substr(0, rest.size() - kSuffix.size()));
}

std::string this_version() { return std::to_string(kMajor) + "." + std::to_string(kMinor); }

bool sound_version(std::string_view version) {
  int major = -1, minor = -1;
  const char* end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  return second.ec == std::errc() && second.ptr == end && minor >= 0 && major >= 0 &&
         major <= kMajor;
}

int64_t rank_of(std::string_view unit_path) { return rank_place(unit_path).rank; }

bool is_part(std::string_view unit_path) { return rank_place(unit_path).part; }

}  // namespace rlreplay::format
