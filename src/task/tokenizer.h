#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/task/bpe.h"
#include "src/task/tokenizer_spec.h"

namespace rlreplay {

/// Whether an encoding puts the tokenizer's own special tokens (a BOS) around the text.
enum class AddSpecial { kNo, kYes };

/// Whether a decoding shows special tokens.
enum class ShowSpecial { kNo, kYes };

/// Text to ids and back: byte-level BPE. Immutable; many threads may share one.
class Tokenizer {
 public:
  explicit Tokenizer(const TokenizerSpec& spec);
  /// Errors: those of JsonDocument::read and parse_tokenizer_spec.
  [[nodiscard]] static Tokenizer read(const std::string& path);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Added tokens that occur in the text become their ids.
  /// Errors: kCorrupt when the text is not UTF-8; kUnsupported when the vocabulary lacks a byte.
  std::vector<TokenId> encode(std::string_view text, AddSpecial add = AddSpecial::kNo) const;

  /// Ill-formed bytes become U+FFFD. Ids that name no token give nothing: models have more rows
  /// than tokenizers have tokens.
  std::string decode(std::span<const TokenId> ids, ShowSpecial show = ShowSpecial::kYes) const;

  /// The bytes of one token; none where the id names no token.
  std::string_view bytes(TokenId id) const;
  [[nodiscard]] bool is_special(TokenId id) const;
  /// The id of an added token or of a vocabulary entry as the file spells it.
  [[nodiscard]] std::optional<TokenId> find(std::string_view token) const;
  /// One more than the highest id.
  TokenId size() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// Decodes ids as they come. A character that is not yet complete is held back. The parts, joined,
/// are what Tokenizer::decode gives for all ids at once.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, ShowSpecial show = ShowSpecial::kYes)
      : tokenizer_(&tokenizer), show_(show) {}

  std::string push(TokenId id);
  /// What was held back, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  ShowSpecial show_;
  std::string held_;
};

}  // namespace rlreplay
