#include "src/replay/exchange/jsonl_columns.h"

#include <algorithm>
#include <set>

#include "format/columns.h"
#include "src/base/words.h"
#include "src/replay/exchange/jsonl_nested.h"

namespace rlreplay::replay::jsonl {
namespace {

using format::Axis;
using format::Column;
using format::Finish;
using format::Presence;
using format::RolloutData;
using format::Texts;
using format::TokenFloats;
using format::TrainData;

/// A name in `wide` that is none of a column of floats would leave its numbers in binary32.
void check_wide(const std::vector<Row>& rows, const std::set<std::string, std::less<>>& columns) {
  for (const Row& row : rows) {
    const auto names = row.find("wide");
    for (size_t i = 0; names && i < names->size(); ++i) {
      const std::string& name = names->at(i).string();
      if (columns.contains(name)) continue;
      const auto meant = nearest(name, std::vector<std::string>(columns.begin(), columns.end()));
      throw names->at(i).error("\"" + name + "\" is no column of floats of such a line" +
                               (meant ? ", did you mean \"" + *meant + "\"?" : ""));
    }
  }
}

bool is_wide(const std::vector<Row>& rows, std::string_view key) {
  for (const Row& row : rows) {
    const auto names = row.find("wide");
    for (size_t i = 0; names && i < names->size(); ++i) {
      if (names->at(i).string() == key) return true;
    }
  }
  return false;
}

/// Zeros that lines do not spell out, of one rollout or step.
class Zeros {
 public:
  explicit Zeros(Budget& budget) : budget_(budget) {}
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() { budget_.give_back(bytes_); }

  template <class T>
  void add(const Row& row, uint64_t count, std::vector<T>& values) {
    try {
      budget_.hold(count * sizeof(T));
      budget_.work(count);
    } catch (const Error& error) {
      throw row.root().error(error.code(), error.what());
    }
    bytes_ += count * sizeof(T);
    values.resize(values.size() + count);
  }

 private:
  Budget& budget_;
  uint64_t bytes_ = 0;
};

/// Values of the response, behind as many zeros as the prompt has tokens.
template <class T, class Read>
void add_response(const Row& row, std::string_view key, std::vector<T>& values, Zeros& zeros,
                  Read read) {
  const std::optional<JsonValue> list = row.find(key);
  const uint64_t wanted = row.length - row.prompt;
  if (list && list->size() != wanted) {
    throw list->error("it has " + std::to_string(list->size()) + " values, the response has " +
                      std::to_string(wanted) + " tokens");
  }
  zeros.add(row, list ? row.prompt : row.length, values);
  for (uint64_t i = 0; list && i < wanted; ++i) values.push_back(read(list->at(i)));
}

int32_t token_of(JsonValue value) { return static_cast<int32_t>(value.integer(0, INT32_MAX)); }

template <class T>
T number_of(JsonValue value) {
  if constexpr (std::is_same_v<T, double>) return real(value, true);
  if constexpr (std::is_same_v<T, uint64_t>) return id_of(value);
  if constexpr (std::is_same_v<T, uint32_t>) {
    return static_cast<uint32_t>(value.integer(0, UINT32_MAX));
  }
  if constexpr (std::is_same_v<T, int32_t>) return token_of(value);
}

/// 0 or 1, or false or true.
uint8_t bit_of(JsonValue v) {
  const bool refused = v.is_string() || v.is_null() || v.is_array() || v.is_object();
  return static_cast<uint8_t>(v.is_number() || refused ? v.integer(0, 1) : v.boolean());
}

uint8_t role_of(JsonValue value) {
  const auto code = static_cast<uint8_t>(value.integer(0, 255));
  if (code <= 3 || code == 255) return code;
  throw value.error("found " + std::to_string(code) +
                    ", expected 0 prompt, 1 response, 2 tool, 3 system or 255 unknown");
}

/// Fills a column of each form from the lines of one rollout or step.
class ColumnReader {
 public:
  ColumnReader(const std::vector<Row>& rows, std::string_view kind, Budget& budget)
      : rows_(rows), kind_(kind), zeros_(budget) {}

  void read(std::string_view, std::vector<int32_t>& tokens, Axis) {
    for (const Row& row : rows_) add_list(row.root()["tokens"], row.length, tokens, token_of);
  }

  template <class T>
  void read(std::string_view name, std::optional<std::vector<T>>& field, Axis axis) {
    if (!all_or_none(rows_, name)) return;
    field.emplace();
    for (const Row& row : rows_) {
      const JsonValue value = row.root()[name];
      if (axis == Axis::kSample) field->push_back(number_of<T>(value));
      if (axis != Axis::kSample) add_list(value, row.length, *field, number_of<T>);
    }
  }

  void read(std::string_view name, std::optional<std::vector<Finish>>& field, Axis) {
    if (!all_or_none(rows_, name)) return;
    field.emplace();
    for (const Row& row : rows_) field->push_back(finish_of(row.root()[name]));
  }

  template <class T>
  void read(std::string_view name, std::optional<Column<T>>& field, Axis) {
    if (!begin(name, field)) return;
    for (const Row& row : rows_) {
      const auto value = row.find(key_of(name));
      field->values.push_back(value ? number_of<T>(*value) : T());
    }
  }

  void read(std::string_view name, std::optional<Column<uint8_t>>& field, Axis axis) {
    if (!begin(name, field)) return;
    const format::KnownDataset* known = format::find_known(kind_, name);
    const auto code = known->values == format::Values::kRoles ? role_of : bit_of;
    for (const Row& row : rows_) {
      const auto value = row.find(name);
      if (axis == Axis::kSample) {
        field->values.push_back(value && value->boolean() ? 1 : 0);
      } else if (axis == Axis::kResponse) {
        add_response(row, name, field->values, zeros_, code);
      } else if (value) {
        add_list(*value, row.length, field->values, code);
      } else {
        zeros_.add(row, row.length, field->values);
      }
    }
  }

  void read(std::string_view name, std::optional<Texts>& field, Axis) {
    if (!begin(name, field)) return;
    for (const Row& row : rows_) {
      const auto value = row.find(key_of(name));
      field->add(value ? std::string_view(value->string()) : std::string_view());
    }
  }

  void read(std::string_view name, std::optional<TokenFloats>& field, Axis) {
    if (!begin(name, field)) return;
    const bool wide = is_wide(rows_, name);
    for (const Row& row : rows_) {
      if (wide) {
        add_response(row, name, field->wide, zeros_, [](JsonValue v) { return real(v, true); });
      } else {
        add_response(row, name, field->narrow, zeros_,
                     [](JsonValue v) { return static_cast<float>(real(v, false)); });
      }
    }
  }

  void read(std::string_view name, std::optional<format::NamedColumns>& field, Axis) {
    field = components(rows_, name);
  }
  void read(std::string_view, std::optional<format::Versions>& field, Axis) {
    field = versions(rows_);
  }
  void read(std::string_view, std::optional<format::Calls>& field, Axis) { field = calls(rows_); }
  void read(std::string_view, std::optional<format::Experts>& field, Axis) {
    field = experts(rows_);
  }
  void read(std::string_view, std::optional<format::TokenSets>& field, Axis) {
    field = nuclei(rows_);
  }

  /// Sees that lines hold nothing that no column took.
  void finish() const {
    for (const Row& row : rows_) check_line(row.root(), row.asked);
  }

 private:
  /// Whether any line has the column.
  template <class C>
  bool begin(std::string_view name, std::optional<C>& field) {
    std::optional<Presence> presence = presence_of(rows_, key_of(name));
    if (presence) field.emplace().presence = std::move(*presence);
    return field.has_value();
  }

  /// One value for each token of a sample.
  template <class T, class Read>
  static void add_list(JsonValue list, uint64_t length, std::vector<T>& values, Read read) {
    if (list.size() != length) {
      throw list.error("it has " + counted(list.size(), "value") + ", the sample has " +
                       counted(length, "token"));
    }
    for (size_t i = 0; i < list.size(); ++i) values.push_back(read(list.at(i)));
  }

  const std::vector<Row>& rows_;
  std::string_view kind_;
  Zeros zeros_;
};

/// Which of the columns, that `for_each` goes through, are floats.
template <class Data, class ForEach>
std::set<std::string, std::less<>> float_columns(ForEach for_each) {
  std::set<std::string, std::less<>> names;
  for_each([&](std::string_view name, auto member, Axis) {
    if (std::is_same_v<decltype(member), std::optional<TokenFloats> Data::*>) names.emplace(name);
  });
  return names;
}

std::vector<uint64_t> ids_and_offsets(const std::vector<Row>& rows,
                                      std::vector<uint64_t>& offsets) {
  std::vector<uint64_t> ids;
  for (const Row& row : rows) {
    ids.push_back(id_of(row.root()["sample_id"]));
    offsets.push_back(offsets.back() + row.length);
  }
  return ids;
}

}  // namespace

std::shared_ptr<RolloutData> make_rollout(std::vector<Row>& rows, Budget& budget) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return id_of(a.root()["sample_id"]) < id_of(b.root()["sample_id"]);
  });
  auto data = std::make_shared<RolloutData>();
  data->sample_id = ids_and_offsets(rows, data->offsets);
  for (size_t s = 0; s + 1 < rows.size(); ++s) {
    if (data->sample_id[s] != data->sample_id[s + 1]) continue;
    throw rows[s + 1].root()["sample_id"].error("another line of the rollout has the id " +
                                                std::to_string(data->sample_id[s]) + " too");
  }
  check_wide(rows,
             float_columns<RolloutData>([](auto use) { format::for_each_rollout_column(use); }));
  ColumnReader reader(rows, "rollout", budget);
  format::for_each_rollout_column([&](std::string_view name, auto member, Axis axis) {
    reader.read(name, (*data).*member, axis);
  });
  reader.finish();
  return data;
}

std::shared_ptr<TrainData> make_train(const std::vector<Row>& rows, Budget& budget) {
  auto data = std::make_shared<TrainData>();
  std::set<uint64_t> seen;
  for (const Row& row : rows) {
    const JsonValue id = row.root()["sample_id"];
    if (seen.insert(id_of(id)).second) continue;
    throw id.error("another line of the step and rank has the id " + id.dump() + " too");
  }
  data->sample_id = ids_and_offsets(rows, data->offsets);
  check_wide(rows, float_columns<TrainData>([](auto use) { format::for_each_train_column(use); }));
  ColumnReader reader(rows, "train", budget);
  format::for_each_train_column([&](std::string_view name, auto member, Axis axis) {
    reader.read(name, (*data).*member, axis);
  });
  reader.finish();
  return data;
}

}  // namespace rlreplay::replay::jsonl
