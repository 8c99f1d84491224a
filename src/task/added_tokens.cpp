#include "src/task/added_tokens.h"

#include <algorithm>

#include "src/base/utf8.h"
#include "src/task/unicode.h"

namespace rlreplay {
namespace {

char32_t last_code_point(std::string_view text, size_t& offset) {
  offset = text.size() - 1;
  while ((static_cast<uint8_t>(text[offset]) & 0xc0) == 0x80) --offset;
  size_t i = offset;
  return next_code_point(text, i);
}

bool ends_with_word(std::string_view text) {
  size_t offset = 0;
  return !text.empty() && is_word_character(last_code_point(text, offset));
}

bool starts_with_word(std::string_view text) {
  size_t offset = 0;
  return !text.empty() && is_word_character(next_code_point(text, offset));
}

/// Length of the text without its white space at the end, down to `floor`.
size_t trimmed_end(std::string_view text, size_t floor) {
  size_t offset = 0;
  while (text.size() > floor && is_space(last_code_point(text, offset))) {
    text = text.substr(0, offset);
  }
  return text.size();
}

size_t space_at_start(std::string_view text) {
  size_t length = 0;
  for (size_t i = 0; i < text.size() && is_space(next_code_point(text, i)); length = i) {
  }
  return length;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& a, const auto& b) { return a.content < b.content; });
  for (const auto& token : tokens_) begins_[static_cast<uint8_t>(token.content[0])] = true;
}

/// Narrows the sorted contents byte by byte; a content that is used up comes first in its range.
const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t k = 0; low != high; ++k) {
    if (low->content.size() == k) {
      longest = &*low;
      while (low != high && low->content.size() == k) ++low;
    }
    if (k == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[k]);
    const auto at = [k](const AddedToken& t) { return static_cast<uint8_t>(t.content[k]); };
    low = std::partition_point(low, high, [&](const auto& t) { return at(t) < byte; });
    high = std::partition_point(low, high, [&](const auto& t) { return at(t) == byte; });
  }
  return longest;
}

void AddedTokens::split(std::string_view text, std::vector<Piece>& pieces) const {
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const AddedToken* token =
        begins_[static_cast<uint8_t>(text[i])] ? longest_at(text.substr(i)) : nullptr;
    if (token == nullptr) {
      ++i;
      continue;
    }
    size_t begin = i, end = i + token->content.size();
    i = end;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      continue;
    }
    if (token->lstrip) begin = std::max(trimmed_end(text.substr(0, begin), done), done);
    if (token->rstrip) end += space_at_start(text.substr(end));
    end = std::max(end, begin);
    if (done < begin) pieces.push_back({text.substr(done, begin - done)});
    pieces.push_back({text.substr(begin, end - begin), token->id});
    done = end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done)});
}

}  // namespace rlreplay
