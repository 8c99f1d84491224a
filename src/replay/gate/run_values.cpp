#include "src/replay/gate/run_values.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/base/process.h"
#include "src/base/run_git.h"
#include "src/base/temporary_folder.h"
#include "src/replay/measure/evidence.h"
#include "src/replay/record/content_root.h"

namespace rlreplay::gate {
namespace {

std::string text_of(const measure::MetricValue& value) {
  return value.text.empty() ? golden_value(value.number) : value.text;
}

}  // namespace

bool has_failed(const measure::Measurement& measurement) {
  const bool is_finding =
      measurement.exit_code == 1 && measurement.evidence == measure::Evidence::kDump;
  return measurement.exit_code != 0 && !is_finding;
}

GoldenEntries values_of(const measure::Measurement& measurement) {
  if (measurement.evidence == measure::Evidence::kExitCode) {
    throw Error(ErrorCode::kUsage,
                "the run left nothing but its exit code, " + std::to_string(measurement.exit_code) +
                    ", in which no change could be seen: let it leave metrics.json, dump/ or files "
                    "of a framework in $RLBISECT_OUT");
  }
  if (has_failed(measurement)) {
    throw Error(ErrorCode::kIncomplete, "the run left numbers and then failed with exit code " +
                                            std::to_string(measurement.exit_code) +
                                            ": only one that ends with 0 is judged");
  }
  GoldenEntries out;
  for (const measure::Metric& metric : measurement.metrics) {
    for (size_t i = 0; i < metric.values.size(); ++i) {
      const std::string step =
          i < metric.step_names.size() ? metric.step_names[i] : std::to_string(i);
      const std::string of = metric.per_step ? "step " + step + " " : "metric ";
      out[of + metric.name] = text_of(metric.values[i]);
    }
  }
  for (const measure::NamedDigest& d : measurement.weights) {
    if (!d.digest.empty()) out["step " + d.name + " weights"] = d.digest;
  }
  for (const measure::NamedDigest& d : measurement.inputs) {
    if (!d.digest.empty()) out["given " + d.name] = d.digest;
  }
  if (!measurement.content.empty()) out["content"] = measurement.content;
  return out;
}

CommandRun run_command(const std::string& command, std::chrono::milliseconds time_limit,
                       const std::string& in) {
  const auto folder = std::make_shared<const TemporaryFolder>("rlreplay-golden");
  const std::string output = folder->path() + "/out";
  std::filesystem::create_directory(output);
  Command run = shell_command(command);
  run.folder = in;
  run.log = folder->path() + "/log";
  run.environment.emplace_back("RLBISECT_OUT", output);
  if (!in.empty()) clear_git_variables(run);  // a checkout of its own
  ProcessLimits limits;
  limits.time = time_limit;
  const ProcessResult result = run_process(run, "", limits);
  CommandRun out{measure::read_evidence(result, output, false)};
  out.ended = result.describe();
  out.log = run.log;
  out.folder = folder;
  measure::Measurement& left = out.measurement;
  if (left.dump.empty()) return out;
  if (left.content.empty()) left.content = replay::content_root(left.dump).hex();
  out.dump = {left.dump, folder};
  return out;
}

}  // namespace rlreplay::gate
