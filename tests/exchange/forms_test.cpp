// What this program recorded goes to other forms and comes back as it was.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "format/dump_writer.h"
#include "format/foreign/safetensors_file.h"
#include "src/base/error.h"
#include "src/replay/exchange/export.h"
#include "src/replay/exchange/import.h"
#include "tests/format/sample_data.h"

namespace rlreplay::replay {
namespace {

using format::DumpReader;
using format::DumpWriter;
using format::RolloutData;
using format::TrainData;
using format::test::TemporaryFolder;

/// Masks that the other forms can say: not all present, and none that says nothing.
void settle(format::Presence& presence) {
  if (presence.empty()) return;
  presence.front() = 0;
  presence.back() = 1;
}

/// Elements of samples without a value are zero.
template <class T>
void clear_absent(std::vector<T>& values, const format::Presence& presence,
                  const std::vector<uint64_t>& offsets) {
  for (size_t s = 0; s < presence.size(); ++s) {
    if (presence[s] != 0) continue;
    std::fill(values.begin() + static_cast<ptrdiff_t>(offsets[s]),
              values.begin() + static_cast<ptrdiff_t>(offsets[s + 1]), T());
  }
}

RolloutData rollout(size_t samples) {
  RolloutData data = format::test::full_rollout(samples);
  settle(data.group_id->presence);
  settle(data.label_text->presence);
  settle(data.reward_components->presence);
  settle(data.roles->presence);
  clear_absent(data.roles->values, data.roles->presence, data.offsets);
  for (size_t s = 0; s < samples; ++s) {
    if (!data.group_id->has(s)) data.group_id->values[s] = 0;
    if (!format::is_present(data.reward_components->presence, s)) {
      data.reward_components->values[2 * s] = data.reward_components->values[2 * s + 1] = 0;
    }
  }
  format::Texts labels;
  labels.presence = data.label_text->presence;
  for (size_t s = 0; s < samples; ++s) {
    labels.add(data.label_text->has(s) ? data.label_text->at(s) : "");
  }
  data.label_text = labels;
  return data;
}

TrainData train(size_t samples) {
  TrainData data = format::test::full_train(samples);
  for (const format::TokenColumnField& field : format::kTokenColumnFields) {
    format::TokenFloats& column = *(data.*field.column);
    settle(column.presence);
    clear_absent(column.narrow, column.presence, data.offsets);
  }
  data.advantages->wide.assign(data.advantages->narrow.begin(), data.advantages->narrow.end());
  data.advantages->narrow.clear();
  return data;
}

std::string write_dump(const TemporaryFolder& folder, const RolloutData& rollout,
                       const TrainData* train) {
  DumpWriter writer = DumpWriter::create(folder / "dump", R"({"ranks":1})");
  writer.append("rollout/4.h5", to_datasets(std::make_shared<const RolloutData>(rollout), "4"));
  if (train != nullptr) {
    writer.append("train/4-1/rank0.h5",
                  to_datasets(std::make_shared<const TrainData>(*train), "4-1"));
  }
  writer.seal();
  return folder / "dump";
}

std::string through(const TemporaryFolder& folder, const std::string& dump, const std::string& to,
                    const std::string& name) {
  ExportOptions out;
  out.dump = dump;
  out.to = to;
  out.output = folder / name;
  const std::vector<std::string> files = export_dump(out).files;
  ImportOptions in;
  in.paths = {out.output};
  in.output = folder / "again";
  import_dump(in);
  return folder / "again";
}

Hash content(const std::string& dump, const std::string& unit) {
  const DumpReader reader = DumpReader::open(dump);
  REQUIRE(reader.find(unit) != nullptr);
  return reader.find(unit)->content;
}

TEST_CASE("every field goes through JSON lines") {
  const TemporaryFolder folder;
  RolloutData data = rollout(7);
  data.log_probs->narrow[3] = std::numeric_limits<float>::infinity();
  data.log_probs->narrow[4] = -0.0f;
  data.log_probs->narrow[5] = std::numeric_limits<float>::denorm_min();
  data.log_probs->narrow[6] = 8.589973e9f;
  data.rewards->values[1] = std::nan("");
  const TrainData step = train(9);
  const std::string dump = write_dump(folder, data, &step);
  const std::string again = through(folder, dump, "jsonl", "lines.jsonl");
  CHECK(content(again, "rollout/4.h5") == content(dump, "rollout/4.h5"));
  CHECK(content(again, "train/4-1/rank0.h5") == content(dump, "train/4-1/rank0.h5"));
}

TEST_CASE("every field of a rollout goes through a file of slime") {
  for (const char* name : {"folder", "one.pt"}) {
    const TemporaryFolder folder;
    const std::string dump = write_dump(folder, rollout(7), nullptr);
    const std::string again = through(folder, dump, "slime", name);
    CHECK(content(again, "rollout/4.h5") == content(dump, "rollout/4.h5"));
  }
}

TEST_CASE("safetensors hold every dataset") {
  const TemporaryFolder folder;
  const RolloutData data = rollout(5);
  const TrainData step = train(5);
  ExportOptions options;
  options.dump = write_dump(folder, data, &step);
  options.to = "safetensors";
  options.output = folder / "all.safetensors";
  export_dump(options);
  const foreign::SafetensorsFile file(options.output);
  const foreign::StoredTensor* tokens = file.find("rollout/4/tokens");
  REQUIRE(tokens != nullptr);
  CHECK(tokens->count() == static_cast<int64_t>(data.tokens.size()));
  CHECK(std::equal(data.tokens.begin(), data.tokens.end(),
                   reinterpret_cast<const int32_t*>(tokens->data.data())));
  CHECK(file.find("train/4-1/rank0/scalars") != nullptr);
}

TEST_CASE("an export replaces nothing without being told to") {
  const TemporaryFolder folder;
  ExportOptions options;
  options.dump = write_dump(folder, rollout(3), nullptr);
  options.to = "jsonl";
  options.output = folder / "out.jsonl";
  format::test::write_text(options.output, "mine");
  CHECK_THROWS_AS(export_dump(options), Error);
  CHECK(format::test::read_text(options.output) == "mine");
  options.force = true;
  export_dump(options);
  CHECK(format::test::read_text(options.output) != "mine");
  options.to = "miles";
  options.output = folder / "nothing";
  options.dump = folder / "nowhere";
  CHECK_THROWS_AS(export_dump(options), Error);
}

TEST_CASE("lines that make no sense are refused with their place") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    format::test::write_text(folder / "lines.jsonl", text);
    ImportOptions in;
    in.paths = {folder / "lines.jsonl"};
    in.output = folder / "dump";
    try {
      import_dump(in);
    } catch (const Error& error) {
      return error.where();
    }
    return std::string("accepted");
  };
  const std::string head = R"({"schema":"rlreplay.sample/1","rollout_id":0,)";
  const std::string good = head + R"("sample_id":1,"tokens":[1,2,3],"prompt_length":1})" + "\n";
  CHECK(refused(head + R"("sample_id":1})").find("lines.jsonl:1") != std::string::npos);
  CHECK(refused(good + head + R"("sample_id":1,"tokens":[1],"prompt_length":1})")
            .find("lines.jsonl:2") != std::string::npos);
  CHECK(refused(good + head + R"("sample_id":2,"tokens":[1]})").find(":2") != std::string::npos);
  CHECK(refused(head + R"("sample_id":1,"tokens":[-1]})").find(":1") != std::string::npos);
  CHECK(refused(head + R"("sample_id":1,"tokens":[1,2],"log_probs":[0]})").find(":1") !=
        std::string::npos);
  CHECK(refused(head + R"("sample_id":1,"tokens":[1],"prompt_length":2})").find(":1") !=
        std::string::npos);
  CHECK(refused(R"({"schema":"other/1"})").find(":1") != std::string::npos);
  CHECK(refused(good) == "accepted");
}

}  // namespace
}  // namespace rlreplay::replay
