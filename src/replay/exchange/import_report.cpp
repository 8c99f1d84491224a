#include <map>
#include <utility>
#include <vector>

#include "src/replay/exchange/import.h"
#include "src/replay/record/content_root.h"

namespace rlreplay::replay {

JsonLine import_line(std::string_view schema, const std::string& dump, const ImportReport& report) {
  return JsonLine()
      .text("schema", schema)
      .text("dump", dump)
      .text("root", report.root.hex())
      .text("content", content_root(dump).hex())
      .integer("rollouts", static_cast<int64_t>(report.rollouts))
      .integer("steps", static_cast<int64_t>(report.steps))
      .integer("samples", static_cast<int64_t>(report.samples));
}

std::string findings_text(const ImportReport& report) {
  std::string out;
  std::map<std::pair<std::string, std::string>, std::vector<const foreign::Problem*>> alike;
  for (const foreign::Problem& finding : report.findings) {
    alike[{std::string(finding.code), finding.message}].push_back(&finding);
  }
  for (const auto& [what, findings] : alike) {
    out += "finding " + what.first + ": " + what.second + " (" + findings.front()->where;
    if (findings.size() > 1) out += ", and " + std::to_string(findings.size() - 1) + " more";
    out += ")\n";
  }
  return out;
}

}  // namespace rlreplay::replay
