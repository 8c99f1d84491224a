// What the parts of a dump say of each other: each contradiction, planted, is named.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "format/dump_writer.h"
#include "format/rollout_data.h"
#include "format/train_data.h"
#include "src/replay/inspect/dump_audit.h"
#include "src/replay/inspect/unit_audit.h"
#include "tests/format/support.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::DumpWriter;
using format::RolloutData;
using format::TrainData;
using format::test::TemporaryFolder;

constexpr size_t kPrompt = 2, kTokens = 6;

RolloutData rollout() {
  RolloutData data;
  data.prompt_length.emplace(3, kPrompt);
  data.log_probs.emplace();
  data.loss_mask.emplace();
  for (size_t s = 0; s < 3; ++s) {
    data.sample_id.push_back(10 + s);
    data.offsets.push_back((s + 1) * kTokens);
    for (size_t t = 0; t < kTokens; ++t) {
      data.tokens.push_back(static_cast<int32_t>(100 * s + t));
      data.log_probs->narrow.push_back(t < kPrompt ? 0 : -0.5f);
      data.loss_mask->values.push_back(t < kPrompt ? 0 : 1);
    }
  }
  return data;
}

/// The samples in these rows of the rollout.
TrainData train(const RolloutData& of, std::initializer_list<size_t> rows) {
  TrainData data;
  data.tokens.emplace();
  data.loss_mask.emplace();
  data.old_log_probs.emplace();
  for (const size_t s : rows) {
    data.sample_id.push_back(of.sample_id[s]);
    for (size_t t = s * kTokens; t < (s + 1) * kTokens; ++t) {
      data.tokens->push_back(of.tokens[t]);
      data.loss_mask->values.push_back(of.loss_mask->values[t]);
      data.old_log_probs->narrow.push_back(of.log_probs->narrow[t]);
    }
    data.offsets.push_back(data.tokens->size());
  }
  return data;
}

struct Parts {
  RolloutData rollout = replay::rollout();
  std::vector<std::pair<std::string, TrainData>> trains;
  int64_t ranks = 2;

  Parts() {
    trains.emplace_back("3-0/rank0", train(rollout, {0, 1}));
    trains.emplace_back("3-0/rank1", train(rollout, {1, 2}));  // sample 11 is a replica
  }
};

struct Codes {
  std::vector<std::string> records, values;
  std::string message;
};

Codes audited(const std::function<void(Parts&)>& change) {
  Parts parts;
  change(parts);
  const TemporaryFolder folder;
  DumpWriter writer =
      DumpWriter::create(folder / "dump", R"({"ranks":)" + std::to_string(parts.ranks) + "}");
  writer.append("rollout/3.h5",
                to_datasets(std::make_shared<const RolloutData>(parts.rollout), "3"));
  for (const auto& [name, data] : parts.trains) {
    writer.append("train/" + name + ".h5", to_datasets(std::make_shared<const TrainData>(data),
                                                       name.substr(0, name.find('/'))));
  }
  writer.seal();
  const DumpReader dump = DumpReader::open(folder / "dump");
  Codes out;
  for (const auto& problem : audit_records(dump)) {
    out.records.push_back(problem.code);
    out.message = problem.message;
  }
  for (const auto& problem : audit_values(RecordedRun(folder / "dump"))) {
    out.values.push_back(problem.code);
    out.message = problem.message + " (" + problem.where + ")";
  }
  return out;
}

using List = std::vector<std::string>;

TEST_CASE("a dump whose parts agree is not complained of") {
  const Codes found = audited([](Parts&) {});
  CHECK(found.records.empty());
  CHECK(found.values.empty());
}

TEST_CASE("a rank or a step that is missing is named from the records alone") {
  const Codes rank = audited([](Parts& p) { p.trains.pop_back(); });
  CHECK(rank.records == List{"rank-missing"});
  CHECK(rank.message.ends_with(": 1"));
  const Codes step = audited([](Parts& p) {
    p.trains.emplace_back("3-2/rank0", train(p.rollout, {0}));
    p.trains.emplace_back("3-2/rank1", train(p.rollout, {2}));
  });
  CHECK(step.records == List{"step-missing"});
}

TEST_CASE("a step and its rollout must hold the same samples") {
  const Codes unknown = audited([](Parts& p) { p.trains[0].second.sample_id[0] = 9; });
  CHECK(unknown.values == List{"sample-unknown", "not-readable"});
  CHECK(unknown.message.find("sample 9") != std::string::npos);
  const Codes shorter = audited([](Parts& p) {
    TrainData& data = p.trains[1].second;
    data.offsets.back() -= 1;
    data.tokens->pop_back();
    data.loss_mask->values.pop_back();
    data.old_log_probs->narrow.pop_back();
  });
  CHECK(shorter.values == List{"length-mismatch"});
  const Codes token = audited([](Parts& p) { (*p.trains[1].second.tokens)[kTokens + 4] += 1; });
  CHECK(token.values == List{"token-mismatch"});
  CHECK(token.message.find("sample 12 has another token 4 in the step than in rollout 3") !=
        std::string::npos);
}

TEST_CASE("masks of prompts, numbers that are not finite, and probabilities above 1 are named") {
  CHECK(audited([](Parts& p) { p.rollout.loss_mask->values[1] = 1; }).values == List{"bad-mask"});
  const Codes nan = audited(
      [](Parts& p) { p.trains[0].second.old_log_probs->narrow[kPrompt + 1] = std::nanf(""); });
  CHECK(nan.values == List{"non-finite"});
  CHECK(nan.message.find("of sample 10 is nan at token 3") != std::string::npos);
  CHECK(audited([](Parts& p) { p.rollout.log_probs->narrow[kPrompt] = 0.5f; }).values ==
        List{"bad-log-prob"});
  // What is masked is not read by anything.
  const auto masked = audited([](Parts& p) {
    p.rollout.log_probs->narrow[kPrompt] = std::nanf("");
    p.rollout.loss_mask->values[kPrompt] = 0;
  });
  CHECK(masked.values.empty());
}

TEST_CASE("ranks that hold the same sample must agree to the bit") {
  const Codes found = audited([](Parts& p) {
    float& value = p.trains[1].second.old_log_probs->narrow[5];
    value = std::nextafter(value, 0.0f);
  });
  CHECK(found.values == List{"replica-mismatch"});
  CHECK(found.message ==
        "sample 11 of step 3.0 has other old_log_probs in train/3-0/rank1.h5 than in "
        "train/3-0/rank0.h5 (token 5: -0.49999997, not -0.5): which of them was trained on cannot "
        "be known (train/3-0)");
}

}  // namespace
}  // namespace rlreplay::replay
