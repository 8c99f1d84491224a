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

template <class T>
constexpr bool is_of_all(std::optional<std::vector<T>> TrainData::*) {
  return true;
}
template <class Other>
constexpr bool is_of_all(Other) {
  return false;
}

/// The keys of a line that are columns which a step has of all of its samples or of none.
std::set<std::string_view> keys_of_all(JsonValue root) {
  std::set<std::string_view> out;
  format::for_each_train_column([&](std::string_view name, auto member, format::Axis) {
    const std::string_view key = jsonl::key_of(name);
    if (is_of_all(member) && root.find(std::string(key))) out.insert(key);
  });
  return out;
}

/// Errors: kCorrupt where the first lines of two ranks of a step do not have the same keys.
void check_ranks_alike(JsonValue root, const std::set<std::string_view>& keys,
                       const std::string& other_unit, const std::set<std::string_view>& other) {
  for (const std::string_view key : keys) {
    if (other.contains(key)) continue;
    throw root.error("'" + std::string(key) + "' is here, and the lines of " + other_unit +
                     " do not have it");
  }
  for (const std::string_view key : other) {
    if (keys.contains(key)) continue;
    throw root.error("'" + std::string(key) + "' is missing here, and the lines of " + other_unit +
                     " have it");
  }
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
  std::map<std::string, std::pair<std::string, std::set<std::string_view>>> first;  // of each step
  while (auto line = lines_.next()) {
    const JsonValue root = line->root();
    const std::string schema = schema_of(root);
    if (schema == "rlreplay.sample/1") {
      rollouts_[root["rollout_id"].integer(0, INT64_MAX)].push_back(lines_.place());
    } else if (schema == "rlreplay.train/1") {
      const std::string unit = step_path(root);
      std::vector<JsonLines::Place>& places = trains_[unit];
      if (places.empty()) {
        const std::set<std::string_view> keys = keys_of_all(root);
        const auto [step, is_first] =
            first.try_emplace(unit.substr(0, unit.rfind('/')), unit, keys);
        if (!is_first) check_ranks_alike(root, keys, step->second.first, step->second.second);
      }
      places.push_back(lines_.place());
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
