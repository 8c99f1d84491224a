#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "format/chain_reader.h"
#include "format/dataset.h"
#include "format/dump_reader.h"
#include "src/engine/backend.h"

/// Weights, moments and counters before a step, into a dump and back.
namespace rlreplay::replay {

/// As datasets of the group, which own their values.
std::vector<format::Dataset> state_datasets(engine::Backend& backend, const std::string& group);

/// Of the states that a run keeps, one in so many is stored in full. More would be read for each
/// state that a replay begins with, fewer take more space (docs/measurements.md).
inline constexpr int64_t kFullStateEvery = 8;

/// Makes each state the difference to the one before it.
class StateChain {
 public:
  /// `number`: which of the states that the run keeps this is, so that the same ones are full after
  /// a capture was resumed.
  void link(const std::string& unit, int64_t number, std::vector<format::Dataset>& state);

 private:
  std::string unit_;
  std::vector<format::Dataset> last_;
};

/// How many steps the optimizer had counted.
int64_t read_steps(const format::DumpReader& dump, const format::UnitReader& unit,
                   const std::string& group);

/// The unit that holds the state before a step. Errors: kIncomplete where there is none.
format::UnitReader open_state(const format::DumpReader& dump, const std::string& group);

/// Reads states into one place, one after another; of consecutive ones only what differs.
class StateReader {
 public:
  /// `to` may lack moments: a model that only scores has none.
  StateReader(const format::DumpReader& dump, const engine::ParameterTable& parameters,
              const engine::StateSpans<float>& to);

  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;

  /// Errors: kIncomplete for a parameter that is missing, kCorrupt for one of another shape;
  /// FormatError.
  void read(const format::UnitReader& unit, const std::string& group);

 private:
  std::span<std::byte> place_of(const format::StoredDataset& dataset) const;

  std::map<std::string, std::span<std::byte>> places_;  // by name in the group
  format::ChainReader chain_;
};

/// Errors: those of open_state and StateReader.
void read_state(const format::DumpReader& dump, const std::string& group, engine::Backend& backend);
/// The weights alone.
void read_weights(const format::DumpReader& dump, const std::string& group,
                  const engine::ParameterTable& parameters, std::span<float> weights);

}  // namespace rlreplay::replay
