#include "src/replay/exchange/import_lines.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/replay/exchange/jsonl.h"
#include "src/replay/record/missing_ranks.h"
#include "src/replay/record/parse_step.h"

namespace rlreplay::replay {
namespace {

/// How many ranks there are; counts the steps. Errors: kIncomplete where one lacks a rank.
int64_t ranks_of_steps(const JsonlFile& file, const std::string& path, ImportReport& report) {
  std::map<std::string, std::set<int64_t>> steps;
  int64_t ranks = 1;
  for (const std::string& unit : file.steps()) {
    const int64_t rank = format::rank_of(unit);
    steps[group_of_unit(unit)].insert(rank);
    ranks = std::max(ranks, rank + 1);
  }
  for (const auto& [step, there] : steps) {
    const std::string missing = missing_ranks(there, ranks);
    if (missing.empty()) continue;
    throw Error(ErrorCode::kIncomplete,
                "of " + std::to_string(ranks) + " ranks, no line of step " + step +
                    " is of these: " + missing +
                    "; add their lines, or where one has no samples a rlreplay.step/1 with the "
                    "scalars {}",
                path);
  }
  report.steps = steps.size();
  return ranks;
}

}  // namespace

void import_lines(const std::vector<std::string>& paths, const ImportProgress& progress,
                  ImportedDump& dump) {
  if (paths.size() > 1) {
    throw Error(ErrorCode::kUsage, "one JSONL file holds a run", paths[1]);
  }
  const std::string& path = paths.front();
  if (progress) progress(path);
  JsonlFile file(path);
  dump.report().files.push_back({path, "JSONL, a sample a line"});
  dump.made_by("jsonl", ranks_of_steps(file, path, dump.report()));
  for (const int64_t id : file.rollouts()) {
    const auto rollout = file.rollout(id);
    dump.count(id, *rollout);
    const std::string group = std::to_string(id);
    dump.claim("rollout/" + group + ".h5", path);
    dump.append("rollout/" + group + ".h5", to_datasets(rollout, group));
  }
  for (const std::string& unit : file.steps()) {
    dump.claim(unit, path);
    const auto step = file.step(unit);
    dump.append(unit, to_datasets(step, group_of_unit(unit)));
    dump.add_trained(parse_step(group_of_unit(unit))->rollout, step->sample_id);
  }
  for (const auto& [rollout, samples] : file.with_inputs()) dump.add_inputs(rollout, samples);
  dump.append_inputs();
}

}  // namespace rlreplay::replay
