#include "src/replay/compare/step_difference.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/error.h"
#include "src/base/step_id.h"
#include "src/base/words.h"
#include "src/events/name.h"
#include "src/events/table.h"

namespace rlreplay::replay {
namespace {

using engine::Element;
using engine::Event;
using engine::EventRecord;
using engine::Op;
using engine::Reach;
using engine::StepEvents;
using engine::When;

/// What the events of a record say of the model.
struct Shape {
  int64_t layers = 1;  // where none was recorded, one stands for all
  bool head_norms = false;

  explicit Shape(const StepEvents& events) {
    for (const EventRecord& r : events.events) {
      layers = std::max<int64_t>(layers, r.event.layer + 1);
      head_norms |= r.event.op == Op::kQkNorm || r.event.tensor.ends_with("q_norm.weight");
    }
  }
  bool has(When when) const {
    if (when == When::kHeadNorms) return head_norms;
    return when != When::kNoHeadNorms || !head_norms;
  }
};

/// The positions that a row depends on, counted from its own; `all`: of all samples.
struct Span {
  int64_t first = 0;
  int64_t last = 0;
  bool all = false;

  bool contains(const Span& other) const {
    return all || (!other.all && first <= other.first && last >= other.last);
  }
};

constexpr int64_t kFar = int64_t{1} << 40;

Span span_of(Reach reach) {
  switch (reach) {
    case Reach::kRow:
      return {0, 0, false};
    case Reach::kPrefix:
      return {-kFar, 0, false};
    case Reach::kSuffix:
      return {0, kFar, false};
    case Reach::kPrevious:
      return {-1, -1, false};
    case Reach::kNext:
      return {1, 1, false};
    case Reach::kAll:
      return {-kFar, kFar, true};
  }
  return {-kFar, kFar, true};
}

/// What a row depends on by way of rows that it depends on.
Span through(const Span& outer, const Span& inner) {
  return {std::max(outer.first + inner.first, -kFar), std::min(outer.last + inner.last, kFar),
          outer.all || inner.all};
}

/// Whether one of the differing rows, in order, is among those that a row depends on.
bool reaches(const std::vector<Element>& rows, const Span& span, const Element& row) {
  if (span.all) return !rows.empty();
  const auto it = std::ranges::lower_bound(rows, Element{row.sample, row.row + span.first, 0});
  return it != rows.end() && it->sample == row.sample && it->row <= row.row + span.last;
}

/// A recorded value that an event is computed from, however many steps away.
struct Source {
  Event event;
  Span span;
};

/// Finds what events are computed from: along the inputs that the table of events names, through
/// events that not both sides recorded, to those that both did, or to the state before. Events of
/// other tables name their parents themselves.
class OriginSearch {
 public:
  OriginSearch(const StepEvents& a, const StepEvents& b, std::span<const EventDifference> events,
               const StateBefore& before)
      : shape_(b), before_(before) {
    std::set<Event> in_a;
    for (const EventRecord& r : a.events) in_a.insert(r.event);
    for (const EventRecord& r : b.events) {
      if (in_a.contains(r.event)) recorded_.insert(r.event);
    }
    for (const EventDifference& d : events) differences_.emplace(d.event, &d);
    for (const StepEvents* of : {&b, &a}) {
      for (const EventRecord& r : of->events) {
        if (is_named(r.event) && named_.emplace(r.event, &r).second) order_.push_back(r.event);
      }
    }
  }

  /// The recorded sources of an event. `whole`: whether its own inputs are all among them.
  struct Sources {
    std::vector<Source> events;
    bool state_differs = false;
    bool whole = true;
  };
  Sources sources(const Event& event) const {
    Sources out;
    std::map<Event, std::vector<Span>> seen;
    collect(event, Span(), seen, out);
    return out;
  }

  /// The first row of `d` whose sources agree: none where there is none, an empty one where rows
  /// are not known.
  std::optional<std::optional<Element>> agreeing_row(const EventDifference& d,
                                                     const Sources& sources) const {
    if (sources.state_differs) return {};
    std::vector<std::pair<const EventDifference*, Span>> differing;
    for (const Source& source : sources.events) {
      const auto it = differences_.find(source.event);
      if (it != differences_.end()) differing.emplace_back(it->second, source.span);
    }
    const engine::EventSpec* spec = find_event(d.event);
    if (spec == nullptr || !is_per_token(spec->kind) || !d.rows_known) {
      if (!differing.empty()) return {};
      return d.rows_known ? std::optional(d.rows.front()) : std::optional<Element>();
    }
    for (const Element& row : d.rows) {
      const bool agree = std::ranges::none_of(differing, [&](const auto& source) {
        const auto& [difference, span] = source;
        return !difference->rows_known || reaches(difference->rows, span, row);
      });
      if (agree) return row;
    }
    return {};
  }

 private:
  void collect(const Event& event, const Span& outer, std::map<Event, std::vector<Span>>& seen,
               Sources& out) const {
    if (is_named(event)) return collect_named(event, out);
    for (const engine::ResolvedInput& input : event_inputs(event, shape_.layers)) {
      if (!shape_.has(input.when)) continue;
      if (input.before) {
        out.state_differs |= state_differs(input.event);
        continue;
      }
      const Span span = through(outer, span_of(input.reach));
      if (input.event.tensor.empty()) {
        every(input.event, span, out);
        continue;
      }
      std::vector<Span>& known = seen[input.event];
      if (std::ranges::any_of(known, [&](const Span& k) { return k.contains(span); })) continue;
      known.push_back(span);
      if (recorded_.contains(input.event) || differences_.contains(input.event)) {
        out.events.push_back({input.event, span});
      } else if (input.when == When::kAlways || input.when == When::kHeadNorms ||
                 input.when == When::kNoHeadNorms) {
        out.whole = false;
        collect(input.event, span, seen, out);
      }
    }
  }

  /// Adds the parents of an event of another table, or all events before one that says none.
  void collect_named(const Event& event, Sources& out) const {
    const auto known = named_.find(event);
    constexpr Span kEverything{-kFar, kFar, true};
    if (known != named_.end() && known->second->parents) {
      for (const Event& parent : *known->second->parents) {
        out.events.push_back({parent, kEverything});
      }
      return;
    }
    out.whole = false;
    for (const Event& before : order_) {
      if (before == event) break;
      out.events.push_back({before, kEverything});
    }
  }

  void every(const Event& of, const Span& span, Sources& out) const {
    for (const Event& event : recorded_) {
      if (event.phase == of.phase && event.op == of.op) out.events.push_back({event, span});
    }
  }

  bool state_differs(const Event& event) const {
    if (before_.differing.contains({event.op, std::string(event.tensor)})) return true;
    if (before_.a == nullptr || before_.b == nullptr) return false;
    const EventRecord* a = before_.a->find(event);
    const EventRecord* b = before_.b->find(event);
    return a != nullptr && b != nullptr && !a->same_value(*b);
  }

  Shape shape_;
  const StateBefore& before_;
  std::set<Event> recorded_;
  std::map<Event, const EventDifference*> differences_;
  std::map<Event, const EventRecord*> named_;  // of other tables than ours
  std::vector<Event> order_;                   // of these
};

bool is_given(const StepEvents& of, const Event& event) {
  if (!is_named(event)) return find_event(event)->inputs.empty();
  const EventRecord* record = of.find(event);
  return record != nullptr && record->parents && record->parents->empty();
}

engine::Granularity granularity(const StepEvents& events) {
  auto out = engine::Granularity::kSteps;
  for (const EventRecord& r : events.events) {
    if (!is_named(r.event)) out = std::max(out, find_event(r.event)->granularity);
  }
  return out;
}

std::optional<EventDifference::Value> value_of(const StepEvents& a, const StepEvents& b,
                                               const EventDifference& d,
                                               const std::optional<Element>& row) {
  const EventRecord* in_a = a.find(d.event);
  const EventRecord* in_b = b.find(d.event);
  if (!row || in_a == nullptr || in_b == nullptr) return {};
  return first_value_in(a, *in_a, b, *in_b, *row);
}

/// The first difference as the origin, where no event's inputs agree.
Origin carried(const StepEvents& a, const StepEvents& b, const EventDifference& first) {
  std::optional<Element> row;
  if (!first.rows.empty()) row = first.rows.front();
  const OriginClass kind = first.missing ? OriginClass::kMissing : OriginClass::kCarrier;
  return {b.rollout_id, b.step_id, first.event,    first.rank, row, value_of(a, b, first, row),
          false,        kind,      first.per_token};
}

}  // namespace

std::string_view name(OriginClass kind) {
  switch (kind) {
    case OriginClass::kOrigin:
      return "origin";
    case OriginClass::kInterval:
      return "interval";
    case OriginClass::kGiven:
      return "given";
    case OriginClass::kCarrier:
      return "carrier";
    case OriginClass::kMissing:
      return "missing";
  }
  return "?";
}

std::vector<Origin> find_origins(const StepEvents& a, const StepEvents& b,
                                 std::span<const EventDifference> events, const StateBefore& before,
                                 size_t most) {
  std::vector<Origin> out;
  const OriginSearch search(a, b, events, before);
  for (const EventDifference& d : events) {
    if (out.size() == most) break;
    if (d.missing) continue;
    const auto sources = search.sources(d.event);
    const auto row = search.agreeing_row(d, sources);
    if (!row) continue;
    const bool given = is_given(b, d.event);
    const OriginClass kind = !sources.whole ? OriginClass::kInterval
                             : given        ? OriginClass::kGiven
                                            : OriginClass::kOrigin;
    out.push_back({b.rollout_id, b.step_id, d.event, d.rank, *row, value_of(a, b, d, *row), true,
                   kind, d.per_token});
  }
  return out;
}

StepDifference compare_steps(const StepEvents& a, const StepEvents& b, const StateBefore& before) {
  const auto common = std::min(granularity(a), granularity(b));
  StepDifference out;
  for (const auto& [in_a, in_b] : paired_events(a, b)) {
    if (in_a != nullptr && in_b != nullptr) {
      if (auto difference = compare_event(a, *in_a, b, *in_b)) {
        out.events.push_back(std::move(*difference));
      }
      continue;
    }
    const EventRecord& alone = in_a != nullptr ? *in_a : *in_b;
    if (!is_named(alone.event) && find_event(alone.event)->granularity > common) continue;
    EventDifference missing;
    missing.event = alone.event;
    missing.rank = alone.rank;
    missing.missing = true;
    missing.per_token = alone.row_set >= 0;
    out.events.push_back(std::move(missing));
  }
  if (out.events.empty()) return out;
  auto origins = find_origins(a, b, out.events, before, 1);
  out.origin = origins.empty() ? carried(a, b, out.events.front()) : std::move(origins.front());
  return out;
}

void check_computable(const StepEvents& events, const std::string& where) {
  const auto named = [](const EventRecord& r) { return is_named(r.event); };
  const auto first = std::ranges::find_if(events.events, named);
  if (first == events.events.end()) return;
  throw Error(ErrorCode::kUnsupported,
              "step " + StepId{events.rollout_id, events.step_id}.name() + " has " +
                  counted(std::ranges::count_if(events.events, named), "event") +
                  " that no replay computes, the first being " + to_string(first->event) +
                  ": rlreplay diff compares them by name",
              where);
}

bool lacks_element(const StepDifference& difference) {
  if (!difference.origin || difference.origin->event.phase == engine::Phase::kRollout) return false;
  return !difference.origin->value || difference.origin->kind == OriginClass::kInterval;
}

}  // namespace rlreplay::replay
