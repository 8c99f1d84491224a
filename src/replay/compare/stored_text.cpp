#include "src/replay/compare/stored_text.h"

#include <variant>

#include "format/unit.h"

namespace rlreplay::replay {
namespace {

/// The names of a field's columns as the first unit has them.
std::string columns_of(const GroupUnits& from, const std::string& group, const std::string& name) {
  for (const format::UnitReader& unit : from.units) {
    const format::StoredDataset* found = unit.find(group + "/" + name);
    if (found == nullptr || !found->attributes.contains("columns")) continue;
    const auto* names = std::get_if<std::string>(&found->attributes.at("columns"));
    std::string out;
    for (const char c : names == nullptr ? std::string() : *names) {
      out += c == '\n' ? ", " : std::string(1, c);
    }
    return out;
  }
  return "";
}

std::string stored(const GroupUnits& from, const std::string& group, const std::string& name) {
  const std::string dataset = name.starts_with("scalars/") ? "scalars" : name;
  std::string out;
  for (const format::UnitReader& unit : from.units) {
    const format::StoredDataset* found = unit.find(group + "/" + dataset);
    if (found == nullptr) continue;
    out += (out.empty() ? "" : "; ") + std::string(to_string(found->dtype)) + " " +
           format::shape_text(found->shape);
    for (const auto& [key, value] : found->attributes) {
      const auto* text = std::get_if<std::string>(&value);
      out += ", " + key + (text == nullptr ? "" : " '" + *text + "'");
    }
  }
  const auto hash = from.fields.find(name);
  if (hash != from.fields.end()) out += (out.empty() ? "" : ", ") + ("hash " + hash->second.hex());
  return out;
}

}  // namespace

std::pair<std::string, std::string> stored_texts(const GroupUnits& a, const GroupUnits& b,
                                                 const std::string& group,
                                                 const std::string& field) {
  const std::string in_a = columns_of(a, group, field), in_b = columns_of(b, group, field);
  if (in_a != in_b) return {"columns " + in_a, "columns " + in_b};
  return {stored(a, group, field), stored(b, group, field)};
}

}  // namespace rlreplay::replay
