#include "format/foreign/train_columns.h"

#include <map>

#include "format/foreign/dump_check.h"
#include "format/foreign/replicas.h"
#include "format/foreign/train_batch.h"
#include "tests/foreign/support.h"

namespace rlreplay::foreign {
namespace {

constexpr int kTotal = 8, kResponse = 7;

/// Values in the text form of pickle's protocol 0.
std::string number(int value) { return "I" + std::to_string(value) + "\n"; }

std::string list(const std::vector<std::string>& items) {
  std::string text = "(";
  for (const std::string& item : items) text += item;
  return text + "l";
}

std::string numbers(int value, int count) {
  return list(std::vector<std::string>(static_cast<size_t>(count), number(value)));
}

/// The columns of a rank's file of two samples, a text of each sample: of a batch, of each element.
using Columns = std::map<std::string, std::vector<std::string>, std::less<>>;

std::string cell(const TrainColumn& column, int sample) {
  if (column.name == "tokens") return numbers(5, kTotal);
  if (column.name == "total_lengths" || column.name == "max_seq_lens") return number(kTotal);
  if (column.name == "response_lengths") return number(kResponse);
  if (column.name == "sample_indices") return number(sample);
  if (column.is_cut()) return numbers(-1, kResponse);
  if (column.holds == Holds::kResponse) return numbers(1, kResponse);
  if (column.name == "rollout_routed_experts" || column.name == "rollout_indexer_topk") {
    return numbers(3, kTotal - 1);
  }
  return number(3);
}

/// All that is known.
Columns all_columns() {
  Columns out;
  for (const TrainColumn& column : kTrainColumns) {
    out[std::string(column.name)] = {cell(column, 0), cell(column, 1)};
  }
  return out;
}

TorchFile written(const TempFolder& folder, int rank, const Columns& columns) {
  std::string data = "(";
  for (const auto& [name, cells] : columns) data += "V" + name + "\n" + list(cells);
  const std::string pickle =
      "(Vrollout_id\nI3\nVrank\n" + number(rank) + "Vrollout_data\n" + data + "dd.";
  return TorchFile(folder.write("3_" + std::to_string(rank) + ".pt", make_torch_zip(pickle)));
}

std::string text_of(const std::vector<Problem>& problems) {
  std::string out;
  for (const Problem& found : problems) out += found.message + " (" + found.where + ")\n";
  return out;
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// What is said of one file, or of two ranks', after the columns were changed, of the second rank.
std::string said_of_file(const Columns& columns) {
  const TempFolder folder;
  const TorchFile file = written(folder, 0, columns);
  return text_of(check_dump(file.tree(), file.root()));
}

std::string said_of_ranks(const Columns& columns) {
  const TempFolder folder;
  const TorchFile first = written(folder, 0, all_columns()), other = written(folder, 1, columns);
  const TorchFile* files[] = {&first, &other};
  try {
    return text_of(assemble_train(files).findings);
  } catch (const Error& error) {
    return error.what();
  }
}

/// Of what is not cut, also where the ranks cannot be put together.
std::string said_of_replicas(const Columns& columns) {
  const TempFolder folder;
  const TorchFile first = written(folder, 0, all_columns()), other = written(folder, 1, columns);
  return text_of(compare_replicas(TrainShard(other), TrainShard(first), /*same_slice=*/true));
}

TEST_CASE("files that have every column are sound") {
  CHECK(said_of_file(all_columns()).empty());
  CHECK(said_of_ranks(all_columns()).empty());
}

TEST_CASE("of a column of samples an entry too few is named") {
  for (const TrainColumn& column : kTrainColumns) {
    INFO(column.name);
    Columns columns = all_columns();
    columns.find(column.name)->second.pop_back();
    const std::string found = said_of_file(columns);
    const std::string words = std::string(column.name) + " has 1 entries, 2 are expected";
    CHECK(contains(found, words) == column.is_by_sample());
  }
}

TEST_CASE("what a trainer has of each sample is named where one lacks it") {
  for (const TrainColumn& column : kTrainColumns) {
    INFO(column.name);
    Columns columns = all_columns();
    columns.find(column.name)->second.back() = "N";
    const std::string words = std::string(column.name) + " is None or missing";
    CHECK(contains(said_of_file(columns), words) == column.is_of_each());
  }
}

TEST_CASE("of a column of the response a value too many is named") {
  for (const TrainColumn& column : kTrainColumns) {
    INFO(column.name);
    Columns columns = all_columns();
    columns.find(column.name)->second.back() = numbers(0, kResponse + 2);
    const std::string words = std::string(column.name) + " has 9 entries, 7 are expected";
    CHECK(contains(said_of_file(columns), words) == column.is_of_response());
  }
}

TEST_CASE("a log-probability above zero is named") {
  for (const TrainColumn& column : kTrainColumns) {
    if (!column.is_cut()) continue;
    INFO(column.name);
    Columns columns = all_columns();
    columns.find(column.name)->second.back() = numbers(1, kResponse);
    const std::string words = std::string(column.name) + " of token 0 is 1";
    CHECK(contains(said_of_file(columns), words) == (column.holds == Holds::kLogProbs));
  }
}

TEST_CASE("what two ranks of the same samples say otherwise is named") {
  for (const TrainColumn& column : kTrainColumns) {
    INFO(column.name);
    Columns columns = all_columns();
    std::string& last = columns.find(column.name)->second.back();
    last = column.is_of_response() ? numbers(0, kResponse) : number(4);
    const std::string found = column.is_cut() ? said_of_ranks(columns) : said_of_replicas(columns);
    const std::string words = std::string(column.name) + " of rank 1 differs from that of rank 0";
    CHECK(contains(found, words));
  }
}

TEST_CASE("what one of two ranks has not is named, unless an earlier stage need not have it") {
  for (const TrainColumn& column : kTrainColumns) {
    if (column.name == "tokens" || column.name == "sample_indices") continue;  // else no file
    INFO(column.name);
    const std::string words = std::string(column.name) + " is missing in 3_1.pt, and 3_0.pt has it";
    Columns columns = all_columns();
    columns.erase(std::string(column.name));
    CHECK(contains(said_of_ranks(columns), words) == (column.had_by != HadBy::kSchedule));
    for (const TrainColumn& computed : kTrainColumns) {
      if (computed.had_by == HadBy::kLastStage) columns.erase(std::string(computed.name));
    }
    const bool of_samples = column.is_by_sample() && column.alike == Alike::kAlways;
    CHECK(contains(said_of_ranks(columns), words) ==
          (of_samples || column.had_by == HadBy::kEvery));
  }
}

TEST_CASE("a name is that of one column, and what it repeats is a field") {
  for (const TrainColumn& column : kTrainColumns) {
    INFO(column.name);
    CHECK(train_column(column.name) == &column);
    CHECK(column.field.empty() == (column.repeats == Repeats::kNothing));
  }
  CHECK(train_column("another") == nullptr);
}

}  // namespace
}  // namespace rlreplay::foreign
