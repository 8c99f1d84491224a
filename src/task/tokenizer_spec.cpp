#include "src/task/tokenizer_spec.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

namespace rlreplay {
namespace {

constexpr TokenId kMaxId = 1 << 24;
constexpr size_t kMaxAddedBytes = 512;
constexpr std::array kSplitRules = {kLlama3Split, kQwen2Split, kGpt2Split, kDigitSplit,
                                    kDigitsSplit};

using Vocabulary = std::unordered_map<std::string_view, TokenId>;

Error unsupported(const JsonValue& value, const std::string& message) {
  return value.error(ErrorCode::kUnsupported, message);
}

std::string in_quotes(std::string_view text) {
  return '"' + std::string(text.substr(0, 200)) + (text.size() > 200 ? "..." : "") + '"';
}

bool flag(const JsonValue& object, std::string_view key, bool absent) {
  const auto value = object.find(key);
  return value ? value->boolean() : absent;
}

/// A flag of an added token, which is no null: the library refuses that as it does a number.
bool token_flag(const JsonValue& token, std::string_view key, bool absent) {
  for (const auto& [name, value] : token.members()) {
    if (name == key) return value.boolean();
  }
  return absent;
}

/// The elements of an array of an object, or of nothing.
std::vector<JsonValue> elements(const std::optional<JsonValue>& array) {
  std::vector<JsonValue> all;
  if (!array) return all;
  for (size_t i = 0; i < array->size(); ++i) all.push_back(array->at(i));
  return all;
}

void read_normalizer(const JsonValue& normalizer, TokenizerSpec& spec) {
  const std::string& type = normalizer["type"].string();
  if (type == "NFC") {
    spec.nfc = true;
  } else if (type == "Sequence") {
    for (const auto& part : elements(normalizer["normalizers"])) read_normalizer(part, spec);
  } else {
    throw unsupported(normalizer, "the normalizer " + in_quotes(type) +
                                      " is not supported; NFC or none is expected");
  }
}

SplitRule known_split(const JsonValue& split) {
  const auto regex = split["pattern"].find("Regex");
  const auto behavior = split["behavior"].string();
  if (behavior != "Isolated" || flag(split, "invert", false)) {
    throw unsupported(split, "splits must be of behavior Isolated and not inverted");
  }
  if (regex) {
    for (const auto& rule : kSplitRules) {
      if (rule.regex == regex->string()) return rule;
    }
  }
  throw unsupported(split, "the splitting pattern " + split["pattern"].dump().substr(0, 300) +
                               " is not one of Llama 3, Qwen2, Qwen3 or GPT-2");
}

/// Returns whether the step maps text to bytes.
bool read_pre_tokenizer(const JsonValue& step, TokenizerSpec& spec) {
  const std::string& type = step["type"].string();
  if (type == "Sequence") {
    bool byte_level = false;
    for (const auto& part : elements(step["pretokenizers"])) {
      if (byte_level) throw unsupported(part, "nothing may follow the ByteLevel pre-tokenizer");
      byte_level = read_pre_tokenizer(part, spec);
    }
    return byte_level;
  }
  if (type == "Split") {
    spec.splits.push_back(known_split(step));
    return false;
  }
  if (type == "Digits") {
    spec.splits.push_back(flag(step, "individual_digits", false) ? kDigitSplit : kDigitsSplit);
    return false;
  }
  if (type == "ByteLevel") {
    if (flag(step, "add_prefix_space", true)) {
      throw unsupported(step, "a ByteLevel pre-tokenizer that adds a space is not supported");
    }
    if (flag(step, "use_regex", true)) spec.splits.push_back(kGpt2Split);
    return true;
  }
  throw unsupported(step, "the pre-tokenizer " + in_quotes(type) +
                              " is not supported; Split, Digits and ByteLevel are");
}

void read_template(const JsonValue& post, TokenizerSpec& spec) {
  const JsonValue tokens = post["special_tokens"];
  bool behind_text = false;
  for (const auto& piece : elements(post["single"])) {
    if (const auto special = piece.find("SpecialToken")) {
      const JsonValue ids = tokens[(*special)["id"].string()]["ids"];
      for (const auto& id : elements(ids)) {
        (behind_text ? spec.suffix : spec.prefix)
            .push_back(static_cast<TokenId>(id.integer(0, kMaxId)));
      }
    } else if (const auto sequence = piece.find("Sequence")) {
      if (behind_text || (*sequence)["id"].string() != "A") {
        throw unsupported(piece, "the template of one text names the text " +
                                     in_quotes((*sequence)["id"].string()) +
                                     (behind_text ? " behind another text" : "") +
                                     "; it must name the text \"A\", once");
      }
      behind_text = true;
    } else {
      throw piece.error("a piece of the template is " + piece.dump().substr(0, 100) +
                        "; a SpecialToken or a Sequence is expected");
    }
  }
  if (!behind_text) throw post.error("the template of one text does not name the text");
}

void read_post_processor(const JsonValue& post, TokenizerSpec& spec) {
  const std::string& type = post["type"].string();
  if (type == "ByteLevel") return;  // it moves offsets only
  if (type == "Sequence") {
    for (const auto& part : elements(post["processors"])) read_post_processor(part, spec);
  } else if (type == "TemplateProcessing") {
    if (!spec.prefix.empty() || !spec.suffix.empty()) {
      throw unsupported(post, "more than one template around a text is not supported");
    }
    read_template(post, spec);
  } else {
    throw unsupported(post, "the post-processor " + in_quotes(type) +
                                " is not supported; TemplateProcessing and ByteLevel are");
  }
}

void require_byte_level_decoder(const JsonValue& root) {
  const auto decoder = root.find("decoder");
  if (!decoder) throw unsupported(root, "there is no decoder; ByteLevel is expected");
  auto all =
      elements((*decoder)["type"].string() == "Sequence" ? std::optional((*decoder)["decoders"])
                                                         : std::nullopt);
  if (all.empty()) all.push_back(*decoder);
  if (all.size() != 1 || all[0]["type"].string() != "ByteLevel") {
    throw unsupported(*decoder, "the decoder " + in_quotes((*decoder)["type"].string()) +
                                    " is not supported; ByteLevel is expected");
  }
}

void require_plain_bpe(const JsonValue& model) {
  const auto type = model.find("type");
  if (!type || type->string() != "BPE") {
    throw unsupported(model, "the model " + in_quotes(type ? type->string() : "") +
                                 " is not supported; BPE is expected");
  }
  static_cast<void>(flag(model, "fuse_unk", false));  // of no effect here, and none but a flag
  if (flag(model, "byte_fallback", false)) {
    throw unsupported(model, "byte_fallback is not supported; a byte-level BPE is expected");
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto value = model.find(affix);
    if (value && !value->string().empty()) {
      throw unsupported(*value, std::string(affix) + " is not supported");
    }
  }
  const auto dropout = model.find("dropout");
  if (dropout && dropout->number() != 0) {
    throw unsupported(*dropout, "dropout would make the tokens random; it must be null or 0");
  }
}

/// Ids may have holes, but not more of them than tokens: a table by id must fit its file.
void place(std::string_view token, TokenId id, size_t count, const JsonValue& value,
           TokenizerSpec& spec) {
  const auto index = static_cast<size_t>(id);
  if (index >= 2 * count + 1024) {
    throw value.error("the id " + std::to_string(id) + " is far beyond the number of tokens, " +
                      std::to_string(count));
  }
  if (index >= spec.vocabulary.size()) spec.vocabulary.resize(index + 1);
  if (!spec.vocabulary[index].empty()) {
    throw value.error("the id " + std::to_string(id) + " belongs to two tokens, " +
                      in_quotes(spec.vocabulary[index]) + " and " + in_quotes(token));
  }
  spec.vocabulary[index] = token;
}

Vocabulary read_vocabulary(const JsonValue& vocab, TokenizerSpec& spec) {
  const auto members = vocab.members();
  if (members.empty()) throw vocab.error("the vocabulary is empty");
  Vocabulary ids;
  ids.reserve(members.size());
  for (const auto& [token, value] : members) {
    const auto id = static_cast<TokenId>(value.integer(0, kMaxId));
    if (token.empty()) throw value.error("a token of the vocabulary is empty");
    place(token, id, members.size(), value, spec);
    ids.emplace(token, id);
  }
  return ids;
}

std::pair<std::string_view, std::string_view> neighbours(const JsonValue& merge) {
  if (merge.is_array()) {
    if (merge.size() != 2) {
      throw merge.error("the merge has " + std::to_string(merge.size()) + " parts; 2 are expected");
    }
    return {merge.at(0).string(), merge.at(1).string()};
  }
  const std::string_view text = merge.string();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) {
    throw merge.error("the merge is " + in_quotes(text.substr(0, 100)) +
                      "; two tokens with one space between them are expected");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const JsonValue& merges, const Vocabulary& ids, TokenizerSpec& spec) {
  const auto id_of = [&](const std::string& token, const JsonValue& merge) {
    const auto it = ids.find(token);
    if (it == ids.end()) {
      throw merge.error("the merge names " + in_quotes(token) + ", which is not in the vocabulary");
    }
    return it->second;
  };
  spec.merges.reserve(merges.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    const JsonValue merge = merges.at(i);
    const auto [left, right] = neighbours(merge);
    const std::string a(left), b(right);
    spec.merges.push_back({id_of(a, merge), id_of(b, merge), id_of(a + b, merge)});
  }
}

/// The library that writes these files numbers added tokens itself, whatever id the file gives.
void read_added_tokens(const JsonValue& list, const Vocabulary& ids, TokenizerSpec& spec) {
  std::unordered_set<std::string_view> seen;
  const auto count = static_cast<TokenId>(ids.size());
  TokenId highest = -1;
  for (const auto& item : elements(list)) {
    const JsonValue content = item["content"];
    AddedToken token;
    token.content = content.string();
    token.id = static_cast<TokenId>(item["id"].integer(0, kMaxId));
    token.special = token_flag(item, "special", false);
    token.single_word = token_flag(item, "single_word", false);
    token.lstrip = token_flag(item, "lstrip", false);
    token.rstrip = token_flag(item, "rstrip", false);
    token.normalized = token_flag(item, "normalized", !token.special);
    if (token.content.empty() || token.content.size() > kMaxAddedBytes) {
      throw content.error("an added token has 1 to " + std::to_string(kMaxAddedBytes) + " bytes");
    }
    if (!seen.insert(content.string()).second) {
      throw item.error("the token " + in_quotes(token.content) + " is added twice");
    }
    const auto known = ids.find(token.content);
    const TokenId expected = known != ids.end() ? known->second : std::max(highest + 1, count);
    if (token.id != expected) {
      throw item.error("the token " + in_quotes(token.content) + " is added with id " +
                       std::to_string(token.id) +
                       ", but what comes before it in the file makes it " +
                       std::to_string(expected));
    }
    const auto index = static_cast<size_t>(token.id);
    if (known == ids.end() && index < spec.vocabulary.size() && !spec.vocabulary[index].empty()) {
      throw item.error("the id " + std::to_string(token.id) + " belongs to two tokens, " +
                       in_quotes(spec.vocabulary[index]) + " and " + in_quotes(token.content));
    }
    highest = std::max(highest, token.id);
    spec.added_tokens.push_back(std::move(token));
  }
}

void require_known(const std::vector<TokenId>& template_ids, const JsonValue& post,
                   const TokenizerSpec& spec) {
  for (const TokenId id : template_ids) {
    const auto index = static_cast<size_t>(id);
    const bool in_vocabulary = index < spec.vocabulary.size() && !spec.vocabulary[index].empty();
    const bool added = std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                                   [id](const auto& token) { return token.id == id; });
    if (!in_vocabulary && !added) {
      throw post.error("the template adds id " + std::to_string(id) + ", which names no token");
    }
  }
}

}  // namespace

TokenizerSpec parse_tokenizer_spec(const JsonDocument& document) {
  const JsonValue root = document.root();
  TokenizerSpec spec;
  const JsonValue model = root["model"];
  require_plain_bpe(model);
  if (const auto normalizer = root.find("normalizer")) read_normalizer(*normalizer, spec);
  const auto pre_tokenizer = root.find("pre_tokenizer");
  if (!pre_tokenizer || !read_pre_tokenizer(*pre_tokenizer, spec)) {
    throw unsupported(root, "there is no ByteLevel pre-tokenizer; a byte-level BPE is expected");
  }
  require_byte_level_decoder(root);
  const Vocabulary ids = read_vocabulary(model["vocab"], spec);
  read_merges(model["merges"], ids, spec);
  spec.ignore_merges = flag(model, "ignore_merges", false);
  if (const auto added = root.find("added_tokens")) read_added_tokens(*added, ids, spec);
  if (const auto post = root.find("post_processor")) {
    read_post_processor(*post, spec);
    require_known(spec.prefix, *post, spec);
    require_known(spec.suffix, *post, spec);
  }
  return spec;
}

}  // namespace rlreplay
