#pragma once

#include <string>
#include <string_view>

/// What made a dump, and where (docs/provenance.md).
namespace rlreplay::replay {

/// Whether an environment variable is one of those that are kept. An environment holds secrets: no
/// other is.
[[nodiscard]] bool is_kept_variable(std::string_view name);

/// The processor as the system calls it; `unknown` where it does not.
[[nodiscard]] std::string processor_name();

/// What a process computes with; empty for one that computes nothing.
struct Computing {
  std::string instructions;  // "AVX2"
  std::string torch;         // libtorch's version, where its kernels run
};

/// Program, command line, libraries, machine, time and variables of this process, for the
/// manifest's `unstable`: none of it is part of what two dumps are compared by.
class Provenance {
 public:
  /// The time of the run's beginning is now.
  explicit Provenance(Computing computing = {});

  /// A JSON object, of a run that goes on.
  std::string begun() const;
  /// A JSON object; its time of the end is now.
  std::string json() const;

 private:
  Computing computing_;
  std::string began_;
};

/// What such an object says, as lines for people; empty for one that says nothing.
[[nodiscard]] std::string provenance_text(const std::string& unstable);

}  // namespace rlreplay::replay
