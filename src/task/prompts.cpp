#include "src/task/prompts.h"

#include <array>
#include <string_view>

#include "src/base/error.h"
#include "src/base/json_value.h"

namespace rlreplay {
namespace {

constexpr std::array<std::string_view, 6> kInputKeys = {
    "prompt_token_ids", "messages", "prompt", "text", "input", "question"};
constexpr std::array<std::string_view, 2> kLabelKeys = {"label", "answer"};

template <size_t N>
std::optional<JsonValue> find_first(const JsonValue& object,
                                    const std::array<std::string_view, N>& keys) {
  for (const auto key : keys) {
    if (const auto value = object.find(key)) return value;
  }
  return std::nullopt;
}

/// What stands at a key, or, where no key is called so, at `a.b`: b of the object a. A null is as
/// good as absent.
std::optional<JsonValue> find_path(const JsonValue& object, std::string_view path) {
  if (const auto value = object.find(path)) return value;
  const size_t dot = path.find('.');
  if (dot == path.npos) return std::nullopt;
  const auto inner = object.find(path.substr(0, dot));
  if (!inner || !inner->is_object()) return std::nullopt;
  return find_path(*inner, path.substr(dot + 1));
}

/// A key that the user named. Errors: kCorrupt, with the keys that are there.
JsonValue find_named(const JsonValue& object, const std::string& key, const char* option) {
  if (const auto value = find_path(object, key)) return *value;
  std::string there;
  for (const auto& [name, value] : object.members()) {
    there += (there.empty() ? "" : ", ") + std::string(name) + (value.is_null() ? " (null)" : "");
  }
  throw object.error(std::string(option) + ": there is no key \"" + key + "\"; there are " + there);
}

JsonValue find_input(const JsonValue& object, const std::string& key) {
  if (!key.empty()) return find_named(object, key, "--input-key");
  if (const auto value = find_first(object, kInputKeys)) return *value;
  throw object.error(
      "none of the keys prompt_token_ids, messages, prompt, text, input, question is there; name "
      "the key with --input-key");
}

std::optional<std::string> find_label(const JsonValue& object, const std::string& key) {
  const auto value = key.empty() ? find_first(object, kLabelKeys)
                                 : std::optional(find_named(object, key, "--label-key"));
  if (!value || value->is_null()) return std::nullopt;
  return value->is_string() ? value->string() : value->dump();
}

Message read_message(const JsonValue& object) {
  for (const auto& [key, value] : object.members()) {
    if (key != "role" && key != "content" && !value.is_null()) {
      throw value.error(ErrorCode::kUnsupported,
                        "the message has the key \"" + std::string(key) +
                            "\"; role and content alone are supported: render messages with other "
                            "keys first and give the prompt as text");
    }
  }
  return {object["role"].string(), object["content"].string()};
}

auto read_input(const JsonValue& value) -> decltype(Prompt::input) {
  if (value.is_string()) return value.string();
  if (!value.is_array() || value.size() == 0) {
    throw value.error("the prompt is " + value.dump().substr(0, 100) +
                      "; text, or a list that is not empty of messages or token ids, is expected");
  }
  if (value.at(0).is_object()) {
    std::vector<Message> messages;
    for (size_t i = 0; i < value.size(); ++i) messages.push_back(read_message(value.at(i)));
    return messages;
  }
  std::vector<TokenId> ids;
  for (size_t i = 0; i < value.size(); ++i) {
    ids.push_back(static_cast<TokenId>(value.at(i).integer(0, INT32_MAX)));
  }
  return ids;
}

}  // namespace

PromptReader::PromptReader(std::unique_ptr<std::istream> stream, std::string name,
                           PromptOptions options)
    : lines_(std::move(stream), std::move(name), options.max_line_bytes),
      options_(std::move(options)) {}

PromptReader::PromptReader(const std::string& path, PromptOptions options)
    : lines_(path, options.max_line_bytes), options_(std::move(options)) {}

std::optional<Prompt> PromptReader::next() {
  const std::optional<JsonDocument> line = lines_.next();
  if (!line) return std::nullopt;
  const JsonValue root = line->root();
  return Prompt{read_input(find_input(root, options_.input_key)),
                find_label(root, options_.label_key), line->where()};
}

std::vector<Prompt> read_prompts(const std::string& path, const PromptOptions& options) {
  PromptReader reader(path, options);
  std::vector<Prompt> prompts;
  while (auto prompt = reader.next()) prompts.push_back(std::move(*prompt));
  if (prompts.empty()) throw Error(ErrorCode::kIncomplete, "the file holds no prompts", path);
  return prompts;
}

std::vector<TokenId> encode_prompt(const Prompt& prompt, const PromptEncoding& encoding) {
  std::vector<TokenId> ids;
  const auto render = [&](const std::vector<Message>& messages) {
    if (encoding.chat == nullptr) {
      throw Error(ErrorCode::kUsage, "messages need a chat template, and the model has none",
                  prompt.where);
    }
    return encoding.tokenizer->encode(encoding.chat->render(messages, encoding.chat_options));
  };
  try {
    if (const auto* given = std::get_if<std::vector<TokenId>>(&prompt.input)) {
      ids = *given;
    } else if (const auto* messages = std::get_if<std::vector<Message>>(&prompt.input)) {
      ids = render(*messages);
    } else if (const auto& text = std::get<std::string>(prompt.input);
               encoding.apply_chat_template) {
      ids = render({{"user", text}});
    } else {
      ids = encoding.tokenizer->encode(text, encoding.add_special);
    }
  } catch (const Error& e) {
    if (!e.where().empty()) throw;
    throw e.at(prompt.where);
  }
  if (ids.empty()) throw Error(ErrorCode::kCorrupt, "the prompt is empty", prompt.where);
  return ids;
}

}  // namespace rlreplay
