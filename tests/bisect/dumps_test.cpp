#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "format/dump_writer.h"
#include "format/train_data.h"
#include "src/base/temporary_folder.h"
#include "src/bisect/workspace.h"
#include "src/replay/measure/dump_numbers.h"
#include "src/replay/measure/evidence.h"
#include "src/replay/measure/judgement.h"

using namespace rlreplay;
using namespace rlreplay::measure;
using bisect::remove_folder;
using Catch::Matchers::Contains;
using format::TrainData;

namespace {

struct Folder {
  std::string path = make_temporary_folder("rlbisect");
  ~Folder() { remove_folder(path); }
};

/// Two samples with a prompt of one token; the second's last token does not count.
TrainData step_data(int64_t step) {
  TrainData data;
  data.sample_id = {7, 9};
  data.offsets = {0, 3, 7};
  data.prompt_length = {1, 1};
  data.loss_mask = {{0, 1, 1, 0, 1, 1, 0}, {}};
  data.log_probs = {{0, -1, -2, 0, -0.5F, -0.25F, -4}, {}, {}};
  data.scalars = format::NamedColumns{{"grad_norm", "loss"}, {1, 0.5 + double(step)}, {}};
  return data;
}

/// A dump of the steps 0.0, 1.0, ...
void write(const std::string& path, const std::vector<TrainData>& steps, bool complete = true,
           int32_t token = 3, const std::string& meta = R"({"ranks": 1})") {
  auto writer = format::DumpWriter::create(path, meta);
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string rollout = std::to_string(i);
    std::vector<format::Dataset> samples;
    const uint64_t ids = 2, tokens = 7;
    samples.push_back(
        format::dataset_of<uint64_t>(rollout + "/sample_id", DType::kU64, {ids}, {7, 9}));
    samples.push_back(
        format::dataset_of<uint64_t>(rollout + "/offsets", DType::kU64, {ids + 1}, {0, 3, 7}));
    samples.push_back(format::dataset_of<int32_t>(rollout + "/tokens", DType::kI32, {tokens},
                                                  {1, 2, token, 4, 5, 6, 7}));
    writer.append("rollout/" + rollout + ".h5", samples);
    const auto data = std::make_shared<const TrainData>(steps[i]);
    writer.append("train/" + rollout + "-0/rank0.h5", format::to_datasets(data, rollout + "-0"));
  }
  writer.seal({.complete = complete, .unstable = "{}", .derived_from = {}});
}

Judgement judge_reference_dump(const Criterion& criterion, const std::string& path) {
  return judge(criterion, nullptr, read_recorded(path, criterion.needs_log_probs()));
}

Judgement judge_dump(const Criterion& criterion, const std::string& reference,
                     const std::string& path) {
  const Measurement good = read_recorded(reference, criterion.needs_log_probs());
  return judge(criterion, &good, read_recorded(path, criterion.needs_log_probs()));
}

Judgement judge_named(const Folder& folder, const std::string& metric, double tolerance = 0) {
  const Criterion criterion{.metrics = {metric}, .tolerance = tolerance};
  CHECK(judge_reference_dump(criterion, folder.path + "/good").verdict == Verdict::kGood);
  return judge_dump(criterion, folder.path + "/good", folder.path + "/bad");
}

}  // namespace

TEST_CASE("a recorded number decides, with its tolerance") {
  const Folder folder;
  write(folder.path + "/good", {step_data(0), step_data(1)});
  auto other = step_data(1);
  other.scalars->values[1] += 0.25;
  write(folder.path + "/bad", {step_data(0), other});
  const auto bad = judge_named(folder, "loss");
  CHECK(bad.verdict == Verdict::kBad);
  CHECK(bad.reason == "loss at step 1.0: 1.75 where the reference has 1.5 (1 of 2 numbers differ)");
  CHECK(judge_named(folder, "loss", 0.3).verdict == Verdict::kGood);
  CHECK(judge_named(folder, "grad_norm").verdict == Verdict::kGood);
  const auto missing = judge_reference_dump({.metrics = {"reward"}}, folder.path + "/good");
  CHECK(missing.verdict == Verdict::kSkip);
  CHECK_THAT(missing.reason, Contains("has no reward; it has grad_norm, loss"));
}

TEST_CASE("forward_logp_max_diff is over the tokens that count") {
  const Folder folder;
  write(folder.path + "/good", {step_data(0), step_data(1)});
  SECTION("a masked token does not") {
    auto other = step_data(0);
    other.log_probs->narrow[6] = -5;
    write(folder.path + "/bad", {other, step_data(1)});
    const auto good = judge_named(folder, "forward_logp_max_diff");
    CHECK(good.verdict == Verdict::kGood);
    CHECK(good.reason == "8 log-probabilities agree");
  }
  SECTION("the largest of a step, in the first step beyond the tolerance") {
    auto first = step_data(0), second = step_data(1);
    first.log_probs->narrow[1] = -1.25F;
    first.log_probs->narrow[4] = -1;
    second.log_probs->narrow[5] = -2.25F;
    write(folder.path + "/bad", {first, second});
    const auto bad = judge_named(folder, "forward_logp_max_diff");
    CHECK(bad.verdict == Verdict::kBad);
    CHECK(bad.difference->step_name == "0.0");
    CHECK(bad.difference->bad.number == 0.5);
    CHECK(bad.difference->different == 3);
    const auto& spread = *bad.difference->log_probs;
    CHECK(spread.where->sample == 9);
    CHECK(spread.where->token == 1);
    CHECK(spread.mean == 0.1875);
    CHECK(spread.p50 == 0);
    CHECK(spread.p99 == 0.5);
    CHECK(bad.reason ==
          "forward_logp_max_diff at step 0.0: 0.5 where the reference has 0 (3 of 8 numbers "
          "differ); in that step largest at sample 9, token 1; mean 0.1875, p50 0, p99 0.5, 0 of 4 "
          "not finite");
    CHECK(judge_named(folder, "forward_logp_max_diff", 0.5).difference->step_name == "1.0");
    CHECK(judge_named(folder, "forward_logp_max_diff", 2).verdict == Verdict::kGood);
  }
  SECTION("a NaN is beyond every tolerance, but agrees with itself") {
    auto other = step_data(0);
    other.log_probs->narrow[1] = std::nanf("");
    write(folder.path + "/bad", {other, step_data(1)});
    const auto bad = judge_named(folder, "forward_logp_max_diff", 1e9);
    CHECK(bad.verdict == Verdict::kBad);
    CHECK(bad.difference->log_probs->nonfinite == 1);
    CHECK(judge_dump({.metrics = {"forward_logp_max_diff"}}, folder.path + "/bad",
                     folder.path + "/bad")
              .verdict == Verdict::kGood);
  }
  SECTION("-0 is not 0") {
    auto zero = step_data(0), minus = step_data(0);
    zero.log_probs->narrow[1] = 0.0F;
    minus.log_probs->narrow[1] = -0.0F;
    write(folder.path + "/zero", {zero});
    write(folder.path + "/minus", {minus});
    const auto judged = [&](double tolerance) {
      return judge_dump({.metrics = {"forward_logp_max_diff"}, .tolerance = tolerance},
                        folder.path + "/zero", folder.path + "/minus");
    };
    CHECK(judged(0).verdict == Verdict::kBad);
    CHECK(judged(0).difference->different == 1);
    CHECK(judged(1e-9).verdict == Verdict::kGood);
  }
  SECTION("other tokens have no difference") {
    write(folder.path + "/bad", {step_data(0), step_data(1)}, true, 33);
    const auto skip = judge_named(folder, "forward_logp_max_diff");
    CHECK(skip.verdict == Verdict::kSkip);
    CHECK_THAT(skip.reason, Contains("tokens of rollout 0"));
  }
  SECTION("nor have other samples") {
    auto other = step_data(0);
    other.sample_id = {7, 8};
    write(folder.path + "/bad", {other, step_data(1)});
    CHECK_THAT(judge_named(folder, "forward_logp_max_diff").reason, Contains("sample 8"));
  }
}

TEST_CASE("of dumps without weights all content decides, and what was given otherwise is said") {
  const Folder folder;
  write(folder.path + "/good", {step_data(0), step_data(1)});
  write(folder.path + "/same", {step_data(0), step_data(1)});
  write(folder.path + "/bad", {step_data(0), step_data(2)});
  write(folder.path + "/tokens", {step_data(0), step_data(1)}, true, 33);
  const auto judged = [&](const char* name) {
    return judge_dump({}, folder.path + "/good", folder.path + name);
  };
  CHECK(judged("/same").verdict == Verdict::kGood);
  CHECK(judged("/bad").verdict == Verdict::kBad);
  CHECK_THAT(judged("/bad").reason, !Contains("given"));
  CHECK_THAT(judged("/tokens").reason, Contains("given otherwise: the tokens of rollout 0"));
}

TEST_CASE("digests of another contract are not compared, but numbers are") {
  const Folder folder;
  const auto with = [](const std::string& version) {
    return R"({"ranks": 1, "contract": {"version": ")" + version + R"("}})";
  };
  write(folder.path + "/good", {step_data(0)}, true, 3, with("0.1"));
  write(folder.path + "/bad", {step_data(0)}, true, 3, with("0.2"));
  const auto skipped = judge_dump({}, folder.path + "/good", folder.path + "/bad");
  CHECK(skipped.verdict == Verdict::kSkip);
  CHECK_THAT(skipped.reason, Contains("another contract of the bits"));
  CHECK(judge_named(folder, "loss").verdict == Verdict::kGood);
}

TEST_CASE("numbers of other steps are not compared") {
  const Folder folder;
  auto without = step_data(1);
  without.scalars = format::NamedColumns{{"grad_norm"}, {1}, {}};
  const auto at = [&](bool first) {
    auto one = step_data(0);
    one.scalars = format::NamedColumns{{"grad_norm", "value_loss"}, {1, 0.5}, {}};
    return first ? std::vector{one, without} : std::vector{without, one};
  };
  write(folder.path + "/good", at(true));
  write(folder.path + "/bad", at(false));
  const auto skip = judge_named(folder, "value_loss");
  CHECK(skip.verdict == Verdict::kSkip);
  CHECK(skip.reason ==
        "value_loss was recorded at step 1.0 where the reference has it at step 0.0");
}

TEST_CASE("the step in which dumps part is named") {
  const Folder folder;
  write(folder.path + "/good", {step_data(0), step_data(1)});
  write(folder.path + "/bad", {step_data(0)});
  CHECK(judge_named(folder, "loss").reason ==
        "the dump has other steps than the reference: as number 2 none (of 1) where the reference "
        "has 1.0 (of 2)");
}

TEST_CASE("a dump that is not whole, or has other steps, is no verdict") {
  const Folder folder;
  write(folder.path + "/good", {step_data(0), step_data(1)});
  SECTION("fewer steps") { write(folder.path + "/bad", {step_data(0)}); }
  SECTION("more steps") { write(folder.path + "/bad", {step_data(0), step_data(1), step_data(2)}); }
  SECTION("not to its end") { write(folder.path + "/bad", {step_data(0), step_data(1)}, false); }
  for (const char* metric : {"loss", "forward_logp_max_diff"}) {
    const auto skip = judge_named(folder, metric);
    CHECK(skip.verdict == Verdict::kSkip);
    CHECK_FALSE(skip.reason.empty());
  }
  CHECK_THROWS_AS(judge_reference_dump({.metrics = {"loss"}}, folder.path + "/none"), Error);
}
