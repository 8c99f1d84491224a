#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Golden files: what a program gave once, as text that people review and version control merges.
///
///     # rlreplay golden 2
///     # made by: rlreplay golden record --model demo
///     about reason "the first one"
///     step 0 loss 0x1.8p-1  # 0.75
///     step 0 weights 4c309745a492a87cb318ad5692662403
///
/// A line an entry, sorted: a key, which may hold spaces, and after the last space its value, a
/// word, or a text in quotes as JSON writes it; of a float also the decimal, which nobody reads
/// back. Two branches that add entries merge without a conflict unless they add neighbours. Version
/// 1 knew neither texts nor decimals, and wrote a blank in a word as %20.
namespace rlreplay {

/// Key to value: golden_value of numbers, digests in hexadecimal, words, texts.
using GoldenEntries = std::map<std::string, std::string, std::less<>>;

/// The number of a value that golden_value wrote of a float; nothing of any other.
[[nodiscard]] std::optional<double> golden_number(const std::string& value);

/// How many ulps lie from `recorded` to `now`; nothing unless both are floats of one type and no
/// NaN, and int64 holds the number.
[[nodiscard]] std::optional<int64_t> golden_distance(const std::string& recorded,
                                                     const std::string& now);

/// What a golden file says.
struct GoldenFile {
  std::string made_by;  // how to make it again; may have several lines
  GoldenEntries entries;
};

/// Hexadecimal floats that keep every bit but a NaN's payload: "0x1.8p-1" for binary64, and
/// "0x1.8p-1f" for binary32.
[[nodiscard]] std::string golden_value(double value);
[[nodiscard]] std::string golden_value(float value);
[[nodiscard]] std::string golden_value(int64_t value);

/// Errors: kUnsupported for another version; kCorrupt, naming the line, for no golden file, a key
/// without value, a key twice, and for a conflict that a merge left.
[[nodiscard]] GoldenFile parse_golden(std::string_view text, const std::string& where);

/// Errors: also those of read_file.
[[nodiscard]] GoldenFile read_golden(const std::string& path);

/// Errors: kUsage for a key that a line cannot hold.
[[nodiscard]] std::string golden_text(const GoldenFile& file);

/// The file appears whole or not at all. Errors: as golden_text, and kEnvironment.
void write_golden(const std::string& path, const GoldenFile& file);

/// One entry that is not what was recorded: without `recorded` it is new, without `now` it is gone.
struct GoldenDifference {
  std::string key;
  std::optional<std::string> recorded;
  std::optional<std::string> now;
  std::optional<int64_t> ulps;  // from recorded to now, of two floats of one type
};

/// All differences by ascending key, step 2 before step 10; empty: the check passes.
[[nodiscard]] std::vector<GoldenDifference> compare_golden(const GoldenEntries& recorded,
                                                           const GoldenEntries& now);

/// A line a difference, at most `limit` of them: "step 0 loss: 0x1.8p-1 recorded, 0x1.8001p-1 now
/// (+65536 ulps)".
[[nodiscard]] std::string to_string(std::span<const GoldenDifference> differences,
                                    size_t limit = 50);

}  // namespace rlreplay
