#include "src/task/tokenizer.h"

#include <unordered_map>
#include <utility>

#include "src/base/utf8.h"
#include "src/task/byte_level.h"
#include "src/task/pattern.h"
#include "src/task/unicode.h"

namespace rlreplay {
namespace {

struct Token {
  std::string bytes;
  bool special = false;
};

using Ids = std::unordered_map<std::string, TokenId>;

std::string bytes_of(const std::string& token) { return bytes_of_symbols(token).value_or(token); }

/// How an added token looks where it is looked for, and therefore where it is shown.
std::string sought_content(const AddedToken& token, const TokenizerSpec& spec) {
  return token.normalized && spec.nfc ? normalize_nfc(token.content) : token.content;
}

std::vector<Token> tokens_of(const TokenizerSpec& spec) {
  std::vector<Token> tokens;
  for (const auto& token : spec.vocabulary) tokens.push_back({bytes_of(token)});
  for (const auto& added : spec.added_tokens) {
    const auto id = static_cast<size_t>(added.id);
    if (id >= tokens.size()) tokens.resize(id + 1);
    tokens[id] = {bytes_of(sought_content(added, spec)), added.special};
  }
  return tokens;
}

/// The model's tokens, without the added ones, by their bytes.
Ids words_of(const TokenizerSpec& spec) {
  Ids words;
  words.reserve(spec.vocabulary.size());
  for (size_t id = 0; id < spec.vocabulary.size(); ++id) {
    const auto bytes = bytes_of_symbols(spec.vocabulary[id]);
    // Of two ids of the same bytes the lower is a word.
    if (bytes && !bytes->empty()) words.emplace(*bytes, static_cast<TokenId>(id));
  }
  return words;
}

Ids added_ids_of(const TokenizerSpec& spec) {
  Ids ids;
  for (const auto& token : spec.added_tokens) ids.emplace(token.content, token.id);
  return ids;
}

std::array<TokenId, 256> byte_ids_of(const Ids& words) {
  std::array<TokenId, 256> byte_ids;
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto it = words.find(std::string(1, static_cast<char>(byte)));
    byte_ids[byte] = it == words.end() ? -1 : it->second;
  }
  return byte_ids;
}

/// The added tokens that are looked for in the text as it is, or (`normalized`)
/// after normalization.
std::vector<AddedToken> select(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> chosen;
  for (const auto& token : spec.added_tokens) {
    if (token.normalized != normalized) continue;
    chosen.push_back(token);
    chosen.back().content = sought_content(token, spec);
  }
  return chosen;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(const TokenizerSpec& spec)
      : nfc(spec.nfc),
        ignore_merges(spec.ignore_merges),
        raw_added(select(spec, false)),
        normalized_added(select(spec, true)),
        tokens(tokens_of(spec)),
        words(words_of(spec)),
        added_ids(added_ids_of(spec)),
        bpe(byte_ids_of(words), spec.merges),
        prefix(spec.prefix),
        suffix(spec.suffix) {
    for (const auto& rule : spec.splits) splits.emplace_back(rule.regex);
  }

  void encode_normalized(std::string_view text, std::vector<TokenId>& out) const;
  void encode_words(std::string_view text, std::vector<TokenId>& out) const;

  bool nfc;
  bool ignore_merges;
  AddedTokens raw_added, normalized_added;
  std::vector<Pattern> splits;
  std::vector<Token> tokens;
  Ids words, added_ids;
  Bpe bpe;
  std::vector<TokenId> prefix, suffix;
};

Tokenizer::Tokenizer(const TokenizerSpec& spec) : impl_(std::make_unique<Impl>(spec)) {}
Tokenizer Tokenizer::read(const std::string& path) {
  return Tokenizer(parse_tokenizer_spec(JsonDocument::read(path)));
}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

void Tokenizer::Impl::encode_words(std::string_view text, std::vector<TokenId>& out) const {
  std::vector<std::string_view> pieces{text}, parts;
  for (const auto& split : splits) {
    parts.clear();
    for (const auto piece : pieces) split.split(piece, parts);
    std::swap(pieces, parts);
  }
  Bpe::Scratch scratch;
  for (const auto word : pieces) {
    if (ignore_merges) {  // a word of the vocabulary is its token, whatever merges would make of it
      const auto whole = words.find(std::string(word));
      if (whole != words.end()) {
        out.push_back(whole->second);
        continue;
      }
    }
    bpe.encode(word, scratch, out);
  }
}

void Tokenizer::Impl::encode_normalized(std::string_view text, std::vector<TokenId>& out) const {
  std::vector<AddedTokens::Piece> pieces;
  normalized_added.split(text, pieces);
  for (const auto& piece : pieces) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
    } else {
      encode_words(piece.text, out);
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, AddSpecial add) const {
  const Utf8Fault fault = find_utf8_fault(text);
  if (fault.length != 0) {
    throw Error(ErrorCode::kCorrupt,
                "the text is not UTF-8 at its byte " + std::to_string(fault.offset));
  }
  std::vector<TokenId> out;
  if (add == AddSpecial::kYes) out = impl_->prefix;
  // Tokens that are not normalized are cut out first: normalization could hide their texts.
  std::vector<AddedTokens::Piece> pieces;
  impl_->raw_added.split(text, pieces);
  for (const auto& piece : pieces) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
    } else if (impl_->nfc) {
      impl_->encode_normalized(normalize_nfc(piece.text), out);
    } else {
      impl_->encode_normalized(piece.text, out);
    }
  }
  if (add == AddSpecial::kYes) out.insert(out.end(), impl_->suffix.begin(), impl_->suffix.end());
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, ShowSpecial show) const {
  std::string all;
  for (const TokenId id : ids) {
    if (show == ShowSpecial::kYes || !is_special(id)) all += bytes(id);
  }
  return utf8_lossy(all);
}

std::string_view Tokenizer::bytes(TokenId id) const {
  if (id < 0 || id >= size()) return {};
  return impl_->tokens[static_cast<size_t>(id)].bytes;
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < size() && impl_->tokens[static_cast<size_t>(id)].special;
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const auto added = impl_->added_ids.find(std::string(token));
  if (added != impl_->added_ids.end()) return added->second;
  if (find_utf8_fault(token).length != 0) return std::nullopt;
  const auto word = impl_->words.find(bytes_of_symbols(token).value_or(""));
  if (word != impl_->words.end()) return word->second;
  return std::nullopt;
}

TokenId Tokenizer::size() const { return static_cast<TokenId>(impl_->tokens.size()); }

/// Holds back the bytes that the next token may complete to a character.
std::string StreamDecoder::push(TokenId id) {
  if (show_ == ShowSpecial::kNo && tokenizer_->is_special(id)) return {};
  held_ += tokenizer_->bytes(id);
  std::string text;
  for (;;) {
    const Utf8Fault fault = find_utf8_fault(held_);
    if (fault.length == 0 || fault.incomplete) {
      const size_t done = fault.length == 0 ? held_.size() : fault.offset;
      text.append(held_, 0, done);
      held_.erase(0, done);
      return text;
    }
    text.append(held_, 0, fault.offset).append("\xef\xbf\xbd");
    held_.erase(0, fault.offset + fault.length);
  }
}

std::string StreamDecoder::finish() { return utf8_lossy(std::exchange(held_, {})); }

}  // namespace rlreplay
