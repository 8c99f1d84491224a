#include "src/replay/rerun/injection.h"

#include <algorithm>
#include <cstring>

#include "src/base/dtype.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/number_text.h"
#include "src/base/same_value.h"

namespace rlreplay::replay {
namespace {

using engine::Element;
using engine::Event;
using engine::EventSpec;
using engine::Kind;

constexpr int64_t kMaxScale = 126;  // what the scale of gradient sums may be, either sign

[[noreturn]] void fail(std::string_view text, const std::string& message) {
  throw Error(ErrorCode::kUsage, "--inject " + std::string(text) + ": " + message,
              std::string(text));
}

int64_t number(std::string_view all, std::string_view text, const char* what) {
  const auto value = parse_number<int64_t>(text);
  if (!value) fail(all, "`" + std::string(text) + "` is no " + what);
  return *value;
}

/// The text behind the last `separator`, which is cut off with it.
std::string_view take_last(std::string_view all, std::string_view& text, const char* what) {
  const size_t at = text.rfind(':');
  if (at == std::string_view::npos) {
    fail(all, std::string("it lacks ") + what +
                  ": write EVENT:INDEX:ULPS[@RANK], as `3.0/backward/1/down/dx:17:1`");
  }
  const std::string_view last = text.substr(at + 1);
  text = text.substr(0, at);
  return last;
}

const EventSpec& line_of(const Injection& injection, const ModelConfig& config,
                         const ParameterTable& parameters, const Layout& layout) {
  const Event& event = injection.at.event;
  const std::string text = to_string(injection);
  const EventSpec* spec = find_event(event);
  if (spec == nullptr) fail(text, "there is no such event");
  if (event.layer >= config.layers) {
    fail(text, "the model has the layers 0 to " + std::to_string(config.layers - 1));
  }
  if (spec->kind == Kind::kTokens) {
    fail(text,
         "a token is given or drawn, not computed: plant a difference in what it is drawn "
         "from, " +
             std::string("`final_norm/y`"));
  }
  if (spec->when == engine::When::kHeadNorms && !config.qk_norm) {
    fail(text, "the model has no query and key norms");
  }
  const bool parameter = is_parameter(spec->kind);
  const auto p = std::ranges::find(parameters.list, event.tensor, &Parameter::name);
  if (parameter && p == parameters.list.end()) {
    fail(text, "the model has no parameter " + event.tensor);
  }
  if (injection.rank && *injection.rank >= layout.ranks()) {
    fail(text, layout.ranks() == 1
                   ? "the run has one rank, 0"
                   : "the run has the ranks 0 to " + std::to_string(layout.ranks() - 1));
  }
  if (layout.ranks() > 1 && !parameter) {
    throw Error(ErrorCode::kUnsupported,
                "--inject " + text +
                    ": with --layout a difference is planted in what one rank holds of a "
                    "parameter: its gradient, exp_avg, exp_avg_sq or weight",
                text);
  }
  return *spec;
}

template <class T>
Planted change(std::byte* at, const Element& element, const T& after) {
  const T before = load_as<T>(at);
  std::memcpy(at, &after, sizeof after);
  if constexpr (std::is_floating_point_v<T>) {
    return {element, hex_float(static_cast<double>(before)), hex_float(static_cast<double>(after))};
  } else {
    return {element, std::to_string(before), std::to_string(after)};
  }
}

template <class T>
Planted change_float(const Injection& injection, std::byte* at, const Element& element) {
  const auto after = add_ulps(load_as<T>(at), injection.ulps);
  if (!after) {
    fail(to_string(injection), "the value there is " +
                                   hex_float(static_cast<double>(load_as<T>(at))) +
                                   ", and that many ulps from it is no finite number");
  }
  return change<T>(at, element, *after);
}

Planted change_integer(const Injection& injection, bool scale, std::byte* at,
                       const Element& element) {
  int64_t after = 0;
  const bool overflow = __builtin_add_overflow(load_as<int64_t>(at), injection.ulps, &after);
  if (overflow || (scale && std::abs(after) > kMaxScale)) {
    fail(to_string(injection), "the integer there is " + std::to_string(load_as<int64_t>(at)) +
                                   ", and so many quanta from it is out of its range");
  }
  return change<int64_t>(at, element, after);
}

}  // namespace

Injection parse_injection(std::string_view text) {
  std::string_view rest = text;
  Injection out;
  const size_t last = rest.rfind(':');
  if (const size_t at = rest.rfind('@'); at != rest.npos && last != rest.npos && at > last) {
    const int64_t rank = number(text, rest.substr(at + 1), "rank");
    if (rank < 0 || rank > 1 << 20) fail(text, "a rank is a number from 0");
    out.rank = static_cast<int>(rank);
    rest = rest.substr(0, at);
  }
  const std::string_view ulps = take_last(text, rest, "ULPS");
  const std::string_view index = take_last(text, rest, "INDEX");
  out.index = number(text, index, "index: a number from 0");
  if (out.index < 0) fail(text, "an index is a number from 0");
  out.ulps = number(text, ulps, "number of ulps");
  if (out.ulps == 0) fail(text, "0 ulps are no difference");
  out.at = engine::parse_step_event(rest);
  return out;
}

std::string to_string(const Injection& injection) {
  const std::string rank = injection.rank ? "@" + std::to_string(*injection.rank) : "";
  return to_string(injection.at) + ":" + std::to_string(injection.index) + ":" +
         std::to_string(injection.ulps) + rank;
}

InjectingSink::InjectingSink(const Injection& injection, const ModelConfig& config,
                             const ParameterTable& parameters, const Layout& layout,
                             engine::EventSink* inner)
    : injection_(injection),
      layout_(layout),
      spec_(line_of(injection, config, parameters, layout)),
      inner_(inner) {
  if (is_parameter(spec_.kind)) {
    const auto p = std::ranges::find(parameters.list, injection.at.event.tensor, &Parameter::name);
    parameter_rows_ = p->rows;
    columns_ = p->cols;
  } else {
    columns_ = row_width(spec_.width, config);
  }
}

void InjectingSink::begin(int64_t rollout_id, int64_t step_id,
                          std::span<const engine::SampleShape> samples) {
  target_.reset();
  if (rollout_id != injection_.at.rollout_id || step_id != injection_.at.step_id) return;
  const bool per_token = is_per_token(spec_.kind);
  const engine::RowSet rows = per_token ? event_rows(spec_, samples) : engine::RowSet();
  const int64_t count = per_token ? row_count(rows) : parameter_rows_;
  if (injection_.index >= count * columns_) {
    const std::string shape = "[" + std::to_string(count) + ", " + std::to_string(columns_) + "]";
    fail(to_string(injection_), "the tensor is " + shape + ": an index into it is 0 to " +
                                    std::to_string(count * columns_ - 1));
  }
  const int64_t row = injection_.index / columns_;
  Element target = per_token ? row_at(rows, row).value() : Element{0, row, 0};
  target.column = injection_.index % columns_;
  target_ = target;
}

bool InjectingSink::wants_part(const Event& event, int rank) const {
  return target_ && event == injection_.at.event && rank == injection_.rank.value_or(rank);
}

// `values` are the part of the tensor that begins at `row` and `column`, in the rank's own memory.
void InjectingSink::part(const Event&, int, const engine::EventView& values, int64_t row,
                         int64_t column) {
  const int64_t r = target_->row - row, c = target_->column - column;
  if (r >= 0 && r < values.rows && c >= 0 && c < values.cols) plant(values.at(r, c), *target_);
}

bool InjectingSink::wants(const Event& event) const {
  if (inner_ != nullptr && inner_->wants(event)) return true;
  return target_ && event == injection_.at.event;
}

// In place: what the step computes next reads the changed element.
void InjectingSink::plant(std::byte* element, const Element& at) {
  switch (spec_.kind) {
    case Kind::kRows:
    case Kind::kParameter:
    case Kind::kScalar32:
      planted_ = change_float<float>(injection_, element, at);
      return;
    case Kind::kRows64:
    case Kind::kScalar:
      planted_ = change_float<double>(injection_, element, at);
      return;
    case Kind::kParameterSum:
    case Kind::kInteger:
      planted_ = change_integer(injection_, spec_.kind == Kind::kInteger, element, at);
      return;
    case Kind::kTokens:
      check(false, "tokens are not changed");
  }
}

void InjectingSink::rows(const Event& event, const engine::EventView& values,
                         const engine::RowCoordinates& coordinates) {
  if (target_ && event == injection_.at.event) {
    for (int64_t row = 0; row < values.rows; ++row) {
      if (coordinates.sample[row] == target_->sample && coordinates.position[row] == target_->row) {
        plant(values.at(row, target_->column), *target_);
      }
    }
  }
  if (inner_ != nullptr && inner_->wants(event)) inner_->rows(event, values, coordinates);
}

void InjectingSink::whole(const Event& event, const engine::EventView& values) {
  // What ranks have put together has it already.
  if (target_ && event == injection_.at.event && layout_.ranks() == 1) {
    plant(values.at(target_->row, target_->column), *target_);
  }
  if (inner_ != nullptr && inner_->wants(event)) inner_->whole(event, values);
}

void InjectingSink::restart() {
  if (inner_ != nullptr) inner_->restart();
}

}  // namespace rlreplay::replay
