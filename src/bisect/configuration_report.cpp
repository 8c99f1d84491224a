#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/words.h"
#include "src/bisect/configuration_search.h"

namespace rlreplay::bisect {
namespace {

std::string cause_text(const ConfigurationFinding& finding, size_t n) {
  std::string text;
  for (const size_t i : finding.causes[n]) {
    text +=
        (text.empty() ? "cause      " : "       and ") + finding.differences[i].describe() + "\n";
  }
  if (finding.causes[n].size() > 1) text += "           only together, none of them alone\n";
  if (n < finding.reasons.size()) text += "           bad: " + finding.reasons[n] + "\n";
  return text;
}

/// A value of YAML that JSON does not have is a text.
std::string value_json(const std::string& text) {
  try {
    return JsonDocument::parse(text, "a setting").root().dump();
  } catch (const Error&) {  // .nan, .inf, a date: YAML alone has them
    return json_quoted(text);
  }
}

std::string cause_json(const ConfigurationFinding& finding, size_t n) {
  const auto key_json = [&](size_t i) {
    const KeyDifference& difference = finding.differences[i];
    JsonLine key;
    key.text("key", key_name(difference.path));
    difference.good ? key.json("good", value_json(*difference.good)) : key.null("good");
    difference.bad ? key.json("bad", value_json(*difference.bad)) : key.null("bad");
    return key.str();
  };
  JsonLine line;
  line.json("keys", json_list(finding.causes[n], key_json));
  return line.text("reason", n < finding.reasons.size() ? finding.reasons[n] : "").str();
}

}  // namespace

std::string configuration_text(const ConfigurationFinding& finding, const std::string& command) {
  std::string text = "rlbisect: " + std::string(to_string(finding.result)) + "\n\n";
  if (!finding.reason.empty()) text += "reason     " + finding.reason + "\n";
  for (size_t n = 0; n < finding.causes.size(); ++n) text += cause_text(finding, n);
  text += "runs       " + std::to_string(finding.runs) + " for " +
          counted(finding.differences.size(), "difference") + "\n";
  if (finding.unresolved > 0) {
    text += "skipped    " + counted(finding.unresolved, "combination") +
            " that could not be judged: a cause may be smaller than it is shown\n";
  }
  return text + "reproduce  " + command + "\n";
}

std::string configuration_json(const ConfigurationFinding& finding, const std::string& command) {
  std::string causes;
  for (size_t n = 0; n < finding.causes.size(); ++n) {
    causes += (causes.empty() ? "" : ",") + cause_json(finding, n);
  }
  JsonLine line;
  line.text("schema", "rlreplay.configurations/1").json("causes", "[" + causes + "]");
  line.boolean("confirmed", finding.result == SearchResult::kFound);
  line.integer("differences", static_cast<int64_t>(finding.differences.size()));
  line.integer("runs", static_cast<int64_t>(finding.runs));
  line.integer("unresolved", static_cast<int64_t>(finding.unresolved));
  finding.reason.empty() ? line.null("reason") : line.text("reason", finding.reason);
  return line.text("reproduce", command).str();
}

}  // namespace rlreplay::bisect
