#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "format/rollout_data.h"
#include "format/train_data.h"

namespace rlreplay::replay {

/// A sample's values of one field.
struct FieldValues {
  using List =
      std::variant<std::span<const int32_t>, std::span<const int64_t>, std::span<const uint8_t>,
                   std::span<const uint16_t>, std::span<const uint32_t>, std::span<const uint64_t>,
                   std::span<const float>, std::span<const double>, std::string_view>;
  List values;
  /// The place in the whole sample of the first value, of fields with a value a token.
  std::optional<uint64_t> token = std::nullopt;
  /// The names of the columns in the order of the values, of rows of named columns; else null.
  const std::vector<std::string>* columns = nullptr;
};

/// Elements of a dataset as a comparison takes them; nothing for types that are held as bits.
[[nodiscard]] std::optional<FieldValues> values_of(DType dtype, std::span<const std::byte> bytes);

/// Rollouts and training data under one form: samples by id, fields by name, in the order in which
/// a step computes them. Views the data that it is made of.
class SampleTable {
 public:
  struct Field {
    std::string name;
    std::function<std::optional<FieldValues>(size_t row)> values;
    /// What stands for values that were not recorded, where the other fields say it; else empty.
    std::function<std::optional<FieldValues>(size_t row)> implied;
  };

  static SampleTable of(const format::RolloutData& data);
  /// All units of a rollout together.
  static SampleTable of(std::span<const format::RolloutData> parts);
  /// All ranks of a step together: of a sample that several hold, each field is that of the first
  /// which has it.
  static SampleTable of(std::span<const format::TrainData> ranks);

  /// Row by id.
  const std::map<uint64_t, size_t>& rows() const { return rows_; }
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::map<uint64_t, size_t> rows_;
  std::vector<Field> fields_;
};

}  // namespace rlreplay::replay
