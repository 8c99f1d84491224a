#include "src/task/bpe.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>

#include "src/base/utf8.h"
#include "src/task/unicode.h"
#include "tests/task/support.h"

using namespace rlreplay;
using namespace rlreplay::test;

namespace {

/// A random set of merges over the letters a to f.
struct RandomBpe {
  explicit RandomBpe(uint32_t seed) : random(seed) {
    std::map<std::string, TokenId> known;
    byte_ids.fill(-1);
    for (TokenId letter = 0; letter < 6; ++letter) {
      byte_ids[static_cast<size_t>('a' + letter)] = letter;
      spellings.push_back(std::string(1, static_cast<char>('a' + letter)));
      known[spellings.back()] = letter;
    }
    for (int i = 0; i < 60; ++i) {
      const auto left = static_cast<TokenId>(random() % spellings.size());
      const auto right = static_cast<TokenId>(random() % spellings.size());
      const std::string both =
          spellings[static_cast<size_t>(left)] + spellings[static_cast<size_t>(right)];
      if (both.size() > 9) continue;
      const auto [it, fresh] = known.emplace(both, static_cast<TokenId>(spellings.size()));
      if (fresh) spellings.push_back(both);
      merges.push_back({left, right, it->second});
    }
  }

  /// The definition: the earliest merge, leftmost first, again and again.
  std::vector<TokenId> slow(const std::string& word) const {
    std::vector<TokenId> ids;
    for (const char c : word) ids.push_back(byte_ids[static_cast<uint8_t>(c)]);
    for (;;) {
      size_t best_rank = merges.size(), at = 0;
      for (size_t i = 0; i + 1 < ids.size(); ++i) {
        for (size_t rank = merges.size(); rank-- > 0;) {
          if (merges[rank].left != ids[i] || merges[rank].right != ids[i + 1]) continue;
          if (rank < best_rank) best_rank = rank, at = i;
          break;  // of equal pairs the later counts
        }
      }
      if (best_rank == merges.size()) return ids;
      ids[at] = merges[best_rank].merged;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
  }

  std::mt19937 random;
  std::array<TokenId, 256> byte_ids;
  std::vector<std::string> spellings;
  std::vector<Merge> merges;
};

}  // namespace

TEST_CASE("short and long words are merged by the definition") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    RandomBpe made(seed);
    const Bpe bpe(made.byte_ids, made.merges);
    Bpe::Scratch scratch;
    for (int i = 0; i < repetitions(20); ++i) {
      std::string word(1 + made.random() % 80, 'a');
      for (char& c : word) c = static_cast<char>('a' + made.random() % (1 + made.random() % 6));
      std::vector<TokenId> ids;
      bpe.encode(word, scratch, ids);
      REQUIRE(ids == made.slow(word));
    }
  }
}

TEST_CASE("ill-formed UTF-8 is replaced part by part") {
  CHECK(utf8_lossy("ok \xc3\xa9") == "ok \xc3\xa9");
  CHECK(utf8_lossy("\xff|\xc3|\xe2\x82|\xf0\x9f\x98|") == "�|�|�|�|");
  CHECK(utf8_lossy("\xc0\x80") == "��");
  CHECK(utf8_lossy("\xed\xa0\x80") == "���");
  CHECK(utf8_lossy("\xf4\x90\x80\x80") == "����");
  CHECK(utf8_lossy("\xe2\x82\xe2\x82\xac") == "�€");
  CHECK(find_utf8_fault("abc\xe2\x82").incomplete);
  CHECK_FALSE(find_utf8_fault("abc\xe2\x28").incomplete);
}

TEST_CASE("every code point survives encoding") {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xd800 && code < 0xe000) continue;
    std::string text;
    append_utf8(text, code);
    size_t offset = 0;
    const bool same = next_code_point(text, offset) == code && offset == text.size() &&
                      find_utf8_fault(text).length == 0;
    if (!same) FAIL("code point " << static_cast<uint32_t>(code));
  }
}

TEST_CASE("form C composes marks and orders them, and leaves compatibility characters") {
  CHECK(normalize_nfc("plain") == "plain");
  CHECK(normalize_nfc("e\u0301") == "\u00e9");
  CHECK(normalize_nfc("\u212b\u2126") == "\u00c5\u03a9");
  CHECK(normalize_nfc("\u1e0b\u0323") == "\u1e0d\u0307");  // marks are put in order
  CHECK(normalize_nfc("\u1100\u1161\u11a8") == "\uac01");
  CHECK(normalize_nfc("\u0958") == "\u0915\u093c");  // excluded from composition
  CHECK(normalize_nfc("\ufb01") == "\ufb01");        // compatibility characters stay
}
