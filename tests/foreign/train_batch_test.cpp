#include "format/foreign/train_batch.h"

#include <deque>

#include "format/foreign/context_slices.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

TEST_CASE("the slices of all ranks are the response, each position once") {
  for (const int64_t cp_size : {1, 2, 3, 4}) {
    for (int64_t total = 2; total < 40; ++total) {
      for (int64_t response = 0; response < total; ++response) {
        for (const int64_t padded : {total, total + 5}) {
          std::vector<int> seen(static_cast<size_t>(response), 0);
          for (int64_t rank = 0; rank < cp_size; ++rank) {
            for (const ResponseRange range :
                 response_slices(total, response, padded, cp_size, rank)) {
              for (int64_t t = range.begin; t < range.end; ++t) {
                ++seen.at(static_cast<size_t>(t));
              }
            }
          }
          REQUIRE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
        }
      }
    }
  }
}

TEST_CASE("a rank owns a chunk from the front and its mirror from the back") {
  // 8 tokens in 4 chunks of 2; 7 response tokens, predicted at positions 0 to 6.
  const auto [head, tail] = response_slices(8, 7, 8, 2, 0);
  CHECK((head.begin == 0 && head.end == 2));
  CHECK((tail.begin == 6 && tail.end == 7));
  const auto [inner, outer] = response_slices(8, 7, 8, 2, 1);
  CHECK((inner.begin == 2 && inner.end == 4));
  CHECK((outer.begin == 4 && outer.end == 6));
}

/// A list in the text form of pickle's protocol 0.
std::string list(const std::vector<int>& values) {
  std::string text = "(";
  for (const int value : values) text += "I" + std::to_string(value) + "\n";
  return text + "l";
}

std::string floats(const std::vector<double>& values) {
  std::string text = "(";
  for (const double value : values) text += "F" + std::to_string(value) + "\n";
  return text + "l";
}

/// The file of a rank that holds one sample: tokens 1..8, of which the last 7 are the response.
struct RankFile {
  int rank = 0;
  int index = 0;
  std::vector<double> log_probs = {};
  std::vector<int> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  std::string more = {};  // fields beside rollout_data

  std::string pickle() const {
    const std::string column = log_probs.empty() ? "" : "Vlog_probs\n(" + floats(log_probs) + "l";
    return "(Vrollout_id\nI3\nVrank\nI" + std::to_string(rank) + "\n" + more +
           "Vrollout_data\n(Vtokens\n(" + list(tokens) + "l" + "Vtotal_lengths\n" + list({8}) +
           "Vresponse_lengths\n" + list({7}) + "Vsample_indices\n" + list({index}) + "Vrewards\n" +
           floats({0.5}) + "Vloss_masks\n(" + list({1, 1, 0, 1, 1, 1, 1}) + "l" + column + "dd.";
  }
};

TrainBatch assemble(const std::vector<RankFile>& files) {
  const TempFolder folder;
  std::deque<TorchFile> opened;
  std::vector<const TorchFile*> pointers;
  for (const RankFile& file : files) {
    const std::string name = "file" + std::to_string(opened.size()) + ".pt";
    opened.emplace_back(folder.write(name, make_torch_zip(file.pickle())));
    pointers.push_back(&opened.back());
  }
  return assemble_train(pointers);
}

std::vector<double> row(const TrainBatch& batch, const char* name, size_t sample) {
  const FloatColumn* column = batch.column(name);
  REQUIRE(column != nullptr);
  std::vector<double> values;
  for (size_t i = 0; i < column->row_size(sample); ++i) values.push_back(column->at(sample, i));
  return values;
}

const std::vector<double> kWhole = {-1, -2, -3, -4, -5, -6, -7};

TEST_CASE("slices are joined although the files do not say how they were cut") {
  const TrainBatch batch = assemble({{0, 0, {-1, -2, -7}}, {1, 0, {-3, -4, -5, -6}}});
  CHECK(row(batch, "log_probs", 0) == kWhole);
  CHECK(batch.cp_size == 2);
  CHECK(batch.replicas == 1);
  CHECK(batch.findings.empty());
  CHECK(batch.tokens.size() == 8);
  CHECK(batch.loss_mask == std::vector<uint8_t>{1, 1, 0, 1, 1, 1, 1});
  CHECK(batch.rewards == std::vector<double>{0.5});
}

TEST_CASE("slices are joined by what the files say") {
  const TrainBatch batch =
      assemble({{0, 0, {-3, -4, -5, -6}, {1, 2, 3, 4, 5, 6, 7, 8}, "Vcp_rank\nI1\nVcp_size\nI2\n"},
                {1, 0, {-1, -2, -7}, {1, 2, 3, 4, 5, 6, 7, 8}, "Vcp_rank\nI0\nVcp_size\nI2\n"}});
  CHECK(row(batch, "log_probs", 0) == kWhole);
}

TEST_CASE(
    "shards lie in the order of their samples, and stages that compute nothing are left out") {
  std::vector<double> other = kWhole;
  other[0] = -9;
  const TrainBatch batch = assemble({{2, 7, {}}, {3, 7, other}, {0, 5, {}}, {1, 5, kWhole}});
  CHECK(batch.sample_index == std::vector<int64_t>{5, 7});
  CHECK(row(batch, "log_probs", 0) == kWhole);
  CHECK(row(batch, "log_probs", 1) == other);
  CHECK(batch.shards == 2);
  CHECK(batch.replicas == 2);
  CHECK(batch.findings.empty());
}

TEST_CASE("replicas that differ are a finding with its ranks") {
  std::vector<double> other = kWhole;
  other[3] += 0.25;
  const TrainBatch batch = assemble({{0, 0, kWhole}, {1, 0, other}});
  REQUIRE(batch.findings.size() == 1);
  CHECK(batch.findings[0].code == "replica-mismatch");
  CHECK(batch.findings[0].where.find(": sample 0, position ") != std::string::npos);
  CHECK(batch.findings[0].message == "log_probs of rank 1 differs from that of rank 0");
  CHECK(row(batch, "log_probs", 0) == kWhole);
  const TrainBatch tokens = assemble({{0, 0, kWhole}, {1, 0, kWhole, {1, 2, 3, 4, 5, 6, 7, 9}}});
  REQUIRE(tokens.findings.size() == 1);
  CHECK(tokens.findings[0].message == "tokens of rank 1 differs from that of rank 0");
}

TEST_CASE("zeros behind the tokens are removed and reported") {
  const TrainBatch batch = assemble({{0, 0, kWhole, {1, 2, 3, 4, 5, 6, 7, 8, 0, 0}}});
  CHECK(batch.tokens.size() == 8);
  REQUIRE(batch.findings.size() == 1);
  CHECK(batch.findings[0].code == "padding-removed");
  CHECK_THROWS_AS(assemble({{0, 0, kWhole, {1, 2, 3, 4, 5, 6, 7, 8, 0, 4}}}), Error);
}

TEST_CASE("pieces that do not fit are refused") {
  const auto refused = [](ErrorCode code, std::string_view fragment,
                          const std::vector<RankFile>& files) {
    expect_error(code, fragment, [&] { assemble(files); });
  };
  refused(ErrorCode::kIncomplete, "file is missing", {{0, 0, {-1, -2, -7}}});
  refused(ErrorCode::kIncomplete, "rank 1 is missing",
          {{0, 0, {-1, -2, -7}, {1, 2, 3, 4, 5, 6, 7, 8}, "Vcp_rank\nI0\nVcp_size\nI2\n"}});
  refused(ErrorCode::kCorrupt, "different rollouts",
          {{0, 0, kWhole}, {1, 1, kWhole, {1, 2, 3, 4, 5, 6, 7, 8}, "Vrollout_id\nI4\n"}});
  refused(ErrorCode::kCorrupt, "fewer tokens", {{0, 0, kWhole, {1, 2}}});
  const std::vector<int> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::string first = "Vcp_rank\nI0\nVcp_size\nI2\n";
  refused(ErrorCode::kCorrupt,
          "cp_rank is 0, and the file has the slices of context-parallel rank 1",
          {{0, 0, {-1, -2, -7}, tokens, first}, {1, 0, {-3, -4, -5, -6}, tokens, first}});
  refused(ErrorCode::kIncomplete, "rank 1 is missing",
          {{0, 0, {-1, -2, -7}, tokens, first}, {1, 0, {-1, -2, -7}, tokens, first}});
  refused(ErrorCode::kIncomplete, "rank 1 is missing",  // nothing that is cut: any place would fit
          {{0, 0, {}, tokens, first}, {1, 0, {}, tokens, first}});
  refused(ErrorCode::kUsage, "no train dumps", {});
}

TEST_CASE("a column is kept in binary32 for as long as that is exact") {
  FloatColumn column("x");
  column.add_row({-0.5, 0.25});
  CHECK(column.is_narrow());
  column.add_row({});
  column.add_row({0.1});
  CHECK(!column.is_narrow());
  column.add_row({-0.0});
  CHECK(column.at(0, 1) == 0.25);
  CHECK(column.row_size(1) == 0);
  CHECK(column.at(2, 0) == 0.1);
  CHECK(std::signbit(column.at(3, 0)));
}

}  // namespace
}  // namespace rlreplay::foreign
