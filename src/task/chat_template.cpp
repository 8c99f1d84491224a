#include <cstdint>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/input_file.h"
#include "src/base/json_value.h"
#include "src/task/chat.h"

namespace rlreplay {
namespace {

struct Normalized {
  std::string text;
  std::string default_system;
};

/// A template without its branch for tools, which comes first and ends at a line with `else`.
std::string_view without_tools(std::string_view jinja) {
  constexpr std::string_view kSystemBegin = "{%- if tools %}", kElse = "\n{%- else %}\n";
  const size_t end = jinja.find(kElse);
  return jinja.starts_with(kSystemBegin) && end != jinja.npos ? jinja.substr(end + kElse.size())
                                                              : jinja;
}

/// A string literal's value: `text` from `i`, just behind the quote, to the closing quote.
std::string literal(std::string_view text, size_t& i, char quote) {
  std::string value;
  for (; i < text.size() && text[i] != quote; ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      value += text[i] == 'n' ? '\n' : text[i];
    } else {
      value += text[i];
    }
  }
  return value;
}

/// Takes the sentence out of a literal that is a whole system message.
void take_default_system(std::string& value, std::string& default_system) {
  constexpr std::string_view kSystemBegin = "<|im_start|>system\n", kSystemEnd = "<|im_end|>\n";
  if (value.size() <= kSystemBegin.size() + kSystemEnd.size() || !value.starts_with(kSystemBegin) ||
      !value.ends_with(kSystemEnd)) {
    return;
  }
  default_system =
      value.substr(kSystemBegin.size(), value.size() - kSystemBegin.size() - kSystemEnd.size());
  value = std::string(kSystemBegin) + std::string(kSystemEnd);
}

/// Drops white space inside tags, reads literals, takes the default system message out.
Normalized normalize(std::string_view jinja) {
  Normalized out;
  std::string_view text = without_tools(jinja);
  if (text.ends_with('\n')) text.remove_suffix(1);  // as Jinja does
  bool in_tag = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view two = text.substr(i, 2);
    if (!in_tag && (two == "{{" || two == "{%")) in_tag = true;
    if (in_tag && (two == "}}" || two == "%}")) {
      in_tag = false;
      out.text.append(two);
      ++i;
    } else if (in_tag && (text[i] == '\'' || text[i] == '"')) {
      const char quote = text[i++];
      std::string value = literal(text, i, quote);
      take_default_system(value, out.default_system);
      out.text.append("'").append(value).append("'");
    } else if (!in_tag || (text[i] != ' ' && text[i] != '\n')) {
      out.text += text[i];
    }
  }
  return out;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

struct Known {
  uint64_t fingerprint;
  ChatTemplate::Style style;
};

constexpr Known kKnown[] = {
    {0x91f23f711e68df08, ChatTemplate::Style::kChatMl},
    {0x2ad33db35475c85f, ChatTemplate::Style::kQwen2},  // Qwen2
    {0x2680b65ecbc0191f, ChatTemplate::Style::kQwen2},  // Qwen2.5, Coder and Math too
    {0xea20d2b905f5b268, ChatTemplate::Style::kQwen3},  // as first published
    {0x57cb7b2436ec8903, ChatTemplate::Style::kQwen3},  // as revised
};

constexpr size_t kMaxTemplate = size_t{1} << 20;

/// One template, or of several named ones the one named default.
JsonValue chosen_template(const JsonValue& config) {
  const auto value = config.find("chat_template");
  if (!value) throw config.error(ErrorCode::kIncomplete, "there is no chat template");
  if (!value->is_array()) return *value;
  for (size_t i = 0; i < value->size(); ++i) {
    if (value->at(i)["name"].string() == "default") return value->at(i)["template"];
  }
  throw value->error(ErrorCode::kUnsupported, "none of the chat templates is named default");
}

}  // namespace

uint64_t chat_template_fingerprint(std::string_view jinja) { return fnv1a(normalize(jinja).text); }

ChatTemplate ChatTemplate::recognise(std::string_view jinja, const std::string& where) {
  const Normalized normalized = normalize(jinja);
  const uint64_t fingerprint = fnv1a(normalized.text);
  for (const auto& known : kKnown) {
    if (known.fingerprint == fingerprint) {
      return ChatTemplate(known.style, normalized.default_system);
    }
  }
  throw Error(ErrorCode::kUnsupported,
              "this chat template is not known (plain ChatML and those of Qwen2, Qwen2.5 and Qwen3 "
              "are): render the messages first and give the prompts as text or prompt_token_ids",
              where);
}

ChatTemplate ChatTemplate::read(const std::string& folder) {
  const std::filesystem::path base(folder);
  const auto jinja = base / "chat_template.jinja";
  if (std::filesystem::is_regular_file(jinja))
    return recognise(read_file(jinja.string(), kMaxTemplate, "a chat template"), jinja.string());
  const auto config = JsonDocument::read((base / "tokenizer_config.json").string());
  const JsonValue chosen = chosen_template(config.root());
  return recognise(chosen.string(), config.where() + " /chat_template");
}

}  // namespace rlreplay
