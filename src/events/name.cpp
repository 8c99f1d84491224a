#include "src/events/name.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/step_id.h"
#include "src/events/table.h"

namespace rlreplay::engine {
namespace {

constexpr int kNamedLayer = -2;  // no event of ours has it

constexpr std::string_view kExample = "`3.0/backward/1/down/dx`";

[[noreturn]] void fail(std::string_view text, const std::string& message) {
  throw Error(ErrorCode::kUsage, "event `" + std::string(text) + "`: " + message,
              std::string(text));
}

std::optional<int64_t> natural(std::string_view digits) {
  const auto value = parse_number<int64_t>(digits);
  return value && *value >= 0 ? value : std::nullopt;
}

/// The text before the first `separator`, which is cut off with it; all of it where there is none.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view head = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return head;
}

/// `a, b, c`, in the order of the table, none twice.
template <class Of>
std::string listed(Of of) {
  std::set<std::string_view> seen;
  std::string out;
  for (const EventSpec& spec : event_table()) {
    const std::string_view word = of(spec);
    if (word.empty() || !seen.insert(word).second) continue;
    out.append(out.empty() ? "" : ", ").append(word);
  }
  return out;
}

/// The table's line that has the words; the first one that is wrong is the error's.
const EventSpec& line_of(std::string_view all, std::string_view phase, std::string_view op,
                         const Event& event) {
  const auto is_phase = [&](const EventSpec& s) { return name(s.phase) == phase; };
  const auto is_op = [&](const EventSpec& s) { return is_phase(s) && name(s.op) == op; };
  const auto words = [](auto is, auto of) {
    return listed([=](const EventSpec& s) { return is(s) ? of(s) : std::string_view(); });
  };
  const auto& table = event_table();
  const auto phase_line = std::ranges::find_if(table, is_phase);
  if (phase_line == table.end()) {
    const auto any = [](const EventSpec&) { return true; };
    fail(all, "there is no phase `" + std::string(phase) + "`; the phases are " +
                  words(any, [](const EventSpec& s) { return name(s.phase); }));
  }
  const auto op_line = std::ranges::find_if(table, is_op);
  if (op_line == table.end()) {
    fail(all, std::string(phase) + " has no operation `" + std::string(op) + "`; it has " +
                  words(is_phase, [](const EventSpec& s) { return name(s.op); }));
  }
  Event full = event;
  full.phase = phase_line->phase;
  full.op = op_line->op;
  if (const EventSpec* found = find_event(full)) return *found;
  const bool parameter = is_parameter(op_line->kind);
  if (!parameter && op_line->layered != (event.layer >= 0)) {
    fail(all, op_line->layered ? std::string(op) + " of " + std::string(phase) +
                                     " belongs to a layer: give its "
                                     "number, from 0"
                               : std::string(op) + " of " + std::string(phase) +
                                     " belongs to no layer: write "
                                     "`-`");
  }
  fail(all,
       "there is no tensor `" + event.tensor + "`; " + std::string(op) + " of " +
           std::string(phase) + " has " +
           words(is_op, [](const EventSpec& s) { return s.tensor; }) +
           (parameter ? " (with `model.layers.N.` and N as the layer, where it has one)" : ""));
}

Event parse(std::string_view all, std::string_view text) {
  if (std::ranges::count(text, '/') != 3) {
    fail(all,
         "an event is written ROLLOUT.STEP/PHASE/LAYER/OP/TENSOR, as " + std::string(kExample));
  }
  const std::string_view phase = take(text, '/'), layer = take(text, '/'), op = take(text, '/');
  Event event;
  event.tensor = text;
  if (layer != "-") {
    const auto number = natural(layer);
    if (!number || *number > 100000) {
      fail(all, "`" + std::string(layer) + "` is no layer: a number from 0, or `-` for none");
    }
    event.layer = static_cast<int>(*number);
  }
  const EventSpec& line = line_of(all, phase, op, event);
  event.phase = line.phase;
  event.op = line.op;
  return event;
}

/// An event by its name; nothing where there is none, as for most names of others' tables.
std::optional<Event> try_parse(std::string_view text) {
  if (std::ranges::count(text, '/') != 3) return std::nullopt;
  const std::string_view phase = text.substr(0, text.find('/'));
  const auto is_phase = [&](const EventSpec& s) { return name(s.phase) == phase; };
  if (std::ranges::none_of(event_table(), is_phase)) return std::nullopt;
  try {
    return parse(text, text);
  } catch (const Error&) {  // kUsage of `parse`: a phase of ours, and no event
    return std::nullopt;
  }
}

}  // namespace

bool is_named(const Event& event) { return event.layer == kNamedLayer; }

Event named_event(std::string name, Phase phase) {
  return {phase, kNamedLayer, Op::kBatch, std::move(name)};
}

bool is_event_name(std::string_view name) {
  return !name.empty() && name.size() <= 1024 && std::ranges::none_of(name, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
  });
}

Event recorded_event(std::string_view name, DType dtype, size_t dims, Phase phase) {
  const auto known = try_parse(name);
  if (known && dims <= 2 && dtype_of(find_event(*known)->kind) == dtype) return *known;
  return named_event(std::string(name), phase);
}

std::string to_string(const Event& event) {
  if (is_named(event)) return event.tensor;
  std::string out(name(event.phase));
  out.append("/").append(event.layer < 0 ? "-" : std::to_string(event.layer));
  return out.append("/").append(name(event.op)).append("/").append(event.tensor);
}

std::string to_string(const StepEvent& e) {
  return StepId{e.rollout_id, e.step_id}.name() + "/" + to_string(e.event);
}

std::string digest_name(const Event& event) {
  switch (event.op) {
    case Op::kWeight:
    case Op::kGradient:
      return event.tensor;
    case Op::kExpAvg:
    case Op::kExpAvgSq:
      return std::string(name(event.op)) + "/" + event.tensor;
    default:
      break;
  }
  const std::string text = to_string(event);
  return text.substr(text.find('/') + 1);
}

Event parse_event(std::string_view text) { return parse(text, text); }

std::optional<StepEvent> find_step_event(std::string_view text) {
  std::string_view rest = text;
  std::string_view step = take(rest, '/');
  const std::string_view rollout = take(step, '.');
  const auto rollout_id = natural(rollout), step_id = natural(step);
  if (!rollout_id || !step_id || !is_event_name(rest)) return std::nullopt;
  return StepEvent{*rollout_id, *step_id, named_event(std::string(rest), Phase::kForward)};
}

StepEvent parse_step_event(std::string_view text) {
  std::string_view rest = text;
  std::string_view step = take(rest, '/');
  const std::string_view rollout = take(step, '.');
  const auto rollout_id = natural(rollout), step_id = natural(step);
  if (!rollout_id || !step_id) {
    fail(text, "it must begin with ROLLOUT.STEP/, two numbers, as " + std::string(kExample));
  }
  StepEvent out{*rollout_id, *step_id, parse(text, rest)};
  if (out.event.phase == Phase::kRollout && out.step_id != 0) {
    fail(text, "what a rollout emits belongs to its first step: write " +
                   std::to_string(out.rollout_id) + ".0");
  }
  return out;
}

}  // namespace rlreplay::engine
