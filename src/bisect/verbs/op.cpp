#include <CLI/App.hpp>

#include "src/bisect/verbs/search_verbs.h"
#include "src/replay/verbs/command_line.h"
#include "src/replay/verbs/print_operation.h"

namespace rlreplay::bisect {
namespace {

constexpr const char* kOpFooter =
    R"(The operation is computed again from the inputs that the dump holds of it, by kernel sets of
this program. Beside them stands what the build has recorded that made the dump. Each is compared
with the record, bit for bit, and with the same formula in binary64. All that the phases forward and
backward compute can be taken, of a dump captured with --record ops+values; what reads weights needs
the step's state, too (--weights all).

Example:
  rlbisect op 0.0/forward/0/down/y --from dump/
  rlbisect op 0.0/forward/1/input_norm/y --from dump/ --kernels avx2 --json

Exit codes: 0 something differs from the record, 1 all agree, 128 and above error.)";

}  // namespace

int run_op(int argc, char** argv) {
  CLI::App app("Replays one operation of a dump from its recorded inputs", "rlbisect op");
  replay::OperationQuestion options;
  replay::set_up_help(app);
  app.add_option("event", options.event, "ROLLOUT.STEP/PHASE/LAYER/OPERATION/TENSOR")->required();
  app.add_option("--from", options.dump, "the dump")->required();
  app.add_option("--kernels", options.kernels,
                 "a kernel set of this processor (default: its fastest)");
  app.add_option("--against", options.against, "another one")->capture_default_str();
  app.add_flag("--json", options.json, "print one JSON object");
  app.footer(kOpFooter);
  const auto ended = replay::read_words(app, {argv + 1, argv + argc});
  if (ended) return *ended;
  return replay::print_operation(options) ? kBadExit : kGoodExit;
}

}  // namespace rlreplay::bisect
