#include "src/bisect/verbs/common_options.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cmath>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/replay/verbs/value_checks.h"

namespace rlreplay::bisect {

void add_common_options(CLI::App& app, CommonOptions& options) {
  app.add_option("--build", options.recipe.build, "shell command that builds a checkout");
  app.add_option("--run", options.recipe.run, "shell command that runs it (see below)");
  app.add_option("--metric", options.criterion.metrics,
                 "what decides: weights, forward_logp_max_diff, grad_norm or other recorded "
                 "numbers, also by patterns (grad_*), more than once; default: weights of a dump, "
                 "every number of metrics.json, or else the exit code")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--exclude", options.criterion.excluded,
                 "a recorded number that does not count, also by a pattern (*_time)")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--tolerance", options.criterion.tolerance,
                 "how far a number may lie from the reference's (default: 0, the same bits)")
      ->check(replay::finite_not_negative());
  app.add_option("--bad-exit", options.criterion.bad_exits,
                 "an exit code that means bad though it tells of a crash, such as 134")
      ->type_name("CODE");
  app.add_option("--timeout", options.timeout,
                 "seconds after which a build or run is stopped and skipped (default: none)");
  app.add_flag("--json", options.json, "one JSON object on standard output");
}

void settle(CommonOptions& options) {
  if (options.criterion.tolerance > 0 && options.criterion.names("weights")) {
    throw Error(ErrorCode::kUsage,
                "weights are compared by their digests, which are equal or not: --tolerance needs "
                "a number, such as --metric loss");
  }
  if (!(options.timeout >= 0) || options.timeout > 1e9) {
    throw Error(ErrorCode::kUsage, "--timeout must be a number of seconds from 0 to 1e9, not " +
                                       shortest_of(options.timeout));
  }
  if (options.timeout > 0) {
    options.recipe.time_limit =
        std::chrono::milliseconds(static_cast<int64_t>(std::ceil(options.timeout * 1000)));
  }
}

}  // namespace rlreplay::bisect
