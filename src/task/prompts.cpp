#include "src/task/prompts.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "src/base/error.h"
#include "src/base/json_value.h"

namespace rlreplay {
namespace {

constexpr size_t kBlock = 1 << 16;
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

JsonValue find_input(const JsonValue& object, const std::string& key) {
  if (!key.empty()) return object[key];
  if (const auto value = find_first(object, kInputKeys)) return *value;
  throw object.error(
      "none of the keys prompt_token_ids, messages, prompt, text, input, question is there; name "
      "the key with --input-key");
}

std::optional<std::string> find_label(const JsonValue& object, const std::string& key) {
  const auto value = key.empty() ? find_first(object, kLabelKeys) : std::optional(object[key]);
  if (!value || value->is_null()) return std::nullopt;
  return value->is_string() ? value->string() : value->dump();
}

Message read_message(const JsonValue& object) {
  for (const auto& [key, value] : object.members()) {
    if (key != "role" && key != "content" && !value.is_null()) {
      throw value.error(ErrorCode::kUnsupported,
                        "a message may have role and content only; render messages with other "
                        "keys first and give the prompt as text");
    }
  }
  return {object["role"].string(), object["content"].string()};
}

auto read_input(const JsonValue& value) -> decltype(Prompt::input) {
  if (value.is_string()) return value.string();
  if (!value.is_array() || value.size() == 0) {
    throw value.error("a prompt is text, a list of messages or a list of token ids, not empty");
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

std::unique_ptr<std::istream> open(const std::string& path) {
  errno = 0;
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  file->peek();  // a folder opens, but cannot be read
  if (!file->is_open() || file->bad()) {
    throw Error(ErrorCode::kIncomplete,
                std::string("cannot read the prompts: ") + std::strerror(errno), path);
  }
  file->clear();  // an empty file is no error yet
  return file;
}

}  // namespace

PromptReader::PromptReader(std::unique_ptr<std::istream> stream, std::string name,
                           PromptOptions options)
    : stream_(std::move(stream)),
      name_(std::move(name)),
      options_(std::move(options)),
      block_(kBlock) {}

PromptReader::PromptReader(const std::string& path, PromptOptions options)
    : PromptReader(open(path), path, std::move(options)) {}

/// False at the end of the file. A line that is too long is not read to its end.
bool PromptReader::read_line() {
  line_.clear();
  bool any = false;
  for (;;) {
    if (used_ == filled_) {
      stream_->read(block_.data(), static_cast<std::streamsize>(block_.size()));
      used_ = 0;
      filled_ = static_cast<size_t>(stream_->gcount());
      if (filled_ == 0) {
        if (stream_->bad()) throw Error(ErrorCode::kEnvironment, "reading the file failed", name_);
        number_ += any ? 1 : 0;
        return any;
      }
    }
    any = true;
    const std::string_view rest(block_.data() + used_, filled_ - used_);
    const size_t end = rest.find('\n');
    line_.append(rest.substr(0, end));
    used_ += end == rest.npos ? rest.size() : end + 1;
    if (line_.size() > options_.max_line_bytes) {
      throw Error(ErrorCode::kCorrupt,
                  "the line has more than " + std::to_string(options_.max_line_bytes) + " bytes",
                  name_ + ":" + std::to_string(number_ + 1));
    }
    if (end != rest.npos) {
      ++number_;
      return true;
    }
  }
}

std::optional<Prompt> PromptReader::next() {
  while (read_line()) {
    if (line_.find_first_not_of(" \t\r") == line_.npos) continue;
    const auto document = JsonDocument::parse(line_, name_ + ":" + std::to_string(number_));
    const JsonValue root = document.root();
    if (!root.is_object()) throw root.error("each line must be a JSON object");
    return Prompt{read_input(find_input(root, options_.input_key)),
                  find_label(root, options_.label_key), document.where()};
  }
  return std::nullopt;
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
    throw Error(e.code(), e.what(), prompt.where);
  }
  if (ids.empty()) throw Error(ErrorCode::kCorrupt, "the prompt is empty", prompt.where);
  return ids;
}

}  // namespace rlreplay
