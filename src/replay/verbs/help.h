#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace rlreplay::replay {

/// "rlreplay golden record".
[[nodiscard]] std::string full_name(const CLI::App& app);

/// The group of options that are taken and not shown: CLI11 knows no name of one without a group.
inline constexpr const char* kHiddenGroup = "hidden";

/// The help of a program or a verb, in at most 80 columns or those of the terminal.
class Help : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

/// The whole help of a program and its verbs as one JSON object: scripts/make_manuals.py makes
/// manual pages and completions of it. What the help leaves out is left out here.
/// Order: that of the help.
[[nodiscard]] std::string help_json(const CLI::App& app);

}  // namespace rlreplay::replay
