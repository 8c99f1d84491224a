#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>

#include "src/base/wrap.h"

namespace rlreplay::replay {

/// A help whose lines fit: CLI11's ends no line before its text does.
class WrappedHelp : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), kLineWidth - get_column_width());
  }
};

}  // namespace rlreplay::replay
