#include "src/replay/gate/forms.h"

#include <algorithm>
#include <tuple>

#include "src/base/ascii.h"
#include "src/base/hash.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/markup_text.h"
#include "src/base/terminal.h"
#include "src/base/words.h"

namespace rlreplay::gate {
namespace {

using Level = Said::Level;

const char* level_word(Level level) { return level == Level::kError ? "error" : "warning"; }

std::vector<Said> not_fine(std::span<const Said> said) {
  std::vector<Said> out;
  std::ranges::copy_if(said, std::back_inserter(out),
                       [](const Said& s) { return s.level != Level::kFine; });
  return out;
}

/// A path as a relative address.
std::string address_of(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain =
        is_word_character(c) || std::string_view("/.-~@").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : formatted("%%%02X", static_cast<unsigned char>(c));
  }
  return out;
}

/// A text in a workflow command of GitHub; those of its properties hide more.
std::string command_text(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool hidden = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    out += hidden ? formatted("%%%02X", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return out;
}

std::string sarif_result(const Said& s) {
  const std::string place =
      JsonLine()
          .json("artifactLocation", JsonLine().text("uri", address_of(s.path)).str())
          .json("region", JsonLine().integer("startLine", 1).str())
          .str();
  return JsonLine()
      .text("ruleId", s.outcome)
      .text("level", level_word(s.level))
      .json("message", JsonLine().text("text", s.text).str())
      .json("locations", "[" + JsonLine().json("physicalLocation", place).str() + "]")
      .str();
}

std::string gitlab_issue(const Said& s) {
  const std::string lines = JsonLine().integer("begin", 1).str();
  return JsonLine()
      .text("description", s.text)
      .text("check_name", s.outcome)
      .text("fingerprint", hash_of(s.path + "\n" + s.outcome).hex())
      .text("severity", s.level == Level::kError ? "critical" : "minor")
      .json("location", JsonLine().text("path", s.path).json("lines", lines).str())
      .str();
}

}  // namespace

std::string junit_of(std::span<const Said> said) {
  std::string cases;
  size_t failures = 0, errors = 0;
  for (const Said& s : said) {
    cases += "  <testcase classname=\"rlreplay golden\" name=\"" + markup_text(s.path) + "\">";
    if (s.level == Level::kError) {
      const std::string kind = s.judged ? "failure" : "error";
      cases += "<" + kind + " message=\"" + markup_text(s.outcome) + "\">" + markup_text(s.text) +
               "</" + kind + ">";
      ++(s.judged ? failures : errors);
    } else if (s.level == Level::kWarning) {
      cases += "<system-out>" + markup_text(s.text) + "</system-out>";
    }
    cases += "</testcase>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"rlreplay golden\" "
         "tests=\"" +
         std::to_string(said.size()) + "\" failures=\"" + std::to_string(failures) +
         "\" errors=\"" + std::to_string(errors) + "\">\n" + cases + "</testsuite>\n";
}

std::string sarif_of(std::span<const Said> said) {
  const std::string driver = JsonLine().text("name", "rlreplay golden").json("rules", "[]").str();
  const std::string run = JsonLine()
                              .json("tool", JsonLine().json("driver", driver).str())
                              .json("results", json_list(not_fine(said), sarif_result))
                              .str();
  return JsonLine()
             .text("$schema", "https://json.schemastore.org/sarif-2.1.0.json")
             .text("version", "2.1.0")
             .json("runs", "[" + run + "]")
             .str() +
         "\n";
}

std::string gitlab_of(std::span<const Said> said) {
  return json_list(not_fine(said), gitlab_issue) + "\n";
}

std::string without_commands(std::string text) {
  for (const std::string_view mark : {"::", "##["}) {
    for (size_t at = 0; (at = text.find(mark, at)) != text.npos;) {
      at += mark.size() - 1;
      text.insert(at, " ");
    }
  }
  return text;
}

std::string github_of(std::span<const Said> said) {
  std::vector<Said> worst = not_fine(said);
  std::ranges::stable_sort(worst, std::greater{}, [](const Said& s) {
    return std::tuple(s.level == Level::kError, s.differences);
  });
  std::string out;
  for (const Said& s : std::span(worst).first(std::min(worst.size(), kMostAnnotations))) {
    out += std::string("::") + level_word(s.level) + " file=" + command_text(s.path, true) +
           ",title=" + command_text(s.outcome, true) +
           "::" + command_text(without_commands(s.text), false) + "\n";
  }
  return out;
}

std::string summary_of(std::span<const Said> said) {
  std::string out = "| golden file | outcome | values that differ |\n|---|---|---|\n";
  for (const Said& s : said) {
    std::string path = markup_text(s.path);
    for (size_t at = 0; (at = path.find('|', at)) != path.npos; at += 2) path.insert(at, "\\");
    out += "| " + path + " | " + s.outcome + " | " + std::to_string(s.differences) + " |\n";
  }
  return out;
}

}  // namespace rlreplay::gate
