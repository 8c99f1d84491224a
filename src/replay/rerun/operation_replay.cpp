#include "src/replay/rerun/operation_replay.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/same_value.h"
#include "src/base/text_table.h"
#include "src/base/words.h"
#include "src/replay/rerun/recorded_operation.h"

namespace rlreplay::replay {
namespace {

using kernels::KernelSet;

/// The distance from a number of this size to the next one in binary32.
double last_place(double value) {
  const float size = std::abs(static_cast<float>(value));
  return static_cast<double>(std::nextafter(size, std::numeric_limits<float>::infinity())) - size;
}

/// Bits are compared with the record, errors with `right`: what differs from a record may be nearer
/// to what is right.
OperationSide compare_side(std::string by, std::span<const float> values,
                           std::span<const float> record, std::span<const double> right) {
  OperationSide out;
  out.by = std::move(by);
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (!same_value(values[i], record[i]) && out.differing++ == 0) out.first = at;
    const bool same = same_value(static_cast<double>(values[i]), right[i]);
    double error = same ? 0 : std::abs(values[i] - right[i]);
    // One of the two is no number: no error is larger.
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    squares += error * error;
    if (error > 0) out.ulps = std::max(out.ulps, error / last_place(right[i]));
    if (error <= out.largest) continue;
    out.largest = error;
    out.at = at;
  }
  out.rms = std::sqrt(squares / static_cast<double>(std::max<size_t>(1, values.size())));
  return out;
}

}  // namespace

bool OperationReplay::identical() const {
  return std::ranges::all_of(sides, [](const OperationSide& side) { return side.differing == 0; });
}

const KernelSet& kernels_named(std::string_view name) {
  std::vector<std::string> there;
  for (const KernelSet& set : kernels::cpu_kernel_sets()) {
    if (set.name == name) return set;
    there.emplace_back(set.name);
  }
  const KernelSet& plain = kernels::reference_kernels();
  if (plain.name == name) return plain;
  there.emplace_back(plain.name);
  throw Error(ErrorCode::kUsage, "this processor has no kernel set " + std::string(name) +
                                     " for one operation: " + joined(there, ", ") +
                                     "; torch takes whole steps (rlreplay train DUMP --kernels "
                                     "torch)");
}

OperationReplay replay_operation(const RecordedRun& record, const engine::StepEvent& event,
                                 std::span<const KernelSet* const> sets, ThreadPool& pool) {
  const RecordedOperation recorded(record, event, pool);
  const Operation& op = recorded.operation();
  OperationReplay out;
  out.event = event;
  out.inputs = recorded.inputs();
  out.rows = op.count;
  out.columns = op.columns;
  const std::vector<double> right = compute_binary64(op, pool);
  for (const double value : right) out.magnitude = std::max(out.magnitude, std::abs(value));
  out.sides.push_back(compare_side("record", recorded.output(), recorded.output(), right));
  for (const KernelSet* set : sets) {
    const std::vector<float> values = compute(op, engine::Runtime{*set, pool});
    out.sides.push_back(compare_side(std::string(set->name), values, recorded.output(), right));
  }
  return out;
}

std::string operation_text(const OperationReplay& replay) {
  std::string out = to_string(replay.event) + ", " + counted(replay.rows, "row") + " of " +
                    std::to_string(replay.columns) + ", up to " +
                    short_number(replay.magnitude, 3) + ", from its recorded inputs\n  " +
                    wrapped(joined(replay.inputs, ", "), 78, 2) + "\n\n";
  TextTable table({"by", "other bits", "first", "error", "ulps", "at", "rms"});
  for (const OperationSide& side : replay.sides) {
    table.add({side.by, side.by == "record" ? "-" : std::to_string(side.differing),
               side.first ? std::to_string(*side.first) : "-", short_number(side.largest, 3),
               short_number(side.ulps, 3), std::to_string(side.at), short_number(side.rms, 3)});
  }
  return out + table.str() + "error: against binary64; ulps: in units of its last place\n" +
         (replay.identical() ? "all agree with the record, bit for bit\n" : "");
}

std::string operation_json(const OperationReplay& replay, const std::string& dump) {
  JsonLine out;
  out.text("schema", "rlreplay.operation/1").text("dump", dump);
  out.text("event", to_string(replay.event)).json("inputs", json_list(replay.inputs));
  out.integer("rows", replay.rows)
      .integer("columns", replay.columns)
      .number("magnitude", replay.magnitude);
  out.boolean("identical", replay.identical());
  const auto write = [](const OperationSide& side) {
    JsonLine line;
    line.text("by", side.by).integer("differing", side.differing);
    side.first ? line.integer("first", *side.first) : line.null("first");
    line.number("error", side.largest).number("ulps", side.ulps).integer("at", side.at);
    return line.number("rms", side.rms).str();
  };
  return out.json("sides", json_list(replay.sides, write)).str();
}

}  // namespace rlreplay::replay
