#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/task/bpe.h"

namespace rlreplay {

/// A token that is found in the text before it is split into words.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // dropped by a decoding that skips special tokens
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  bool normalized = false;   // looked for in the normalized text
};

/// Finds added tokens: leftmost first, of those the longest.
class AddedTokens {
 public:
  /// A stretch of plain text (id -1) or one token.
  struct Piece {
    std::string_view text;
    TokenId id = -1;
  };

  explicit AddedTokens(std::vector<AddedToken> tokens);

  void split(std::string_view text, std::vector<Piece>& pieces) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> begins_{};  // whether a token begins with this byte
};

}  // namespace rlreplay
