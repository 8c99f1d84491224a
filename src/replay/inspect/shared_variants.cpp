#include "src/replay/inspect/shared_variants.h"

#include "format/foreign/framework.h"
#include "src/replay/options/objective_config.h"

namespace rlreplay::replay {
namespace {

using S = ObjectiveSetting;
using Variants = std::vector<ObjectiveVariant>;

}  // namespace

bool is_slime(const S& from) { return dialect(from.options) == engine::Dialect::kSlime; }

void add_flag(Variants& out, const S& from, bool RunOptions::*flag, const std::string& name,
              const std::string& reason) {
  const bool set = from.options.*flag;
  out.push_back(
      {(set ? "without " : "") + name, reason, [flag, set](S& s) { s.options.*flag = !set; }});
}

void add_rollout_logprobs(Variants& out, const S& from, const std::string& reason) {
  if (from.options.use_rollout_logprobs || !from.options.use_tis) {
    return add_flag(out, from, &RunOptions::use_rollout_logprobs, "--use-rollout-logprobs", reason);
  }
  // Both together are refused as options.
  out.push_back({"--use-rollout-logprobs without --use-tis",
                 reason,
                 [](S& s) {
                   s.options.use_rollout_logprobs = true;
                   s.options.use_tis = false;
                 },
                 {"--use-rollout-logprobs"}});
}

void add_zero(Variants& out, const S& from, double RunOptions::*field, const std::string& name) {
  if (from.options.*field == 0) return;
  out.push_back({name + " 0", {}, [field](S& s) { s.options.*field = 0; }});
}

void add_dialect(Variants& out, const S& from, const std::string& reason) {
  using foreign::Framework;
  const std::string other(to_string(is_slime(from) ? Framework::kMiles : Framework::kSlime));
  out.push_back({"--dialect " + other, reason, [other](S& s) { s.options.dialect = other; }});
}

void add_masked_nan(Variants& out, const S& from, const std::string& first) {
  if (first.empty()) return;
  const char* then = is_slime(from) ? "; slime sums what is masked times 0, and keeps the NaN"
                                    : "; Miles takes a mean of NaN, as GSPO and OPSM have it, as 0";
  const std::string returns =
      first +
      "; slime sums 128 tokens' returns as one product, masked ones times 0: a NaN is that "
      "of all of these tokens and of those before them";
  const std::string whitened =
      first + "; advantages are whitened by sums of what is masked times 0: one NaN is that of all";
  out.push_back(
      {.name = "the NaN of a masked token",
       .reason = first + then,
       .apply = [](S& s) { s.masked_nan = true; },
       .reasons = {{"returns", returns},
                   {"advantages", from.options.normalize_advantages ? whitened : returns}},
       .says_nan = true});
}

}  // namespace rlreplay::replay
