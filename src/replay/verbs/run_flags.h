#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/replay/options.h"

namespace rlreplay::replay {

/// The options of a run on a command line: every option of the table in the sections given,
/// --config and --print-config. Slime's options without effect here are taken and listed.
class RunFlags {
 public:
  void add(CLI::App& verb, std::span<const Section> sections);

  /// `base`, then --config, then the flags. Names what slime option is ignored on standard error.
  /// Errors: kUsage for an option that nobody knows.
  RunOptions resolve(RunOptions base) const;

  /// The flags themselves, for reports of what was overridden.
  const std::vector<Setting>& given() const { return given_; }
  bool print_config() const { return print_config_; }

 private:
  std::vector<Setting> given_;
  std::string config_;
  bool print_config_ = false;
  CLI::App* verb_ = nullptr;
};

}  // namespace rlreplay::replay
