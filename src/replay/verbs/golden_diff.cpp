#include <filesystem>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/gate/environment.h"
#include "src/replay/gate/place.h"
#include "src/replay/run/machine.h"
#include "src/replay/verbs/golden_parts.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kShownDiff = 20;

/// The file of a name: itself, or that of a test for this machine, `goldens/train`.
/// Errors: kIncomplete where there is neither.
std::string file_of_name(const std::string& name) {
  std::error_code absent;
  if (std::filesystem::exists(name, absent)) return name;
  for (const std::string& class_name : gate::classes_now(computing({}))) {
    std::string path = gate::path_of({name, class_name});
    if (std::filesystem::exists(path, absent)) return path;
  }
  throw Error(ErrorCode::kIncomplete,
              "there is no such golden file, and none of a test of this name for this machine",
              name);
}

/// Lines of what two files say of themselves.
std::string lines_text(const char* kind, const GoldenEntries& a, const GoldenEntries& b) {
  std::string out;
  for (const GoldenDifference& d : compare_golden(a, b)) {
    out += std::string("  ") + kind + " " + d.key + ": " + d.recorded.value_or("nothing") + " -> " +
           d.now.value_or("nothing") + '\n';
  }
  return out;
}

GoldenEntries tolerance_lines(const gate::Golden& golden) {
  GoldenEntries out;
  for (const gate::Tolerance& t : golden.tolerances) out.emplace(t.keys, to_string(t));
  return out;
}

}  // namespace

int golden_diff(const GoldenArguments& arguments) {
  const std::string from = file_of_name(arguments.paths[0]), to = file_of_name(arguments.paths[1]);
  const gate::Golden a = gate::read(from), b = gate::read(to);
  const auto apart = gate::differences(a.tolerances, a.values, b.values);
  std::cout << from << " and " << to << ": " << apart.size() << " of " << a.values.size()
            << " values differ\n"
            << differences_text(apart, arguments.all ? SIZE_MAX : kShownDiff)
            << lines_text("option", a.options, b.options) << lines_text("input", a.inputs, b.inputs)
            << lines_text("environment", a.environment, b.environment)
            << lines_text("tolerance", tolerance_lines(a), tolerance_lines(b))
            << lines_text("about", a.about, b.about);
  return apart.empty() ? 0 : 1;
}

}  // namespace rlreplay::replay
