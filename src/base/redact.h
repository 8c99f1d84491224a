#pragma once

#include <string>
#include <string_view>

/// What is written down of a command may be read by others: secrets are hidden before.
namespace rlreplay {

/// What stands for a text that may be a secret.
inline constexpr std::string_view kHidden = "***";

/// `scheme://user:password@host/path?query` without user, password and query.
std::string redacted_address(std::string_view word);

/// A word of a command: of NAME=VALUE the value is hidden; addresses as above.
std::string redacted_word(std::string_view word);

/// A command's text for a shell: each assignment's value, what stands behind options that are
/// called key, token, secret, password, credential or auth, and addresses as redacted_word. The
/// same again gives the same.
std::string redacted_command(std::string_view command);

}  // namespace rlreplay
