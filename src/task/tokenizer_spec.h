#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/json_value.h"
#include "src/task/added_tokens.h"
#include "src/task/bpe.h"

namespace rlreplay {

/// A known expression that cuts text into words. Source: the `pre_tokenizer` of the tokenizer.json
/// that each is called after; of GPT-2 the pattern in src/encoder.py.
struct SplitRule {
  std::string_view name;
  std::string_view regex;
};

inline constexpr SplitRule kLlama3Split = {
    "llama3",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
inline constexpr SplitRule kQwen2Split = {
    "qwen2",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
inline constexpr SplitRule kGpt2Split = {
    "gpt2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"};
inline constexpr SplitRule kDigitSplit = {"digit", R"(\p{N})"};
inline constexpr SplitRule kDigitsSplit = {"digits", R"(\p{N}+)"};

/// What a byte-level BPE tokenizer.json says, checked.
struct TokenizerSpec {
  bool nfc = false;                     // normalize to form C first
  std::vector<SplitRule> splits;        // applied one after the other
  bool ignore_merges = false;           // a word that is a token is that token
  std::vector<std::string> vocabulary;  // the model's, by id, as the file spells them; empty: none
  std::vector<Merge> merges;            // in order of rank
  std::vector<AddedToken> added_tokens;
  std::vector<TokenId> prefix, suffix;  // special tokens around a text
};

/// Reads a tokenizer.json. Truncation and padding are ignored: they belong to a batch.
/// Errors: kCorrupt where it breaks its own rules, kUnsupported, by name, for every kind of
/// tokenizer but byte-level BPE with the splits above.
[[nodiscard]] TokenizerSpec parse_tokenizer_spec(const JsonDocument& document);

}  // namespace rlreplay
