#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rlreplay {

using TokenId = int32_t;

/// What two neighbouring tokens become, and how early.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

/// Byte-pair encoding of words: of all neighbours, those with the earliest merge are joined first,
/// from the left, until none can be. Source: Sennrich, Haddow, Birch, Neural machine translation of
/// rare words with subword units (2016).
class Bpe {
 public:
  /// `byte_ids`: the token of each single byte, -1 where there is none.
  /// `merges` come in their order of rank; of two with the same neighbours the later counts.
  Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges);

  /// Working memory of `encode`; one a thread.
  struct Scratch {
    struct Candidate {
      uint32_t rank;
      uint32_t position;
      TokenId left, right, merged;
    };
    std::vector<TokenId> ids;
    std::vector<uint32_t> ranks, previous, next;
    std::vector<Candidate> heap;
  };

  /// Appends the tokens of one word, n bytes, in O(n log n).
  /// Errors: kUnsupported when the vocabulary lacks a byte.
  void encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;
  static constexpr uint32_t kNoMerge = UINT32_MAX;

  [[nodiscard]] const Slot* find(TokenId left, TokenId right) const;
  void encode_short(Scratch& scratch) const;
  void encode_long(Scratch& scratch) const;
  void push_candidate(Scratch& scratch, uint32_t position) const;

  std::array<TokenId, 256> byte_ids_;
  std::vector<Slot> table_;  // open addressing; a power of two, at most half full
};

}  // namespace rlreplay
