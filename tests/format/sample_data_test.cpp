// The content of rollouts and of training data: what is written is read, what is absent stays
// absent, and what does not fit together is refused.
#include "tests/format/sample_data.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "format/columns.h"
#include "format/dump_writer.h"
#include "format/group_io.h"
#include "format/meaning.h"
#include "format/rollout_data.h"
#include "format/train_data.h"
#include "tests/format/support.h"

namespace rlreplay::format::test {
namespace {

/// Writes one unit of data and hands its reader on.
template <class Data, class Use>
void with_unit(const Data& data, const std::string& path, const std::string& group, Use use) {
  const TemporaryFolder folder;
  DumpWriter writer = DumpWriter::create(folder / "dump", R"({"ranks":1})");
  writer.append(path, to_datasets(std::make_shared<const Data>(data), group));
  writer.seal();
  const DumpReader dump = DumpReader::open(folder / "dump");
  const UnitReader unit = dump.open_unit(dump.units()[0]);
  std::vector<Problem> problems;
  check_meaning(unit, problems);
  CHECK(problems.empty());
  use(dump, unit);
}

RolloutData written_and_read(const RolloutData& data) {
  RolloutData back;
  with_unit(data, "rollout/3.h5", "3", [&](const DumpReader& dump, const UnitReader& unit) {
    back = read_rollout_data(dump, unit, "3");
    CHECK(find_rollout_data(dump, 3) == back);
    CHECK_FALSE(find_rollout_data(dump, 4));
  });
  return back;
}

TrainData written_and_read(const TrainData& data) {
  TrainData back;
  with_unit(data, "train/3-0/rank0.h5", "3-0", [&](const DumpReader& dump, const UnitReader& unit) {
    back = read_train_data(dump, unit, "3-0");
  });
  return back;
}

TEST_CASE("a rollout is read as it was written") {
  for (const size_t samples : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{65}}) {
    INFO(samples << " samples");
    const RolloutData data = full_rollout(samples);
    CHECK(written_and_read(data) == data);
  }
}

TEST_CASE("training data is read as it was written") {
  for (const size_t samples : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{65}}) {
    INFO(samples << " samples");
    const TrainData data = full_train(samples);
    CHECK(written_and_read(data) == data);
  }
}

using Names = std::set<std::string>;

/// The datasets of samples that the table has of a kind, but those that say how ranks cut them.
Names known_columns(std::string_view kind) {
  const Names cuts = {"coordinates", "slice_offsets", "slices", "lengths"};
  Names out;
  for (const KnownDataset& row : known_datasets()) {
    const std::string name(row.name);
    if (row.kind == kind && !name.starts_with("events/") && !cuts.contains(name)) out.insert(name);
  }
  return out;
}

template <class Data>
Names written_columns(const Data& data) {
  Names out;
  for (const Dataset& dataset : to_datasets(std::make_shared<const Data>(data), "3")) {
    const std::string name = dataset.path.substr(2);
    if (!name.ends_with(kPresenceSuffix)) out.insert(name);
  }
  return out;
}

TEST_CASE("data has the columns of the table, and no others") {
  CHECK(written_columns(full_rollout(7)) == known_columns("rollout"));
  CHECK(written_columns(full_train(7)) == known_columns("train"));
}

void check_axis(std::string_view kind, std::string_view name, Axis axis) {
  const KnownDataset* known = find_known(kind, name);
  if (known == nullptr) return;  // what has a dataset of each part alone
  INFO(kind << " " << name);
  if (known->shape == "S") CHECK(axis == Axis::kSample);
  if (known->shape == "T") CHECK(axis != Axis::kSample);
  if (known->values == Values::kMask && axis != Axis::kSample) CHECK(axis == Axis::kResponse);
  if (known->dtypes == "f32 f64") CHECK(axis == Axis::kResponse);
}

TEST_CASE("columns are of samples and tokens as the table says") {
  for_each_rollout_column([](std::string_view name, auto member, Axis axis) {
    static_cast<void>(member);
    check_axis("rollout", name, axis);
  });
  for_each_train_column([](std::string_view name, auto member, Axis axis) {
    static_cast<void>(member);
    check_axis("train", name, axis);
  });
}

TEST_CASE("what was not recorded stays absent") {
  RolloutData rollout;
  rollout.sample_id = {4, 9};
  rollout.offsets = {0, 1, 3};
  rollout.tokens = {1, 2, 3};
  const RolloutData back = written_and_read(rollout);
  CHECK(back == rollout);
  CHECK_FALSE(back.log_probs);
  CHECK_FALSE(back.rewards);
  CHECK_FALSE(back.versions);
  TrainData train;
  train.sample_id = {9, 4};
  train.offsets = {0, 2, 3};
  CHECK(written_and_read(train) == train);
  CHECK_FALSE(written_and_read(train).advantages);
}

TEST_CASE("floats that only binary64 holds stay what they are") {
  RolloutData data = full_rollout(4);
  data.log_probs->narrow.clear();
  data.log_probs->wide.assign(data.tokens.size(), -0.1);
  const RolloutData back = written_and_read(data);
  CHECK(back.log_probs->is_wide());
  CHECK(back.log_probs->at(0) == -0.1);
}

TEST_CASE("experts are stored in the narrowest type that holds them") {
  RolloutData data = full_rollout(2);
  with_unit(data, "rollout/3.h5", "3", [](const DumpReader&, const UnitReader& unit) {
    CHECK(unit.find("3/experts")->dtype == DType::kU8);
  });
  data.experts->experts[1] = 256;
  with_unit(data, "rollout/3.h5", "3", [](const DumpReader&, const UnitReader& unit) {
    CHECK(unit.find("3/experts")->dtype == DType::kU16);
  });
  CHECK(written_and_read(data) == data);
}

template <class Data, class Change>
void check_refused(Data data, Change change) {
  change(data);
  try {
    to_datasets(std::make_shared<const Data>(data), "3");
    FAIL("was accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
  }
}

TEST_CASE("data that does not fit together is not written") {
  const RolloutData rollout = full_rollout(7);
  check_refused(rollout, [](RolloutData& d) { d.sample_id[1] = d.sample_id[0]; });
  check_refused(rollout, [](RolloutData& d) { d.offsets.back() += 1; });
  check_refused(rollout, [](RolloutData& d) { d.offsets.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.log_probs->narrow.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.log_probs->wide = {1}; });
  check_refused(rollout, [](RolloutData& d) { d.loss_mask->values[0] = 2; });
  check_refused(rollout, [](RolloutData& d) { (*d.prompt_length)[0] = 1000; });
  check_refused(rollout, [](RolloutData& d) { d.prompt_length->pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.group_id->presence.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.label_text->bytes.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.versions->starts->pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.reward_components->names.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.experts->slots = 2; });
  check_refused(rollout, [](RolloutData& d) { d.experts->layer_ids->pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.experts->gates->pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.experts->recorded->pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.experts->recorded->front() = 2; });
  check_refused(rollout, [](RolloutData& d) { d.roles->values.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.calls->seed->pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.calls->numbers->names.pop_back(); });
  check_refused(rollout, [](RolloutData& d) { d.calls->length.back() += 1000; });
  check_refused(rollout,
                [](RolloutData& d) { std::ranges::swap(d.calls->first[1], d.calls->first[2]); });
  const TrainData train = full_train(7);
  check_refused(train, [](TrainData& d) { d.offsets[1] = 1 << 20; });
  check_refused(train, [](TrainData& d) { d.advantages->presence.pop_back(); });
  check_refused(train, [](TrainData& d) { d.scalars->names.push_back("lr"); });
  check_refused(train, [](TrainData& d) { d.loss_mask->values[0] = 2; });
  check_refused(train, [](TrainData& d) { d.sample_id[1] = d.sample_id[0]; });
}

TEST_CASE("stored data that does not fit together is refused") {
  const auto check = [](auto change) {
    auto data = std::make_shared<RolloutData>(full_rollout(7));
    std::vector<Dataset> datasets = to_datasets(data, "3");
    change(*data, datasets);
    const TemporaryFolder folder;
    DumpWriter writer = DumpWriter::create(folder / "dump", R"({"ranks":1})");
    writer.append("rollout/3.h5", datasets);
    const DumpReader dump = DumpReader::open(folder / "dump");
    const UnitReader unit = dump.open_unit(dump.units()[0]);
    try {
      read_rollout_data(dump, unit, "3");
    } catch (const FormatError& error) {
      CHECK(error.rule() == Rule::kMeaning);
      return std::string(error.what());
    }
    FAIL("was accepted");
    return std::string();
  };
  const auto erase = [](std::vector<Dataset>& datasets, const std::string& path) {
    std::erase_if(datasets, [&](const Dataset& d) { return d.path == path; });
  };
  check([](RolloutData& d, auto&) { std::swap(d.sample_id[0], d.sample_id[1]); });
  check([](RolloutData& d, auto&) { d.offsets[1] = 1 << 20; });
  check([](RolloutData& d, auto&) { d.loss_mask->values[0] = 2; });
  check([](RolloutData& d, auto&) { d.group_id->presence[0] = 3; });
  check([](RolloutData& d, auto&) { d.tokens[1] = -1; });
  check([](RolloutData& d, auto&) { (*d.prompt_length)[0] = 1000; });
  check([&](RolloutData&, auto& all) { erase(all, "3/tokens"); });
  check([&](RolloutData&, auto& all) { erase(all, "3/offsets"); });
  check([&](RolloutData&, auto& all) { erase(all, "3/sample_id"); });
  check([&](RolloutData&, auto& all) { erase(all, "3/label_text_offsets"); });
  check([&](RolloutData&, auto& all) {  // what is said of calls, without the calls
    for (const char* name : {"3/call_offsets", "3/call_first", "3/call_length"}) erase(all, name);
  });
  check([](RolloutData&, auto& all) {
    for (Dataset& d : all) d.attributes.erase("columns");
  });
  for (const std::string path : {"loss_mask", "group_id_present", "label_text_offsets",
                                 "version_offsets", "version_starts", "call_length"}) {
    size_t left = 0;
    const std::string said = check([&](RolloutData&, auto& all) {
      for (Dataset& d : all) {
        if (d.path != "3/" + path) continue;
        left = --d.shape[0];
        d.bytes = d.bytes.first(left * size_of(d.dtype));
      }
    });
    CHECK(said == "there are " + std::to_string(left) + " values, and the others make it " +
                      std::to_string(left + 1));
  }
}

}  // namespace
}  // namespace rlreplay::format::test
