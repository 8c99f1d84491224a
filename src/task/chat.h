#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlreplay {

/// One message of a conversation. Templates know the roles system, user and assistant; ChatML, any.
struct Message {
  std::string role;
  std::string content;
};

/// What a template is told besides the messages, by the names that Jinja templates have for it.
struct ChatOptions {
  bool add_generation_prompt = true;  // end where the assistant's answer begins
  bool enable_thinking = true;        // Qwen3: false ends with an empty thought
};

/// Renders messages as the known chat templates do when no tools are given. Templates are programs;
/// this knows some of them by their text and runs none.
class ChatTemplate {
 public:
  enum class Style {
    kChatMl,  // every message as it is
    kQwen2,   // Qwen2 and Qwen2.5: with a default system message
    kQwen3,   // thoughts of earlier turns are left out
  };

  explicit ChatTemplate(Style style, std::string default_system = {})
      : style_(style), default_system_(std::move(default_system)) {}

  /// Recognises a Jinja template by its text, whatever its default system message and white space
  /// inside tags. `where` names it in errors.
  /// Errors: kUnsupported for every other template.
  [[nodiscard]] static ChatTemplate recognise(std::string_view jinja, const std::string& where);

  /// The template of a checkpoint: its chat_template.jinja, or the one in tokenizer_config.json.
  /// Errors: kIncomplete where there is none, else as `recognise`.
  [[nodiscard]] static ChatTemplate read(const std::string& folder);

  Style style() const { return style_; }
  const std::string& default_system() const { return default_system_; }

  /// Errors: kCorrupt where there are no messages; kUnsupported for a role the template has no
  /// words for.
  std::string render(const std::vector<Message>& messages, const ChatOptions& options = {}) const;

 private:
  Style style_;
  std::string default_system_;
};

/// What `recognise` compares: a hash (FNV-1a) of the template without what may vary.
[[nodiscard]] uint64_t chat_template_fingerprint(std::string_view jinja);

}  // namespace rlreplay
