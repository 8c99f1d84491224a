#include <filesystem>

#include "src/replay/exchange/jsonl.h"
#include "src/replay/exchange/jsonl_columns.h"
#include "src/replay/exchange/jsonl_row.h"

namespace rlreplay::replay {
namespace {

using format::RolloutData;
using format::TrainData;
using jsonl::Row;

std::string step_path(JsonValue root) {
  constexpr int64_t kMostRank = (1 << 20) - 1;  // a dump has at most 1048576 ranks
  const auto number = [&](const char* key, int64_t most = INT64_MAX) {
    return std::to_string(root[key].integer(0, most));
  };
  return "train/" + number("rollout_id") + "-" + number("step_id") + "/rank" +
         number("rank", kMostRank) + ".h5";
}

format::NamedColumns scalars(JsonValue root) {
  format::NamedColumns made;
  const JsonValue object = root["scalars"];
  jsonl::check_line(root, {"scalars"});
  made.names = jsonl::names_of(root, object);
  for (const std::string& name : made.names) made.values.push_back(jsonl::real(object[name], true));
  return made;
}

std::vector<Row> read_rows(JsonLines& lines, const std::vector<JsonLines::Place>& places) {
  std::vector<Row> rows;
  for (const JsonLines::Place& place : places) rows.push_back(jsonl::make_row(lines.at(place)));
  return rows;
}

/// What a line is. Errors: kUnsupported for one that is not ours, named where it is known.
std::string schema_of(JsonValue root) {
  if (const auto schema = root.find("schema")) return schema->string();
  if (root.find("input") && root.find("output")) {
    throw root.error(ErrorCode::kUnsupported,
                     "this is verl's rollout data: decoded text, without token ids and "
                     "log-probabilities, of which nothing can be replayed or compared");
  }
  throw root.error(ErrorCode::kUnsupported,
                   "the line has no \"schema\": rlreplay import --help says what lines are read");
}

/// Samples made from more than their tokens.
void add_inputs(const std::vector<Row>& rows, std::map<int64_t, std::set<uint64_t>>& to) {
  for (const Row& row : rows) {
    const auto others = row.find("other_inputs");
    if (!others || !others->boolean()) continue;
    to[row.root()["rollout_id"].integer(0, INT64_MAX)].insert(
        jsonl::id_of(row.root()["sample_id"]));
  }
}

template <class Map>
auto keys(const Map& map) {
  std::vector<typename Map::key_type> out;
  for (const auto& [key, value] : map) out.push_back(key);
  return out;
}

}  // namespace

JsonlFile::JsonlFile(const std::string& path)
    : lines_(path, JsonLines::kMaxLine, /*unique_keys=*/true),
      budget_(std::filesystem::file_size(path)) {
  while (auto line = lines_.next()) {
    const JsonValue root = line->root();
    const std::string schema = schema_of(root);
    if (schema == "rlreplay.sample/1") {
      rollouts_[root["rollout_id"].integer(0, INT64_MAX)].push_back(lines_.place());
    } else if (schema == "rlreplay.train/1") {
      trains_[step_path(root)].push_back(lines_.place());
    } else if (schema == "rlreplay.step/1") {
      const std::string unit = step_path(root);
      if (!scalars_.emplace(unit, scalars(root)).second) {
        throw root["scalars"].error("another line has the numbers of " + unit +
                                    " already: write them as one object");
      }
      trains_[unit];
    } else {
      throw root["schema"].error(ErrorCode::kUnsupported,
                                 "expected rlreplay.sample/1, rlreplay.train/1 or rlreplay.step/1");
    }
  }
  if (rollouts_.empty() && trains_.empty()) {
    throw Error(ErrorCode::kIncomplete,
                "the file holds no samples: expected a line of JSON for each", path);
  }
}

std::vector<int64_t> JsonlFile::rollouts() const { return keys(rollouts_); }

std::vector<std::string> JsonlFile::steps() const { return keys(trains_); }

std::shared_ptr<RolloutData> JsonlFile::rollout(int64_t id) {
  std::vector<Row> rows = read_rows(lines_, rollouts_.at(id));
  add_inputs(rows, with_inputs_);
  return jsonl::make_rollout(rows, budget_);
}

std::shared_ptr<TrainData> JsonlFile::step(const std::string& unit) {
  const std::vector<Row> rows = read_rows(lines_, trains_.at(unit));
  add_inputs(rows, with_inputs_);
  auto data = rows.empty() ? std::make_shared<TrainData>() : jsonl::make_train(rows, budget_);
  if (const auto at = scalars_.find(unit); at != scalars_.end() && !at->second.names.empty())
    data->scalars = at->second;
  return data;
}

}  // namespace rlreplay::replay
