#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/boxes.h"
#include "format/dump_writer.h"
#include "src/base/dtype.h"

/// The content of the golden dumps, one of which is kept for every released minor version of the
/// format. It must never change; what a later version adds goes into a content of its own. To make
/// the dump of a new version: RLREPLAY_RECORD=1 format_golden_dump_test
namespace rlreplay::format::test {

inline constexpr char kGoldenMeta[] =
    R"({"config":{"lr":"0.001"},"contract":"0.9","ranks":2,"seed":"20260101"})";

/// A number for each index, the same everywhere.
inline uint64_t golden_bits(uint64_t seed, uint64_t index) {
  const uint64_t z = (seed * 0x9e3779b97f4a7c15ull + index) * 0xbf58476d1ce4e5b9ull;
  return (z ^ (z >> 29)) >> 7;
}

template <class T>
std::vector<T> golden_integers(uint64_t seed, uint64_t count, uint64_t below) {
  std::vector<T> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<T>(golden_bits(seed, i) % below);
  return values;
}

/// Multiples of 1/64 in [-8, 0]: exact in every float.
template <class T>
std::vector<T> golden_floats(uint64_t seed, uint64_t count) {
  std::vector<T> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<int64_t>(golden_bits(seed, i) % 513) - 512) / 64;
  }
  return values;
}

using GoldenUnit = std::pair<std::string, std::vector<Dataset>>;

/// In what the content of one version differs from the others'.
struct GoldenVersion {
  /// Tokens of the prompts of samples 5, 6 and 9, whose masks and floats are 0: 0.1 wrote some.
  uint64_t prompts[3];
  bool policy_terms;  // policy_kl and policy_loss: since 0.9
  bool one_norm;      // of both ranks, as SPEC.md asks since 0.9
  bool parts;         // coordinates, boxes and slices: since 0.9
  bool writers;       // a writer for each rank: since 1.0
};

inline GoldenVersion golden_version(const std::string& name) {
  if (name == "0.1") return {{0, 0, 0}, false, false, false, false};
  return {{20, 20, 30}, true, true, true, name != "0.9"};
}

/// Values of tokens, those of prompts set to 0.
template <class T>
std::vector<T> responses(std::vector<T> values, const std::vector<uint64_t>& offsets,
                         const std::vector<uint64_t>& prompts) {
  for (size_t s = 0; s < prompts.size(); ++s) {
    std::fill_n(values.begin() + static_cast<ptrdiff_t>(offsets[s]), prompts[s], T{});
  }
  return values;
}

/// Three samples of 200, 300 and 400 tokens.
inline const std::vector<uint64_t> kGoldenOffsets = {0, 200, 500, 900};

inline GoldenUnit golden_rollout(const GoldenVersion& version) {
  using std::vector;
  const vector<uint64_t> prompts(std::begin(version.prompts), std::end(version.prompts));
  const auto text = [](const std::string& bytes) {
    return vector<uint8_t>(bytes.begin(), bytes.end());
  };
  vector<Dataset> all;
  all.push_back(dataset_of("0/sample_id", DType::kU64, {3}, vector<uint64_t>{5, 6, 9}));
  all.push_back(dataset_of("0/group_id", DType::kU64, {3}, vector<uint64_t>{1, 1, 2}));
  all.push_back(dataset_of("0/offsets", DType::kU64, {4}, kGoldenOffsets));
  all.push_back(dataset_of("0/prompt_length", DType::kU32, {3}, vector<uint32_t>{20, 20, 30}));
  all.push_back(
      dataset_of("0/tokens", DType::kI32, {900}, golden_integers<int32_t>(1, 900, 50'000)));
  all.push_back(dataset_of("0/log_probs", DType::kF32, {900},
                           responses(golden_floats<float>(2, 900), kGoldenOffsets, prompts)));
  all.push_back(
      dataset_of("0/loss_mask", DType::kU8, {900},
                 responses(golden_integers<uint8_t>(3, 900, 2), kGoldenOffsets, prompts)));
  all.push_back(dataset_of("0/rewards", DType::kF64, {3}, vector<double>{1, 0.25, 0}));
  all.push_back(dataset_of("0/rewards_present", DType::kU8, {3}, vector<uint8_t>{1, 1, 0}));
  all.push_back(
      dataset_of("0/reward_components", DType::kF64, {3, 2}, golden_floats<double>(4, 6)));
  all.back().attributes["columns"] = std::string("exact\nformat");
  all.push_back(dataset_of("0/finish", DType::kU8, {3}, vector<uint8_t>{0, 1, 255}));
  all.push_back(dataset_of("0/version_offsets", DType::kU64, {4}, vector<uint64_t>{0, 1, 3, 4}));
  all.push_back(dataset_of("0/versions", DType::kI64, {4}, vector<int64_t>{7, 7, 8, 8}));
  all.push_back(dataset_of("0/version_starts", DType::kU32, {4}, vector<uint32_t>{0, 0, 90, 0}));
  all.push_back(dataset_of("0/prompt_text", DType::kU8, {13}, text("2+2=3+3=\u00e9\u20ac")));
  all.push_back(
      dataset_of("0/prompt_text_offsets", DType::kU64, {4}, vector<uint64_t>{0, 4, 8, 13}));
  all.push_back(
      dataset_of("0/experts", DType::kU8, {900, 1, 2}, golden_integers<uint8_t>(5, 1800, 16)));
  if (!version.parts) return {"rollout/0.h5", std::move(all)};
  // Sample 5 was written in one call, 6 in two with a tool's answer between, 9 by nobody knows
  // whom.
  vector<uint8_t> roles(900, 1);
  constexpr std::array<std::array<uint64_t, 3>, 4> kWritten = {
      {{0, 20, 0}, {200, 5, 3}, {205, 15, 0}, {300, 40, 2}}};
  for (const auto& [begin, count, role] : kWritten) {
    std::fill_n(roles.begin() + static_cast<ptrdiff_t>(begin), count, static_cast<uint8_t>(role));
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  all.push_back(dataset_of("0/roles", DType::kU8, {900}, roles));
  all.push_back(dataset_of("0/roles_present", DType::kU8, {3}, vector<uint8_t>{1, 1, 1}));
  all.push_back(dataset_of("0/call_offsets", DType::kU64, {4}, vector<uint64_t>{0, 1, 3, 3}));
  all.push_back(dataset_of("0/call_first", DType::kU32, {3}, vector<uint32_t>{20, 20, 140}));
  all.push_back(dataset_of("0/call_length", DType::kU32, {3}, vector<uint32_t>{180, 80, 160}));
  all.push_back(dataset_of("0/call_finish", DType::kU8, {3}, vector<uint8_t>{1, 0, 255}));
  all.push_back(dataset_of("0/call_truncated", DType::kU8, {3}, vector<uint8_t>{0, 1, 255}));
  all.push_back(dataset_of("0/call_version", DType::kI64, {3}, vector<int64_t>{7, 7, 8}));
  all.push_back(dataset_of("0/call_seed", DType::kI64, {3}, vector<int64_t>{1, INT64_MAX, -3}));
  all.push_back(dataset_of("0/call_numbers", DType::kF64, {3, 3},
                           vector<double>{1, 0.95, nan, 0.5, 1, 0.25, 0.5, 1, 1.5}));
  all.back().attributes["columns"] = std::string("temperature\ntop_p\nlatency");
  return {"rollout/0.h5", std::move(all)};
}

inline GoldenUnit golden_train(uint64_t rank, const GoldenVersion& version) {
  using std::vector;
  const uint64_t tokens = rank == 0 ? 500 : 400, seed = 10 * (rank + 1);
  vector<uint64_t> samples = {9}, offsets = {0, 400}, prompts = {version.prompts[2]};
  if (rank == 0) {
    samples = {6, 5};
    offsets = {0, 300, 500};
    prompts = {version.prompts[1], version.prompts[0]};
  }
  vector<Dataset> all;
  const auto floats = [&](const std::string& name, uint64_t more) {
    all.push_back(
        dataset_of("0-0/" + name, DType::kF32, {tokens},
                   responses(golden_floats<float>(seed + more, tokens), offsets, prompts)));
  };
  all.push_back(dataset_of("0-0/sample_id", DType::kU64, {samples.size()}, samples));
  all.push_back(dataset_of("0-0/offsets", DType::kU64, {offsets.size()}, offsets));
  floats("log_probs", 0);
  if (version.policy_terms) {
    floats("policy_kl", 5);
    floats("policy_loss", 6);
  }
  all.push_back(dataset_of("0-0/advantages", DType::kF64, {tokens},
                           responses(golden_floats<double>(seed + 1, tokens), offsets, prompts)));
  all.push_back(
      dataset_of("0-0/loss_mask", DType::kU8, {tokens},
                 responses(golden_integers<uint8_t>(seed + 2, tokens, 2), offsets, prompts)));
  vector<double> scalars = golden_floats<double>(seed + 3, 2);
  if (version.one_norm) scalars[1] = 4.75;  // of both ranks
  all.push_back(dataset_of("0-0/scalars", DType::kF64, {2}, scalars));
  all.back().attributes["columns"] = std::string("loss\ngrad_norm");
  const std::string tensors = "forward/0/q_proj/y f32 2,4\nbackward/-/loss/dx f32 -\n";
  all.push_back(dataset_of("0-0/events/tensors", DType::kU8, {tensors.size()},
                           vector<uint8_t>(tensors.begin(), tensors.end())));
  all.push_back(dataset_of("0-0/events/rank", DType::kU32, {2}, vector<uint32_t>{0, 0}));
  all.push_back(dataset_of("0-0/events/rows", DType::kU64, {2}, vector<uint64_t>{2, 1}));
  all.push_back(dataset_of("0-0/events/digest", DType::kU8, {2, 16},
                           golden_integers<uint8_t>(seed + 4, 32, 256)));
  return {"train/0-0/rank" + std::to_string(rank) + ".h5", std::move(all)};
}

/// Of two ranks that hold the same samples in slices, as context parallelism cuts them.
inline Dataset golden_coordinates(const std::string& group, uint32_t rank) {
  return dataset_of(group + "/coordinates", DType::kU32, {5, 2},
                    std::vector<uint32_t>{0, 1, rank, 2, 0, 1, rank, 2, 0, 1});
}

/// Of a table that is not docs/events.md's: a tensor of two tokens, one that is computed from it,
/// of three dimensions, and a scalar that is computed from both.
inline std::vector<Dataset> golden_events(const std::string& group, uint32_t rank) {
  using std::vector;
  const auto name = [&](const char* of) { return group + "/events/" + of; };
  const std::string tensors =
      "model.layers.0.mlp bf16 2,2\nmodel.layers.0.router f8e4m3 2,1,3\nloss/unreduced f64 -\n";
  vector<Dataset> all;
  all.push_back(dataset_of(name("tensors"), DType::kU8, {tensors.size()},
                           vector<uint8_t>(tensors.begin(), tensors.end())));
  all.push_back(dataset_of(name("rank"), DType::kU32, {3}, vector<uint32_t>(3, rank)));
  all.push_back(dataset_of(name("rows"), DType::kU64, {3}, vector<uint64_t>{2, 2, 1}));
  all.push_back(dataset_of(name("digest"), DType::kU8, {3, 16},
                           golden_integers<uint8_t>(70 + rank, 48, 256)));
  all.push_back(dataset_of(name("row_set"), DType::kI32, {3}, vector<int32_t>{0, -1, -1}));
  all.push_back(dataset_of(name("row_set_offsets"), DType::kU64, {2}, vector<uint64_t>{0, 1}));
  all.push_back(dataset_of(name("run_sample"), DType::kU64, {1}, vector<uint64_t>{5}));
  all.push_back(dataset_of(name("run_position"), DType::kU64, {1}, vector<uint64_t>{150}));
  all.push_back(dataset_of(name("run_count"), DType::kU64, {1}, vector<uint64_t>{2}));
  all.push_back(dataset_of(name("value_start"), DType::kU64, {3}, vector<uint64_t>{0, 0, 0}));
  all.push_back(dataset_of(name("value_count"), DType::kU64, {3}, vector<uint64_t>{8, 6, 1}));
  all.push_back(
      dataset_of(name("values_bf16"), DType::kBF16, {8}, golden_integers<uint16_t>(71, 8, 0x4000)));
  all.push_back(dataset_of(name("values_f8e4m3"), DType::kF8E4M3, {6},
                           golden_integers<uint8_t>(72, 6, 0x70)));
  all.push_back(dataset_of(name("values_f64"), DType::kF64, {1}, vector<double>{0.375}));
  all.push_back(dataset_of(name("parent_offsets"), DType::kU64, {4}, vector<uint64_t>{0, 0, 1, 3}));
  all.push_back(dataset_of(name("parents"), DType::kU64, {3}, vector<uint64_t>{0, 0, 1}));
  return all;
}

/// Samples 5 and 6 in slices: the first and the last quarter on one rank, the middle on the other,
/// which holds the last token of the first quarter too.
inline GoldenUnit golden_slices(uint32_t rank) {
  using std::vector;
  const vector<float> log_probs = golden_floats<float>(50, 500);
  const vector<uint64_t> slices = rank == 0 ? vector<uint64_t>{0, 50, 150, 50, 0, 75, 225, 75}
                                            : vector<uint64_t>{49, 101, 75, 150};
  const vector<uint64_t> of = rank == 0 ? vector<uint64_t>{0, 2, 4} : vector<uint64_t>{0, 1, 2};
  vector<uint64_t> offsets = {0};
  vector<float> stored;
  for (uint64_t s = 0; s < 2; ++s) {
    for (uint64_t i = of[s]; i < of[s + 1]; ++i) {
      for (uint64_t t = slices[2 * i]; t < slices[2 * i] + slices[2 * i + 1]; ++t) {
        stored.push_back(t < 20 ? 0.0f : log_probs[200 * s + t]);
      }
    }
    offsets.push_back(stored.size());
  }
  vector<Dataset> all;
  all.push_back(golden_coordinates("0-1", rank));
  all.push_back(dataset_of("0-1/sample_id", DType::kU64, {2}, vector<uint64_t>{5, 6}));
  all.push_back(dataset_of("0-1/offsets", DType::kU64, {3}, offsets));
  all.push_back(dataset_of("0-1/slice_offsets", DType::kU64, {3}, of));
  all.push_back(dataset_of("0-1/slices", DType::kU64, {slices.size() / 2, 2}, slices));
  all.push_back(dataset_of("0-1/lengths", DType::kU64, {2}, vector<uint64_t>{200, 300}));
  all.push_back(dataset_of("0-1/log_probs", DType::kF32, {stored.size()}, stored));
  for (Dataset& d : golden_events("0-1", rank)) all.push_back(std::move(d));
  return {"train/0-1/rank" + std::to_string(rank) + ".h5", std::move(all)};
}

/// Two projections that are fused and cut, with padding: rows of both in one dataset.
inline Dataset golden_boxes(const std::string& group, uint64_t rank) {
  Dataset d = dataset_of(group + "/fused/kv", DType::kF32, {26}, golden_floats<float>(60, 26));
  const uint64_t rows = rank == 0 ? 2 : 1;  // of k; of v the last rank has two
  const std::vector<Box> boxes = {{"parameters/k", {{2 * rank, rows, 3}, {0, 4, 4}}},
                                  {"parameters/v", {{rank, 3 - rows, 3}, {0, 4, 4}}},
                                  {"", {{0, 7, 7}, {0, 2, 2}}}};
  set_boxes(d.attributes, boxes);
  return d;
}

/// A tensor before two steps; the second is stored as a difference to the first.
inline std::array<GoldenUnit, 2> golden_weights(uint64_t rank, const GoldenVersion& version) {
  const std::vector<uint16_t> before = golden_integers<uint16_t>(30 + rank, 1500, 65'536);
  std::vector<uint16_t> after = before;
  for (size_t i = 0; i < after.size(); i += 37) after[i] ^= 3;
  const auto tensor = [&](const std::string& group, std::vector<uint16_t> values) {
    Dataset d = dataset_of(group + "/parameters/w%2Fq", DType::kBF16, {30, 50}, std::move(values));
    if (version.parts) {
      const Box box{"parameters/w%2Fq", {{30 - 30 * rank, 30, 60}, {0, 50, 50}}};
      set_boxes(d.attributes, {&box, 1});
      return d;
    }
    d.attributes["full_shape"] = std::vector<uint64_t>{60, 50};
    d.attributes["start"] = std::vector<uint64_t>{30, 0};
    return d;
  };
  const Dataset first = tensor("0-0", before);
  Dataset second = tensor("1-0", after);
  const std::string name = "/rank" + std::to_string(rank) + ".h5";
  second.base = Base{"weights/0-0" + name, hash_of(first.bytes)};
  second.base_bytes = first.bytes;
  second.base_owner = first.owner;
  std::array<GoldenUnit, 2> out = {GoldenUnit{"weights/0-0" + name, {first}},
                                   {"weights/1-0" + name, {second}}};
  if (version.parts) {
    out[0].second.push_back(golden_coordinates("0-0", static_cast<uint32_t>(rank)));
    out[0].second.push_back(golden_boxes("0-0", rank));
  }
  return out;
}

/// Every dtype, small and in chunks, and an empty tensor, as an extension.
inline GoldenUnit golden_dtypes() {
  std::vector<Dataset> all;
  const auto add = [&](DType dtype, uint64_t count) {
    const uint64_t below = dtype == DType::kBool ? 2 : 256;
    all.push_back(dataset_of("0/" + std::string(to_string(dtype)) + "-" + std::to_string(count),
                             dtype, {count},
                             golden_integers<uint8_t>(40 + count, count * size_of(dtype), below)));
  };
  add(DType::kF32, 0);
  for (const DType dtype : kAllDTypes) {
    add(dtype, 5);
    add(dtype, 1100 / size_of(dtype));
  }
  return {"x-golden/dtypes.h5", std::move(all)};
}

/// All units, in the order in which they are appended.
inline std::vector<GoldenUnit> golden_units(const std::string& name) {
  const GoldenVersion version = golden_version(name);
  std::vector<GoldenUnit> units = {golden_rollout(version), golden_train(0, version),
                                   golden_train(1, version), golden_dtypes()};
  for (uint64_t rank = 0; rank < (version.parts ? 2 : 1); ++rank) {
    for (GoldenUnit& unit : golden_weights(rank, version)) units.push_back(std::move(unit));
    if (version.parts) units.push_back(golden_slices(static_cast<uint32_t>(rank)));
  }
  return units;
}

/// Writes a version's content as a sealed dump and returns its root.
inline Hash write_golden_dump(const std::string& path, const std::string& version) {
  DumpWriter writer = DumpWriter::create(path, kGoldenMeta);
  std::optional<DumpWriter> second;
  if (golden_version(version).writers) {
    WriterOptions options;
    options.writer = "rank-1";
    second.emplace(DumpWriter::join(path, options));
  }
  for (const GoldenUnit& unit : golden_units(version)) {
    const bool of_second = second && rank_of(unit.first) == 1;
    (of_second ? *second : writer).append(unit.first, unit.second);
  }
  if (second) second->end();
  return writer.seal({.complete = true, .unstable = R"({"host":"golden"})", .derived_from = {}});
}

}  // namespace rlreplay::format::test
