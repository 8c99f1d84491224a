#include "src/replay/record/event_store.h"

#include <catch2/catch.hpp>
#include <functional>

#include "format/dump_writer.h"
#include "format/meaning.h"
#include "format/rule.h"
#include "src/replay/record/event_units.h"
#include "tests/format/support.h"
#include "tests/replay/planted.h"

using namespace rlreplay;
using namespace rlreplay::engine;
using namespace rlreplay::replay;
using namespace rlreplay::replay::test;
using format::Dataset;

namespace {

StepEvents stored_and_read(const std::vector<Dataset>& datasets, bool rollout) {
  const format::test::TemporaryFolder folder;
  const std::string unit_path = rollout ? "rollout/3.h5" : "train/3-0/rank0.h5";
  const std::string group = rollout ? "3" : "3-0";
  format::DumpWriter writer = format::DumpWriter::create(folder / "dump", R"({"ranks":1})");
  writer.append(unit_path, datasets);
  writer.seal();
  const auto dump = format::DumpReader::open(folder / "dump");
  const auto unit = dump.open_unit(*dump.find(unit_path));
  std::vector<format::Problem> problems;
  check_meaning(unit, problems);
  for (const format::Problem& problem : problems) UNSCOPED_INFO(problem.dataset + problem.message);
  CHECK(problems.empty());
  CHECK(has_events(unit, group));
  CHECK(!has_events(unit, "4"));
  return read_events(dump, unit, group, 3, 0);
}

/// The message with which a group is refused whose dataset `name` was changed.
std::string refusal(std::vector<Dataset> datasets, const std::string& name,
                    const std::function<void(std::vector<std::byte>&)>& change) {
  std::vector<std::byte> bytes;
  for (Dataset& d : datasets) {
    if (d.path != "3-0/events/" + name) continue;
    bytes.assign(d.bytes.begin(), d.bytes.end());
    change(bytes);
    const uint64_t width = d.shape.size() > 1 ? d.shape[1] : 1;
    d.shape[0] = bytes.size() / size_of(d.dtype) / width;
    d.bytes = bytes;
  }
  const format::test::TemporaryFolder folder;
  format::DumpWriter writer = format::DumpWriter::create(folder / "dump", R"({"ranks":1})");
  writer.append("train/3-0/rank0.h5", datasets);
  writer.seal();
  const auto dump = format::DumpReader::open(folder / "dump");
  const auto unit = dump.open_unit(*dump.find("train/3-0/rank0.h5"));
  try {
    read_events(dump, unit, "3-0", 3, 0);
  } catch (const format::FormatError& error) {
    CHECK(error.rule() == format::Rule::kMeaning);
    return error.what();
  }
  return "read";
}

}  // namespace

TEST_CASE("events that are stored are read, at every granularity") {
  for (const char* options : {"steps", "tensors+stats", "ops", "ops+stats+values"}) {
    CAPTURE(options);
    Scenario s;
    s.architecture = Architecture::kQwen3;
    s.record = parse_record_options(options);
    const Recorded recorded = record(s);
    for (const bool rollout : {true, false}) {
      const StepEvents& events = rollout ? recorded.rollout : recorded.step;
      const auto datasets = event_datasets(events, rollout ? "3" : "3-0");
      REQUIRE(datasets.size() <= 19);
      const StepEvents got = stored_and_read(datasets, rollout);
      REQUIRE(engine::test::first_unequal(got, events) == "");
    }
  }
}

TEST_CASE("a step without events is stored, and numbers that are not finite keep their place") {
  REQUIRE(stored_and_read(event_datasets({3, 0, {}, {}}, "3-0"), false) ==
          StepEvents{3, 0, {}, {}});
  Scenario s;
  s.record = parse_record_options("tensors+stats");
  StepEvents events = record(s).step;
  EventRecord& r = events.events[2];
  REQUIRE(r.row_set >= 0);
  const RowRun& last = events.row_sets[static_cast<size_t>(r.row_set)].back();
  r.nonfinite = {7, {last.sample, last.position + last.count - 1, r.cols - 1}};
  r.stats.reset();
  REQUIRE(stored_and_read(event_datasets(events, "3-0"), false) == events);
}

TEST_CASE("events of another table are read by name, whatever their type, dimensions and parents") {
  StepEvents events{3, 0, {{{5, 0, 2}}}, {}};
  size_t i = 0;
  for (const DType dtype : kAllDTypes) {
    EventRecord& r = events.events.emplace_back();
    r.event = engine::named_event("model.layers.0." + std::string(rlreplay::to_string(dtype)),
                                  engine::Phase::kForward);
    r.dtype = dtype;
    r.dims = i % 2 == 0 ? std::vector<int64_t>{2, 1, 3, 1, 1, 1, 1, 2} : std::vector<int64_t>{3, 2};
    r.row_set = i % 2 == 0 ? -1 : 0;
    r.rows = i % 2 == 0 ? 6 : 2;
    r.cols = i % 2 == 0 ? 2 : 6;
    r.digest = {i, i + 1};
    r.values.assign(12 * size_of(dtype), static_cast<std::byte>(dtype == DType::kBool ? 1 : i));
    auto& parents = r.parents.emplace();
    if (i > 0) parents.push_back(events.events[i - 1].event);
    ++i;
  }
  // A name of ours with a type that it never has here is another's.
  EventRecord& ours = events.events.emplace_back(events.events.front());
  ours.event = engine::named_event("forward/-/embedding/y", engine::Phase::kForward);
  REQUIRE(stored_and_read(event_datasets(events, "3-0"), false) == events);
}

TEST_CASE("events that contradict themselves are refused") {
  Scenario s;
  s.record = parse_record_options("ops+stats+values");
  const auto datasets = event_datasets(record(s).step, "3-0");
  const auto bump = [](size_t at) {
    return [at](std::vector<std::byte>& b) { b[at] = static_cast<std::byte>(1 + int(b[at])); };
  };
  const auto cut = [](size_t bytes) {
    return [bytes](std::vector<std::byte>& b) { b.resize(b.size() - bytes); };
  };
  const auto letter = [](size_t at, char to) {
    return [=](std::vector<std::byte>& b) { b[at] = static_cast<std::byte>(to); };
  };
  using Catch::Matchers::Contains;
  CHECK(refusal(datasets, "nothing", [](auto&) {}) == "read");
  CHECK(refusal(datasets, "tensors", letter(0, 'g')) == "read");  // somebody else's name
  CHECK_THAT(refusal(datasets, "tensors", letter(0, '\x07')), Contains("expected a name"));
  CHECK_THAT(refusal(datasets, "tensors", cut(1)),
             Contains("191 lines, expected one for each of the 192"));
  CHECK_THAT(refusal(datasets, "rank", cut(4)), Contains("192 values, and the others make it 191"));
  CHECK_THAT(refusal(datasets, "stats", cut(32)), Contains("the others make it 768"));
  CHECK_THAT(refusal(datasets, "rows", bump(0)), Contains("has 482 rows, expected 481"));
  CHECK_THAT(refusal(datasets, "row_set", bump(0)), Contains("rows"));
  CHECK_THAT(refusal(datasets, "row_set", letter(3, '\x7f')),
             Contains("has the set 2130706432, expected one of 2"));
  CHECK_THAT(refusal(datasets, "run_count", letter(3, '\x7f')),
             Contains("has 481 rows, expected 2130706913"));
  CHECK_THAT(refusal(datasets, "run_count", letter(7, '\x7f')), Contains("expected 1 to 2^31"));
  CHECK_THAT(refusal(datasets, "run_position", letter(8, '\x7f')), Contains("read"));
  CHECK_THAT(refusal(datasets, "run_sample", letter(0, '\x7f')),
             Contains("expected runs that ascend"));
  CHECK_THAT(refusal(datasets, "row_set_offsets", bump(0)), Contains("offsets"));
  CHECK_THAT(refusal(datasets, "row_digest_offsets", cut(8)), Contains("offsets"));
  CHECK_THAT(refusal(datasets, "row_digest", cut(16)), Contains("offsets"));
  CHECK_THAT(refusal(datasets, "value_count", bump(0)), Contains("has 482 values from 0 of 481"));
  CHECK_THAT(refusal(datasets, "value_start", letter(7, '\x7f')),
             Contains("of 481, expected 481 rows"));
  CHECK_THAT(refusal(datasets, "values_f32", cut(4)), Contains("expected"));
}

TEST_CASE("what is not finite and no tensor has, or a place outside of it, is refused") {
  Scenario s;
  s.record = parse_record_options("tensors+stats");
  StepEvents events = record(s).step;
  const size_t at = 2;
  REQUIRE(events.events[at].row_set >= 0);
  const RowRun run = events.row_sets[static_cast<size_t>(events.events[at].row_set)].back();
  const auto said = [&](const NonFinite& of) {
    events.events[at].nonfinite = of;
    return refusal(event_datasets(events, "3-0"), "nothing", [](auto&) {});
  };
  const int64_t elements = events.events[at].rows * events.events[at].cols;
  const Element first{run.sample, run.position, 0};
  CHECK(said({1, first}) == "read");
  CHECK(said({elements, first}) == "read");
  using Catch::Matchers::Contains;
  CHECK_THAT(said({elements + 1, first}), Contains("expected at most " + std::to_string(elements)));
  CHECK_THAT(said({0, {0, 0, 1}}), Contains("expected zeros where there are none"));
  const auto outside = Contains("expected a place in the tensor");
  CHECK_THAT(said({1, {run.sample + 1000, run.position, 0}}), outside);
  CHECK_THAT(said({1, {run.sample, run.position + run.count, 0}}), outside);
  CHECK_THAT(said({1, {run.sample, run.position, events.events[at].cols}}), outside);
}

TEST_CASE("a name twice among the tensors of a rank is refused, of two ranks it is not") {
  Scenario s;
  s.record = parse_record_options("tensors");
  StepEvents events = record(s).step;
  events.events.push_back(events.events.back());
  const auto said = [&] { return refusal(event_datasets(events, "3-0"), "nothing", [](auto&) {}); };
  CHECK_THAT(said(), Catch::Matchers::Contains("expected each name once"));
  events.events.back().rank = 1;
  CHECK(said() == "read");
}
