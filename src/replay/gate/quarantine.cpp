#include "src/replay/gate/quarantine.h"

#include <chrono>

#include "src/base/error.h"
#include "src/base/number_text.h"
#include "src/base/words.h"

namespace rlreplay::gate {
namespace {

using std::chrono::year_month_day;

std::string day_text(const year_month_day& day) {
  return formatted("%04d-%02u-%02u", static_cast<int>(day.year()),
                   static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
}

/// A day of the calendar as day_text writes it: no other text of it is one.
bool is_day(const std::string& text) {
  if (text.size() != 10) return false;
  const auto year = parse_number<int>(text.substr(0, 4));
  const auto month = parse_number<unsigned>(text.substr(5, 2));
  const auto day = parse_number<unsigned>(text.substr(8, 2));
  if (!year || *year < 1 || !month || !day) return false;
  const year_month_day out{std::chrono::year(*year), std::chrono::month(*month),
                           std::chrono::day(*day)};
  return out.ok() && day_text(out) == text;
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n\v\f") == text.npos;
}

}  // namespace

std::string to_string(const Quarantine& quarantine) {
  return "until " + quarantine.until + ", " + quarantine.owner + ": " + quarantine.reason;
}

Quarantine quarantine_of(const GoldenEntries& lines, const std::string& where) {
  const auto said = [&](const char* name) {
    const auto found = lines.find(name);
    return found == lines.end() ? std::string() : found->second;
  };
  Quarantine out{said("until"), said("owner"), said("reason")};
  if (!is_day(out.until)) {
    throw Error(ErrorCode::kUsage,
                "a quarantine ends on a day, as 2026-12-31, not \"" + out.until + "\"", where);
  }
  if (is_blank(out.owner) || is_blank(out.reason)) {
    throw Error(ErrorCode::kUsage,
                "a quarantine has an owner and a reason, and of " +
                    std::string(is_blank(out.owner) ? "the owner" : "the reason") +
                    " nothing is said: name who ends it, and why it is there",
                where);
  }
  return out;
}

GoldenEntries lines_of(const Quarantine& quarantine) {
  return {{"until", quarantine.until}, {"owner", quarantine.owner}, {"reason", quarantine.reason}};
}

std::string today() {
  return day_text(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
}

// Days in this form are ordered as their texts are. The last one is included.
bool holds(const std::optional<Quarantine>& quarantine, const std::string& day) {
  return quarantine && day <= quarantine->until;
}

}  // namespace rlreplay::gate
