#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/chain_reader.h"
#include "format/dump_reader.h"
#include "format/logical_group.h"
#include "src/base/parameters.h"

/// Weights, moments and counters before a step, out of a dump.
namespace rlreplay::replay {

/// The three tensors that a step changes of each parameter, and where a group has them.
struct StateTensor {
  std::string_view folder;
  std::span<const float> StateSpans<const float>::*read;
  std::span<float> StateSpans<float>::*write;
};
[[nodiscard]] std::span<const StateTensor> state_tensors();

/// "exp_avg/model.norm.weight", in the group of the step.
[[nodiscard]] std::string state_name(const StateTensor& tensor, const Parameter& parameter);

/// The dataset of the group that counts the optimizer's steps.
inline constexpr std::string_view kStateCounters = "scalars";

/// The parameter's part of the flat storage.
template <class T>
[[nodiscard]] std::span<T> values_of(std::span<T> all, const Parameter& p) {
  return all.subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size()));
}

/// How many steps the optimizer had counted. Errors: kIncomplete where no unit says it, kCorrupt
/// where two say it differently.
[[nodiscard]] int64_t read_steps(const format::DumpReader& dump, const std::string& group);

/// Reads states into one place, one after another; of consecutive ones only what differs.
class StateReader {
 public:
  /// `to` may lack moments: a model that only scores has none.
  StateReader(const format::DumpReader& dump, const ParameterTable& parameters,
              const StateSpans<float>& to);

  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;

  /// Whichever units hold the group, and whichever parts of it, as f32 or as f64 of the same
  /// numbers. Errors: kIncomplete where there is no state, or a parameter is missing, kCorrupt for
  /// one of another form or with a number that is no binary32; FormatError, kMeaning where two
  /// units hold different numbers.
  void read(const std::string& group);

 private:
  using Records = std::vector<const format::UnitRecord*>;
  /// Elements as a unit stores them.
  struct Stored {
    DType dtype = DType::kF32;
    Hash hash;
    friend bool operator==(const Stored&, const Stored&) = default;
  };
  /// Tensors that units hold whole, as the first of them does, and those of them that are not in
  /// their place: f64, or another unit holds them with other bytes.
  struct Found {
    std::map<std::string, Stored, std::less<>> plain;
    std::set<std::string> others;
  };

  [[nodiscard]] std::span<std::byte> place_of(const format::StoredDataset& dataset) const;
  /// Whether a dataset is wanted, and a whole tensor. Errors: kCorrupt for one of another form.
  [[nodiscard]] bool is_whole(const format::StoredDataset& dataset, const std::string& unit) const;
  void read_unit(const format::UnitReader& unit, const std::string& group);
  void put_together(format::LogicalGroup& logical, const Records& records, const std::string& group,
                    const std::string& name, std::span<std::byte> place);

  const format::DumpReader& dump_;
  std::map<std::string, std::span<std::byte>, std::less<>> places_;  // by name in the group
  Found found_;                                                      // of the group that is read
  format::ChainReader chain_;
};

/// The weights alone. Errors: those of StateReader.
void read_weights(const format::DumpReader& dump, const std::string& group,
                  const ParameterTable& parameters, std::span<float> weights);

}  // namespace rlreplay::replay
