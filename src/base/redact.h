#pragma once

#include <string>
#include <string_view>

/// What is written down of a command may be read by others: secrets are hidden before.
namespace rlreplay {

/// What stands for a text that may be a secret.
inline constexpr std::string_view kHidden = "***";

/// `scheme://user:password@host/path?query` without user, password and query.
[[nodiscard]] std::string redacted_address(std::string_view word);

/// A word of a command: of NAME=VALUE the value is hidden; addresses as above.
[[nodiscard]] std::string redacted_word(std::string_view word);

/// A command's text for a shell: the value of each assignment, what stands behind options, headers
/// and keys that are called key, token, secret, password, credential or auth, quoted or not,
/// comments, here-documents, and addresses as redacted_word. The same again gives the same.
[[nodiscard]] std::string redacted_command(std::string_view command);

/// `shown`, a redacted `whole`, with what tells it from others that look like it: " #3f2a", 16 bits
/// of the hash of the whole. They betray no more of what is hidden: too little to confirm a guess.
[[nodiscard]] std::string marked(const std::string& shown, std::string_view whole);

/// A text without such a mark.
[[nodiscard]] std::string_view unmarked(std::string_view text);

}  // namespace rlreplay
