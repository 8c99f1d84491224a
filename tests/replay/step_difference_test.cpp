#include "src/replay/compare/step_difference.h"

#include <catch2/catch.hpp>
#include <iostream>
#include <set>
#include <string>

#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/events/event_rows.h"
#include "src/events/name.h"
#include "tests/environment.h"
#include "tests/replay/planted.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::replay;
using namespace rlreplay::replay::test;
using engine::test::Random;

namespace {

std::string exact(const RecordedValue& value) {
  const bool integer = value.dtype == DType::kI64;
  return integer ? value.text() : hex_float(value.number());
}

/// A random element of a random event of a phase.
Injection random_injection(const StepEvents& events, Phase phase, Random& random) {
  std::vector<const EventRecord*> of_phase;
  for (const EventRecord& r : events.events) {
    if (r.event.phase == phase && find_event(r.event)->kind != Kind::kTokens) {
      of_phase.push_back(&r);
    }
  }
  const EventRecord& r =
      *of_phase[static_cast<size_t>(random.below(static_cast<int64_t>(of_phase.size())))];
  Injection out;
  out.at = {3, 0, r.event};
  out.index = random.below(r.rows * r.cols);
  out.ulps = (1 + random.below(3)) * (random.below(2) == 0 ? 1 : -1);
  return out;
}

constexpr Phase kPhases[] = {Phase::kRollout, Phase::kForward, Phase::kObjective, Phase::kBackward,
                             Phase::kReduce,  Phase::kClip,    Phase::kOptimizer};

}  // namespace

TEST_CASE("two records of one step have no difference") {
  Scenario s;
  const StepEvents a = whole(record(s));
  s.micro_batch = 2;
  s.recompute = true;
  const StepDifference difference = compare_steps(a, whole(record(s)));
  REQUIRE(difference.identical());
  REQUIRE(difference.events.empty());
}

TEST_CASE("a planted difference is found where it was planted") {
  const uint64_t seed = rlreplay::test::seed();
  std::cout << "seed " << seed << "\n";
  Random random(seed);
  for (const auto architecture : {Architecture::kQwen2, Architecture::kQwen3}) {
    Scenario s;
    s.architecture = architecture;
    const Recorded undisturbed = record(s);
    const StepEvents a = whole(undisturbed);
    const int times = rlreplay::test::full() ? 8 : 1;
    for (int i = 0; i < times; ++i) {
      for (const Phase phase : kPhases) {
        const Injection injection = random_injection(a, phase, random);
        CAPTURE(to_string(injection));
        REQUIRE(to_string(parse_injection(to_string(injection))) == to_string(injection));
        Scenario other = s;
        other.micro_batch = random.below(3);
        const Disturbed disturbed = record_planted(other, injection, undisturbed.samples);
        REQUIRE(disturbed.planted);
        const StepDifference difference = compare_steps(a, whole(disturbed.recorded));
        REQUIRE(difference.origin);
        const Origin& origin = *difference.origin;
        CHECK(origin.event == injection.at.event);
        CHECK(origin.inputs_equal);
        const bool given = find_event(injection.at.event)->inputs.empty();
        CHECK(name(origin.kind) == name(given ? OriginClass::kGiven : OriginClass::kOrigin));
        REQUIRE(origin.value);
        CHECK(origin.value->index == injection.index);
        CHECK(origin.value->at == disturbed.planted->element);
        CHECK(exact(origin.value->a) == disturbed.planted->before);
        CHECK(exact(origin.value->b) == disturbed.planted->after);
        CHECK(origin.value->ulps == injection.ulps);
      }
    }
  }
}

TEST_CASE("whatever differs follows from the planted difference by the inputs of the table") {
  const uint64_t seed = rlreplay::test::seed();
  std::cout << "seed " << seed << "\n";
  Random random(seed + 1);
  for (const auto architecture : {Architecture::kQwen2, Architecture::kQwen3}) {
    Scenario s;
    s.architecture = architecture;
    s.prompts = {3, 9, 5};
    s.threads = 1;
    const Recorded undisturbed = record(s);
    const StepEvents a = whole(undisturbed);
    for (const EventRecord& r : a.events) {
      if (find_event(r.event)->kind == Kind::kTokens) continue;
      if (!rlreplay::test::full() && random.below(10) != 0) continue;
      Injection injection;
      injection.at = {3, 0, r.event};
      injection.index = random.below(r.rows * r.cols);
      const bool integer = find_event(r.event)->kind == Kind::kInteger;
      injection.ulps = integer ? 1 : 1 << 20;  // large enough to reach what follows
      CAPTURE(to_string(injection));
      const StepEvents b = whole(record_planted(s, injection, undisturbed.samples).recorded);
      const StepDifference difference = compare_steps(a, b);
      for (const Origin& origin : find_origins(a, b, difference.events, {}, 1000)) {
        // What is given to the step is drawn by the rollout.
        const bool batch = r.event.phase == Phase::kRollout &&
                           origin.event.phase != Phase::kRollout &&
                           origin.kind == OriginClass::kGiven;
        if (!batch) CHECK(to_string(origin.event) == to_string(r.event));
      }
      CHECK(difference.origin->value->index == injection.index);
    }
  }
}

TEST_CASE("a rollout that goes another way is followed back to where it turned") {
  Scenario s;
  const Recorded undisturbed = record(s);
  const Sample& sample =
      *std::ranges::max_element(undisturbed.samples, {}, &Sample::response_length);
  int turned = 0;
  for (int64_t p = sample.prompt_length - 1; turned < 1 && p + 1 < std::ssize(sample.tokens); ++p) {
    const Element at{sample.id, p, 0};
    const Event event{Phase::kRollout, 1, Op::kDown, "y"};
    const RowSet rows = event_rows(*find_event(event), sample_shapes(undisturbed.samples));
    Injection injection;
    injection.at = {3, 0, event};
    injection.index = index_of(rows, at.sample, at.row) * 72;
    injection.ulps = 60000000;
    const Disturbed disturbed = record_planted(s, injection, undisturbed.samples);
    const auto& other = disturbed.recorded.samples;
    if (std::ranges::find(other, sample.id, &Sample::id)->tokens == sample.tokens) continue;
    ++turned;
    const auto origin = compare_steps(undisturbed.rollout, disturbed.recorded.rollout).origin;
    CHECK(origin->event == event);
    CHECK(*origin->row == at);
    // With digests only, the token is what is known of it.
    Scenario less = s;
    less.record = {Granularity::kSteps, false, false};
    const auto token =
        compare_steps(record(less).rollout,
                      record_planted(less, injection, undisturbed.samples).recorded.rollout)
            .origin;
    CHECK(to_string(token->event) == "rollout/-/sample/token");
    CHECK(name(token->kind) == name(OriginClass::kInterval));
    CHECK(token->row->row == at.row + 1);
  }
  REQUIRE(turned == 1);
}

TEST_CASE("rows are compared by their place, whatever rows each side has") {
  const auto events = [](RowSet rows, std::vector<float> values) {
    EventRecord r;
    r.event = {Phase::kForward, 0, Op::kDown, "y"};
    r.dims = {2};
    r.cols = 2;
    r.rows = row_count(rows);
    r.row_set = 0;
    r.digest.low = rows.size() + static_cast<uint64_t>(r.rows);
    const auto bytes = std::as_bytes(std::span(values));
    r.values.assign(bytes.begin(), bytes.end());
    return StepEvents{0, 0, {rows}, {r}};
  };
  const StepEvents a = events({{4, 0, 3}, {6, 0, 2}}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const StepEvents b = events({{4, 0, 2}, {6, 0, 1}, {9, 5, 1}}, {1, 2, 3, 0, 7, 8, 9, 10});
  const auto d = compare_event(a, a.events[0], b, b.events[0]);
  REQUIRE(d);
  REQUIRE(d->rows == std::vector<Element>{{4, 1, 0}, {4, 2, 0}, {6, 1, 0}, {9, 5, 0}});
  REQUIRE(d->elements == 1);
  REQUIRE(d->first->index == 3);
  REQUIRE((d->first->at == Element{4, 1, 1}));
  REQUIRE(d->first->a.number() == 4);
}

TEST_CASE("without values a difference is named to its row") {
  Scenario s;
  s.record = {Granularity::kOps, false, false};
  const Recorded undisturbed = record(s);
  const StepEvents a = whole(undisturbed);
  for (const char* text : {"3.0/forward/1/qkv/v:5001:1", "3.0/backward/0/attention/dk:700:-2",
                           "3.0/rollout/1/down/y:3200:4",
                           "3.0/optimizer/1/weight/model.layers.1.mlp.down_proj.weight:250:1"}) {
    CAPTURE(text);
    const Injection injection = parse_injection(text);
    const Disturbed disturbed = record_planted(s, injection, undisturbed.samples);
    const auto origin = compare_steps(a, whole(disturbed.recorded)).origin;
    REQUIRE(origin);
    REQUIRE(origin->event == injection.at.event);
    REQUIRE(origin->row);
    REQUIRE(origin->row->sample == disturbed.planted->element.sample);
    REQUIRE(origin->row->row == disturbed.planted->element.row);
    REQUIRE(!origin->value);
  }
}

TEST_CASE("a record with less names the first event behind the difference") {
  struct Case {
    const char* planted;
    Granularity granularity;
    const char* found;
    OriginClass kind;
  };
  const Case cases[] = {
      {"3.0/forward/0/gate_up/up:3000:1", Granularity::kTensors, "forward/0/down/y",
       OriginClass::kInterval},
      {"3.0/backward/0/attention/dq:150:100000", Granularity::kTensors, "backward/0/input_norm/dx",
       OriginClass::kInterval},
      {"3.0/objective/-/terms/c:3:1000", Granularity::kTensors, "objective/-/terms/c",
       OriginClass::kOrigin},
      {"3.0/forward/0/down/y:3000:200000", Granularity::kSteps, "objective/-/loss/policy",
       OriginClass::kInterval},
      {"3.0/backward/0/attention/dq:150:200000", Granularity::kSteps,
       "reduce/-/gradient/model.embed_tokens.weight", OriginClass::kInterval},
      {"3.0/clip/-/clip/norm:0:1", Granularity::kSteps, "clip/-/clip/norm", OriginClass::kOrigin},
  };
  for (const Case& c : cases) {
    Scenario s;
    s.record = {c.granularity, false, false};
    const Recorded undisturbed = record(s);
    const Disturbed disturbed = record_planted(s, parse_injection(c.planted), undisturbed.samples);
    CAPTURE(c.planted, disturbed.planted->before, disturbed.planted->after);
    const auto origin = compare_steps(whole(undisturbed), whole(disturbed.recorded)).origin;
    REQUIRE(origin);
    CHECK(to_string(origin->event) == c.found);
    CHECK(name(origin->kind) == name(c.kind));
    CHECK(origin->inputs_equal);
    // A record with more tells no other story.
    Scenario more = s;
    more.record = {Granularity::kOps, false, true};
    const auto mixed = compare_steps(whole(record(more)), whole(disturbed.recorded)).origin;
    REQUIRE(mixed);
    CHECK(mixed->event == origin->event);
  }
}

TEST_CASE("what follows from other weights is carried, not begun") {
  Scenario s;
  s.record = {Granularity::kSteps, false, false};
  const Recorded first = record(s);
  const Injection injection =
      parse_injection("3.0/optimizer/0/weight/model.layers.0.mlp.up_proj.weight:7:1");
  const Disturbed disturbed = record_planted(s, injection, first.samples);
  // The step that follows: here another one whose first difference is in the forward.
  const Disturbed next =
      record_planted(s, parse_injection("3.0/forward/0/gate_up/up:3000:200000"), first.samples);
  const StateBefore before{&first.step, &disturbed.recorded.step};
  const auto carried = compare_steps(first.step, next.recorded.step, before).origin;
  REQUIRE(carried);
  CHECK(name(carried->kind) == name(OriginClass::kCarrier));
  CHECK(!carried->inputs_equal);
  const StateBefore same{&first.step, &first.step};
  CHECK(compare_steps(first.step, next.recorded.step, same).origin->inputs_equal);
}

TEST_CASE("an event that one side lacks is a difference, unless it records less") {
  Scenario s;
  s.record = {Granularity::kTensors, false, false};
  const Recorded a = record(s);
  Recorded b = a;
  std::erase_if(b.step.events, [](const EventRecord& r) { return r.event.layer == 1; });
  const StepDifference difference = compare_steps(a.step, b.step);
  REQUIRE(difference.origin);
  CHECK(to_string(difference.origin->event) == "forward/1/down/y");
  CHECK(name(difference.origin->kind) == name(OriginClass::kMissing));
  CHECK(difference.events.front().missing);
}

namespace {

/// A chain a -> b -> c of another table, and d that is given; `differing` have another value.
StepEvents named_events(const std::set<std::string>& differing, bool parents) {
  StepEvents out{3, 0, {}, {}};
  for (const char* name : {"a", "b", "d", "c"}) {
    EventRecord& r = out.events.emplace_back();
    r.event = named_event(name, Phase::kForward);
    r.dtype = DType::kBF16;
    r.dims = {2};
    r.cols = 2;
    const bool other = differing.contains(name);
    r.digest = {other ? uint64_t{2} : uint64_t{1}, 0};
    for (const uint16_t bits : {uint16_t{0x3f80}, static_cast<uint16_t>(other ? 0x4001 : 0x4000)}) {
      r.values.push_back(static_cast<std::byte>(bits & 255));
      r.values.push_back(static_cast<std::byte>(bits >> 8));
    }
    if (!parents) continue;
    auto& of = r.parents.emplace();
    if (std::string_view(name) == "b") of = {out.events[0].event};
    if (std::string_view(name) == "c") of = {out.events[1].event};
  }
  return out;
}

}  // namespace

TEST_CASE("the origin among events of another table is found by their parents") {
  const StepEvents sound = named_events({}, true);
  CHECK(compare_steps(sound, sound).identical());
  const StepDifference found = compare_steps(sound, named_events({"b", "c"}, true));
  REQUIRE(found.origin);
  CHECK(to_string(found.origin->event) == "b");
  CHECK(found.origin->kind == OriginClass::kOrigin);
  REQUIRE(found.origin->value);
  CHECK(found.origin->value->a.text() == "2");
  CHECK(found.origin->value->ulps == 1);
  const StepDifference given = compare_steps(sound, named_events({"d", "c"}, true));
  CHECK(to_string(given.origin->event) == "d");
  CHECK(given.origin->kind == OriginClass::kGiven);
  // c alone: b, from which it is computed, agrees.
  CHECK(to_string(compare_steps(sound, named_events({"c"}, true)).origin->event) == "c");
}

TEST_CASE("without parents the first that differs in stored order is named") {
  const StepEvents sound = named_events({}, false);
  const StepDifference found = compare_steps(sound, named_events({"d", "c"}, false));
  CHECK(to_string(found.origin->event) == "d");
  CHECK(found.origin->kind == OriginClass::kInterval);
  StepEvents fewer = sound;
  fewer.events.pop_back();
  CHECK(compare_steps(sound, fewer).origin->kind == OriginClass::kMissing);
  CHECK_THROWS_AS(check_computable(sound, "dump"), Error);
}
