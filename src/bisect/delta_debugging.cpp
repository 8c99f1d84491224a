#include "src/bisect/delta_debugging.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

namespace rlreplay::bisect {
namespace {

using measure::Verdict;

Subset without(const Subset& from, const Subset& what) {
  Subset out;
  std::ranges::set_difference(from, what, std::inserter(out, out.end()));
  return out;
}

/// Tests no subset twice. One that cannot be judged counts as not bad, so that a set that is found
/// was seen bad, and may be larger than the least.
class DeltaDebugging {
 public:
  explicit DeltaDebugging(const std::function<Verdict(const Subset&)>& test) : test_(test) {}

  MinimalSets find(size_t n) {
    Subset all;
    for (size_t i = 0; i < n; ++i) all.insert(i);
    known_[{}] = Verdict::kGood;
    known_[all] = Verdict::kBad;
    out_.sets.push_back(minimize(all));
    while (const auto rest = next_rest(all)) out_.sets.push_back(minimize(*rest));
    std::ranges::sort(out_.sets);
    return out_;
  }

 private:
  bool is_bad(const Subset& subset) {
    const auto [at, is_new] = known_.try_emplace(subset, Verdict::kSkip);
    if (!is_new) return at->second == Verdict::kBad;
    at->second = test_(subset);
    out_.unresolved += at->second == Verdict::kSkip ? 1 : 0;
    return at->second == Verdict::kBad;
  }

  /// Parts of nearly equal size.
  static std::vector<Subset> parts_of(const Subset& set, size_t count) {
    std::vector<Subset> parts(count);
    size_t i = 0;
    for (const size_t element : set) parts[i++ * count / set.size()].insert(element);
    return parts;
  }

  /// A part that is bad, or what is left without a part if that is; nothing where neither is.
  std::optional<Subset> smaller(const Subset& bad, size_t parts, bool& is_part) {
    const auto all = parts_of(bad, parts);
    for (const Subset& part : all) {
      is_part = true;
      if (is_bad(part)) return part;
    }
    for (const Subset& part : all) {
      is_part = false;
      if (parts > 2 && is_bad(without(bad, part))) return without(bad, part);
    }
    return std::nullopt;
  }

  Subset minimize(Subset bad) {
    for (size_t parts = 2; bad.size() > 1 && parts <= bad.size();) {
      bool is_part = false;
      if (const auto less = smaller(bad, parts, is_part)) {
        bad = *less;
        parts = is_part ? 2 : std::max<size_t>(2, parts - 1);
      } else if (parts == bad.size()) {
        break;
      } else {
        parts = std::min(2 * parts, bad.size());
      }
    }
    return bad;
  }

  /// A set that is bad although it holds none of the known ones; nothing where none is.
  std::optional<Subset> next_rest(const Subset& all) { return next_rest(all, {}, 0); }

  std::optional<Subset> next_rest(const Subset& all, const Subset& taken, size_t known) {
    if (known == out_.sets.size()) {
      const Subset rest = without(all, taken);
      return is_bad(rest) ? std::optional(rest) : std::nullopt;
    }
    for (const size_t element : Subset(out_.sets[known])) {
      Subset more = taken;
      more.insert(element);
      if (auto rest = next_rest(all, more, known + 1)) return rest;
    }
    return std::nullopt;
  }

  const std::function<Verdict(const Subset&)>& test_;
  std::map<Subset, Verdict> known_;
  MinimalSets out_;
};

}  // namespace

MinimalSets minimal_sets(size_t n, const std::function<Verdict(const Subset&)>& test) {
  return DeltaDebugging(test).find(n);
}

}  // namespace rlreplay::bisect
