#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "format/dump_files.h"
#include "format/dump_writer.h"
#include "format/verify.h"
#include "tests/format/support.h"

/// A small run that every test of dumps records: its content depends on the step number alone.
namespace rlreplay::format::test {

inline constexpr char kMeta[] = R"({"ranks": 2, "model": {"hidden": 48}, "lr": "0.001"})";

inline std::string unit_path(uint64_t unit) {
  const std::string step = std::to_string(unit / 3);
  if (unit % 3 == 0) return "rollout/" + step + ".h5";
  return "train/" + step + "-0/rank" + std::to_string(unit % 3 - 1) + ".h5";
}

/// Units 0, 3, 6... are rollouts, the others the two ranks' train units.
inline std::vector<Dataset> unit_datasets(uint64_t unit) {
  Random random(unit);
  const uint64_t samples = 3, tokens = 400 + random.below(400);
  const std::string group = std::to_string(unit / 3) + (unit % 3 == 0 ? "/" : "-0/");
  std::vector<uint64_t> ids, offsets = {0};
  for (uint64_t s = 0; s < samples; ++s) {
    ids.push_back(unit * 100 + s);
    offsets.push_back(s + 1 == samples ? tokens : offsets.back() + random.below(tokens / 4));
  }
  std::vector<uint8_t> mask(tokens);
  for (uint8_t& m : mask) m = static_cast<uint8_t>(random.below(2));
  std::vector<Dataset> all;
  all.push_back(dataset_of(group + "sample_id", DType::kU64, {samples}, ids));
  all.push_back(dataset_of(group + "offsets", DType::kU64, {samples + 1}, offsets));
  all.push_back(dataset_of(group + "loss_mask", DType::kU8, {tokens}, mask));
  all.push_back(dataset(group + "log_probs", DType::kF32, {tokens}, random));
  if (unit % 3 == 0) {
    all.push_back(dataset(group + "tokens", DType::kI32, {tokens}, random));
  } else {
    all.push_back(dataset(group + "scalars", DType::kF64, {2}, random));
    all.back().attributes["columns"] = std::string("loss\ngrad_norm");
    Random of_step(unit / 3);  // a whole tensor of the step, the same on both ranks
    all.push_back(dataset(group + "gradients/w", DType::kU8, {5, 16}, of_step));
  }
  return all;
}

inline void append_units(DumpWriter& writer, uint64_t from, uint64_t to) {
  for (uint64_t unit = from; unit < to; ++unit) {
    writer.append(unit_path(unit), unit_datasets(unit));
  }
}

/// A finished dump of `units` units; returns its root.
inline Hash write_dump(const std::string& path, uint64_t units) {
  DumpWriter writer = DumpWriter::create(path, kMeta);
  append_units(writer, 0, units);
  return writer.seal();
}

/// The rules that verify finds broken, in its order.
inline std::string rules_of(const std::string& path, bool deep = true) {
  std::string rules;
  for (const Problem& problem : verify(path, deep).problems) {
    rules += (rules.empty() ? "" : " ") + std::string(to_string(problem.rule));
  }
  return rules;
}

/// Holds that something is refused as wrong use, in a sentence with this part.
inline void expect_usage(const std::string& part, const std::function<void()>& act) {
  try {
    act();
    FAIL("accepted, but expected: " + part);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kUsage);
    CHECK_THAT(e.what(), Catch::Contains(part));
  }
}

/// All files of a folder with their bytes.
inline std::vector<std::pair<std::string, std::string>> snapshot(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) {
      files.emplace_back(std::filesystem::relative(entry.path(), path).string(),
                         read_text(entry.path().string()));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace rlreplay::format::test
