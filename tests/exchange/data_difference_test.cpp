// Two dumps that differ in one place: the difference is named exactly, and what is equal is not
// read.
#include "src/replay/compare/data_difference.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include "format/dump_writer.h"
#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/base/error.h"
#include "src/base/same_value.h"
#include "src/replay/inspect/show_dump.h"
#include "tests/format/support.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::DumpWriter;
using format::RolloutData;
using format::TrainData;
using format::test::Random;
using format::test::TemporaryFolder;

constexpr int64_t kRollouts = 40;
constexpr size_t kSamples = 6;

/// What every rollout and step of a dump may be changed by before it is written.
struct Changes {
  std::function<void(int64_t rollout, RolloutData&)> rollout = [](int64_t, RolloutData&) {};
  std::function<void(int64_t rollout, TrainData&)> train = [](int64_t, TrainData&) {};
  size_t ranks = 1;
};

RolloutData make_rollout(int64_t id) {
  Random random(static_cast<uint64_t>(id) + 1);
  RolloutData data;
  data.prompt_length.emplace();
  data.log_probs.emplace();
  data.rewards.emplace();
  for (size_t s = 0; s < kSamples; ++s) {
    const uint64_t length = 20 + random.below(30);
    data.sample_id.push_back(static_cast<uint64_t>(id) * 10 + s);
    data.offsets.push_back(data.offsets.back() + length);
    data.prompt_length->push_back(5);
    for (uint64_t t = 0; t < length; ++t) {
      data.tokens.push_back(static_cast<int32_t>(random.below(500)));
      data.log_probs->narrow.push_back(
          t < 5 ? 0.0f : -static_cast<float>(random.below(900)) / 64.0f - 1.0f / 3);
    }
    data.rewards->values.push_back(static_cast<double>(random.below(2)));
  }
  return data;
}

TrainData make_train(const RolloutData& rollout) {
  TrainData data;
  data.sample_id = rollout.sample_id;
  data.offsets = rollout.offsets;
  data.prompt_length = rollout.prompt_length;
  data.old_log_probs = rollout.log_probs;
  data.advantages = rollout.log_probs;
  data.scalars = format::NamedColumns{{"loss"}, {0.5}, {}};
  return data;
}

/// Every `ranks`-th sample of a step.
TrainData shard(const TrainData& whole, size_t rank, size_t ranks) {
  TrainData data;
  data.prompt_length.emplace();
  data.old_log_probs.emplace();
  data.advantages.emplace();
  data.scalars = whole.scalars;
  for (size_t s = rank; s < whole.size(); s += ranks) {
    data.sample_id.push_back(whole.sample_id[s]);
    data.prompt_length->push_back((*whole.prompt_length)[s]);
    for (uint64_t t = whole.offsets[s]; t < whole.offsets[s + 1]; ++t) {
      data.old_log_probs->narrow.push_back(whole.old_log_probs->narrow[t]);
      data.advantages->narrow.push_back(whole.advantages->narrow[t]);
    }
    data.offsets.push_back(data.old_log_probs->size());
  }
  return data;
}

void write_dump(const std::string& path, const Changes& changes) {
  DumpWriter writer =
      DumpWriter::create(path, R"({"ranks":)" + std::to_string(changes.ranks) + "}");
  for (int64_t id = 0; id < kRollouts; ++id) {
    RolloutData rollout = make_rollout(id);
    TrainData train = make_train(rollout);
    changes.rollout(id, rollout);
    changes.train(id, train);
    const std::string name = std::to_string(id);
    writer.append("rollout/" + name + ".h5",
                  to_datasets(std::make_shared<const RolloutData>(rollout), name));
    for (size_t rank = 0; rank < changes.ranks; ++rank) {
      const TrainData part = shard(train, rank, changes.ranks);
      writer.append("train/" + name + "-0/rank" + std::to_string(rank) + ".h5",
                    to_datasets(std::make_shared<const TrainData>(part), name + "-0"));
    }
  }
  writer.seal();
}

/// The difference between the dump as it is and one that was changed.
DataDifference planted(const Changes& changes, const DiffOptions& options = {}) {
  const TemporaryFolder folder;
  write_dump(folder / "a", {});
  write_dump(folder / "b", changes);
  const DumpReader a = DumpReader::open(folder / "a");
  uint64_t stored = 0;
  for (const format::UnitRecord& unit : a.units()) stored += unit.size;
  DataDifference found = compare_data(a, DumpReader::open(folder / "b"), options);
  // Of both dumps together; less than 5 % of the one.
  if (changes.ranks == 1) CHECK(found.bytes_read < stored / 20);
  return found;
}

const FieldDifference& only_field(const DataDifference& found) {
  const FieldDifference* different = nullptr;
  for (const FieldDifference& field : found.fields) {
    if (field.is_equal()) continue;
    CHECK(different == nullptr);
    different = &field;
  }
  REQUIRE(different != nullptr);
  return *different;
}

TEST_CASE("equal dumps are identical, and nothing is read") {
  const DataDifference found = planted({});
  CHECK(found.identical);
  CHECK(found.bytes_read == 0);
  CHECK(found.groups == 2 * kRollouts);
  CHECK(found.groups_equal == found.groups);
}

TEST_CASE("one token is named") {
  Changes changes;
  changes.rollout = [](int64_t id, RolloutData& data) {
    if (id == 17) data.tokens[data.offsets[3] + 9] += 1;
  };
  const DataDifference found = planted(changes);
  CHECK_FALSE(found.identical);
  CHECK(found.first_field == "rollout/tokens");
  CHECK(found.first->rollout_id == 17);
  CHECK_FALSE(found.first->step_id);
  CHECK(found.first->sample == 173);
  CHECK(found.first->token == 9);
  CHECK(only_field(found).different == 1);
}

TEST_CASE("one log-probability by one ulp is named, and counted as one ulp") {
  Changes changes;
  changes.train = [](int64_t id, TrainData& data) {
    float& value = data.old_log_probs->narrow[data.offsets[5] + 12];
    if (id == 39) value = std::nextafter(value, 0.0f);
  };
  const DataDifference found = planted(changes);
  const FieldDifference& field = only_field(found);
  CHECK(field.field == "train/old_log_probs");
  CHECK(field.first->rollout_id == 39);
  CHECK(field.first->step_id == 0);
  CHECK(field.first->sample == 395);
  CHECK(field.first->token == 12);
  CHECK(field.first->ulps == 1);
  CHECK(field.ulps[0] == 1);
  CHECK(field.max_difference > 0);
  for (const char* name : {"old_log_probs", "train/old_log_probs"}) {
    const DataDifference near = planted(changes, {{{name, 1e-3}}});
    CHECK(near.within_tolerance);
    CHECK_FALSE(near.identical);
  }
  CHECK_FALSE(planted(changes, {{{"advantages", 1e-3}}}).within_tolerance);
  CHECK_THROWS_AS(planted(changes, {{{"advantage", 1e-3}}}), Error);
}

TEST_CASE("one reward is named") {
  Changes changes;
  changes.rollout = [](int64_t id, RolloutData& data) {
    if (id == 0) data.rewards->values[2] = 0.25;
  };
  const DataDifference found = planted(changes);
  CHECK(found.first_field == "rollout/rewards");
  CHECK(found.first->sample == 2);
  CHECK(found.first->b == "0.25");
  CHECK_FALSE(found.first->token);
}

TEST_CASE("NaN, the sign of zero, missing samples and missing steps are differences") {
  Changes changes;
  changes.train = [](int64_t id, TrainData& data) {
    if (id == 1) data.advantages->narrow[data.offsets[0] + 7] = std::nanf("");
    if (id == 1) data.scalars->values[0] = -0.0;
  };
  const DataDifference nan = planted(changes);
  CHECK(nan.first_field == "train/advantages");
  CHECK_FALSE(nan.first->ulps);
  CHECK(nan.fields.back().field == "step/loss");
  CHECK_FALSE(nan.fields.back().is_equal());

  const TemporaryFolder folder;
  write_dump(folder / "a", {});
  DumpWriter writer = DumpWriter::create(folder / "b", R"({"ranks":1})");
  RolloutData part = make_rollout(0);
  part.log_probs.reset();
  part.sample_id[1] = 8;
  std::swap(part.sample_id[1], part.sample_id[5]);
  std::sort(part.sample_id.begin(), part.sample_id.end());
  writer.append("rollout/0.h5", to_datasets(std::make_shared<const RolloutData>(part), "0"));
  writer.seal();
  const DataDifference found =
      compare_data(DumpReader::open(folder / "a"), DumpReader::open(folder / "b"));
  CHECK(found.only.size() == 2 * kRollouts - 1);
  CHECK(found.only.front() == "step 0 of rollout 0 is only in A");
  CHECK(found.first_field == "rollout/samples");
  CHECK(found.fields.front().missing == 2);
  CHECK_FALSE(found.identical);
}

TEST_CASE("a step is the same on one rank and on several, and one shard's change is named") {
  Changes changes;
  changes.ranks = 3;
  const DataDifference same = planted(changes);
  CHECK(same.identical);
  CHECK(same.groups_equal == kRollouts);  // the rollouts
  changes.train = [](int64_t id, TrainData& data) {
    if (id == 8) data.advantages->narrow[data.offsets[4] + 6] += 1;
  };
  const DataDifference found = planted(changes);
  CHECK(only_field(found).field == "train/advantages");
  CHECK(found.first->sample == 84);
  CHECK(found.first->token == 6);
}

TEST_CASE("equal is equal to the bit, and a NaN equals a NaN") {
  CHECK(same_value(1.5f, 1.5));
  CHECK_FALSE(same_value(0.0f, -0.0f));
  CHECK_FALSE(same_value(0.1f, 0.1));
  CHECK(same_value(std::nanf(""), -std::nanf("1")));
  CHECK_FALSE(same_value(std::nanf(""), 1.0f));
  CHECK(same_value(uint8_t{200}, int64_t{200}));
  CHECK_FALSE(same_value(int64_t{-1}, uint64_t{0} - 1));
  CHECK_FALSE(same_value(int64_t{1} << 53, (int64_t{1} << 53) + 1));
}

TEST_CASE("a dump's summary and samples are shown in at most 100 columns") {
  const TemporaryFolder folder;
  write_dump(folder / "a", {});
  const DumpReader dump = DumpReader::open(folder / "a");
  const auto check_width = [](const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      REQUIRE(end != text.npos);
      CHECK(end - at <= 100);
      at = end + 1;
    }
  };
  const auto shown = [&](const ShowOptions& options) {
    std::ostringstream out;
    show_dump(dump, options, out);
    return out.str();
  };
  const std::string summary = shown({});
  check_width(summary);
  CHECK(summary.find(dump.root().hex()) != summary.npos);
  ShowOptions options;
  options.sample = 173;
  const std::string sample = shown(options);
  check_width(sample);
  const RolloutData data = make_rollout(17);
  CHECK(sample.find("sample 173 of rollout 17") == 0);
  CHECK(sample.find(std::to_string(data.tokens[data.offsets[4] - 1])) != sample.npos);
  options.sample = 9;
  CHECK_THROWS_AS(shown(options), Error);
  ShowOptions tensor;
  tensor.step = "17-0";
  tensor.tensor = "scalars";
  CHECK(shown(tensor) == "17-0/scalars  f64 [1]\n0.5\n");
}

}  // namespace
}  // namespace rlreplay::replay
