#include "format/foreign/sample_values.h"

#include <cmath>

#include "format/foreign/absent_keys.h"
#include "format/foreign/numbers.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

constexpr int64_t kMaxToken = INT32_MAX;

/// The first bad value, from `begin`, of a token that counts.
template <class IsBad>
std::optional<size_t> counting(const Numbers& column, size_t begin, const Numbers& mask,
                               IsBad is_bad) {
  const bool slice = mask.size() != column.size();
  size_t masked = 0;
  for (size_t i = 0; slice && i < mask.size(); ++i) masked += mask.real(i) == 0;
  for (size_t i = begin; i < column.size(); ++i) {
    if (!is_bad(column.real(i)) || (!slice && mask.real(i) == 0)) continue;
    if (masked == 0) return i;
    --masked;
  }
  return std::nullopt;
}

}  // namespace

void SampleValues::report(const char* code, const std::string& message, const std::string& where) {
  ++found_;
  sink_({code, message, where});
}

const Value* SampleValues::present(Value dict, std::string_view key) const {
  const Value* value = tree_.find(dict, key);
  return value == nullptr || value->kind == Kind::kNone ? nullptr : value;
}

std::optional<size_t> SampleValues::length(Value value) const {
  if (value.kind == Kind::kList) return tree_.sequence(value).size();
  const std::optional<Numbers> numbers = Numbers::of(tree_, value);
  return numbers ? std::optional<size_t>(numbers->size()) : std::nullopt;
}

std::optional<size_t> SampleValues::stated(const Value* value, const char* name,
                                           const std::string& where) {
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::kInt || value->integer < 0) {
    report("length-mismatch", std::string(name) + " is not a length", where);
    return std::nullopt;
  }
  return static_cast<size_t>(value->integer);
}

void SampleValues::equal_length(const Value* value, std::optional<size_t> wanted,
                                std::string_view name, const std::string& where) {
  if (value == nullptr || !wanted) return;
  const std::optional<size_t> found = length(*value);
  if (found == wanted) return;
  report(
      "length-mismatch",
      std::string(name) +
          (found ? " has " + std::to_string(*found) + " entries, " : std::string(" is no list, ")) +
          std::to_string(*wanted) + " are expected",
      where);
}

void SampleValues::tokens(Value value, const std::string& where) {
  const std::optional<Numbers> ids = Numbers::of(tree_, value);
  if (!ids || !ids->is_integer()) {
    return report("bad-token", "tokens holds something else than integers", where);
  }
  const std::optional<size_t> bad = ids->find([](auto token) {
    const auto id = static_cast<int64_t>(token);
    return id < 0 || id > kMaxToken;
  });
  if (!bad) return;
  report("bad-token", "token " + std::to_string(*bad) + " is " + std::to_string(ids->integer(*bad)),
         where);
}

void SampleValues::mask(const Value* value, std::string_view name, const std::string& where) {
  if (value == nullptr) return;
  const std::optional<Numbers> mask = Numbers::of(tree_, *value);
  if (!mask) {
    return report("bad-mask", std::string(name) + " holds something else than numbers", where);
  }
  const std::optional<size_t> bad = mask->find([](auto m) { return m != 0 && m != 1; });
  if (!bad) return;
  report("bad-mask", std::string(name) + " is neither 0 nor 1 at token " + std::to_string(*bad),
         where);
}

bool SampleValues::numbers(const Value* value, std::string_view name, const std::string& where) {
  if (value == nullptr) return false;
  if (Numbers::of(tree_, *value)) return true;
  report("not-numbers", std::string(name) + " holds something else than numbers", where);
  return false;
}

bool SampleValues::holds_integers(Value value) const {
  if (const auto numbers = Numbers::of(tree_, value)) {
    return numbers->is_integer() || numbers->size() == 0;
  }
  if (value.kind != Kind::kList) return false;
  const Sequence& list = tree_.sequence(value);
  for (size_t i = 0; i < list.size(); ++i) {
    const Value item = list[i];
    if (item.kind != Kind::kInt && !holds_integers(item)) return false;
  }
  return true;
}

void SampleValues::integers(const Value* value, std::string_view name, const std::string& where) {
  if (value == nullptr || holds_integers(*value)) return;
  report("not-numbers", std::string(name) + " holds something else than integers", where);
}

void SampleValues::log_probs(const Value* value, std::string_view name, const Value* loss_mask,
                             const std::string& where) {
  const auto column = value == nullptr ? std::nullopt : Numbers::of(tree_, *value);
  if (!column) return;
  const auto is_bad = [](auto number) {
    const auto x = static_cast<double>(number);
    return !std::isfinite(x) || x > kMostLogProb;
  };
  std::optional<size_t> bad = column->find(is_bad);
  const auto mask = loss_mask ? Numbers::of(tree_, *loss_mask) : std::nullopt;
  if (bad && mask) bad = counting(*column, *bad, *mask, is_bad);
  if (!bad) return;
  const double x = column->real(*bad);
  const std::string place = std::string(name) + " of token " + std::to_string(*bad);
  if (!std::isfinite(x)) return report("non-finite", place + " is not finite", where);
  report("bad-log-prob", place + " is " + std::to_string(x) + ", above zero", where);
}

void SampleValues::report_absent(const Sequence& samples,
                                 const std::function<bool(std::string_view)>& wanted) {
  for (const AbsentKeys& found : absent_keys(tree_, samples, wanted)) {
    report("length-mismatch",
           found.name() +
               (found.more > 0 ? " and " + counted(found.more, "key") + " more are missing"
                               : " is missing") +
               ", and row " + std::to_string(found.first) + " of the file has " +
               (found.more > 0 ? "the first" : "it"),
           "row " + std::to_string(found.row));
  }
}

}  // namespace rlreplay::foreign
