#include "format/unit.h"

#include <algorithm>
#include <charconv>

#include "src/base/number_text.h"

namespace rlreplay::format {
namespace {

constexpr std::string_view kSuffix = ".h5";

}  // namespace

bool sound_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
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

int64_t rank_of(std::string_view unit_path) {
  constexpr std::string_view kPrefix = "rank";
  std::string_view name = unit_path.substr(unit_path.rfind('/') + 1);
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return 0;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  const int64_t rank = parse_number<int64_t>(name).value_or(0);
  // `rank-3` and `rank007` are names like any other.
  return std::to_string(rank) == name && rank > 0 ? rank : 0;
}

}  // namespace rlreplay::format
