#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "format/dump_reader.h"

namespace rlreplay::replay {

/// What is to be shown of a dump. Without a sample, step or tensor: the summary.
struct ShowOptions {
  std::optional<int64_t> rollout;     // of `sample`; the first one that has it where absent
  std::optional<uint64_t> sample;     // id
  std::optional<std::string> step;    // "3.0" or "3-0"
  std::optional<int64_t> rank;        // of `step`; 0 where absent
  std::optional<std::string> tensor;  // a dataset of the step or rollout: "advantages"
  bool text = false;                  // the sample's texts alone
  bool samples = false;               // a line a sample
  std::string sort;                   // of `samples`: reward or length
  bool temporary = false;             // made for looking: its maker is no news
  std::string incomplete;             // why it is not whole; empty where it is
  std::function<std::string(int32_t)> token_text;  // of the sample's tokens, where it is known
  bool json = false;
};

/// Tables of at most 80 columns where names allow, or JSON: one object a line.
/// Errors: kUsage where what is asked for is not there; FormatError.
void show_dump(const format::DumpReader& dump, const ShowOptions& options, std::ostream& out);

}  // namespace rlreplay::replay
