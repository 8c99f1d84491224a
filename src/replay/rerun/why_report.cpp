#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "src/base/json_line.h"
#include "src/base/number_text.h"
#include "src/base/words.h"
#include "src/replay/rerun/why.h"

namespace rlreplay::replay {
namespace {

constexpr size_t kPartsShown = 10, kTokensShown = 12;

std::string element_name(const ElementOrigin& o) {
  return to_string(o.question.at) + ":" + std::to_string(o.question.index);
}

/// The items by size, the largest first; equal ones stay in their order.
template <class T, class Size>
std::vector<const T*> largest_first(const std::vector<T>& all, Size size) {
  std::vector<const T*> out;
  for (const T& item : all) out.push_back(&item);
  std::ranges::stable_sort(out, std::greater(), [&](const T* item) { return size(*item); });
  return out;
}

std::string tokens_text(const ElementOrigin& o, const LeafPart& part, bool all) {
  std::string out = formatted("  sample %llu, leaf %lld, token by token:\n   token",
                              static_cast<unsigned long long>(part.sample),
                              static_cast<long long>(part.leaf.value_or(0)));
  for (const std::string& factor : o.factors) out += formatted(" %15s", factor.c_str());
  out += o.factors.size() > 1 ? "         product\n" : "\n";
  const auto tokens =
      largest_first(part.tokens, [](const TokenPart& t) { return fabs(t.product); });
  size_t shown = 0;
  for (const TokenPart* token : tokens) {
    if (!all && shown == kTokensShown) break;
    ++shown;
    out += formatted("  %6lld", static_cast<long long>(token->position));
    for (const double factor : token->factors) out += formatted(" %15.8g", factor);
    out += o.factors.size() > 1 ? formatted(" %15.8g\n", token->product) : "\n";
  }
  if (shown < tokens.size()) {
    out += "  and " + std::to_string(tokens.size() - shown) + " more (--all lists them)\n";
  }
  return out + formatted("  their sum in binary64 %.17g\n  left by roundings     %.3g\n",
                         part.products, part.rest);
}

/// Its heads stand behind each other.
size_t count_tokens(const LeafPart& part) {
  size_t out = 0;
  for (size_t i = 0; i < part.tokens.size(); ++i) {
    out += i == 0 || part.tokens[i].position != part.tokens[i - 1].position;
  }
  return out;
}

std::string parts_text(const ElementOrigin& o, bool all) {
  std::string out =
      formatted("  %12s %6s %7s %21s %15s\n", "sample", "leaf", "tokens", "integer", "value");
  const auto parts =
      largest_first(o.parts, [](const LeafPart& p) { return fabs(static_cast<double>(p.sum)); });
  size_t shown = 0;
  for (const LeafPart* part : parts) {
    if (!all && shown == kPartsShown) break;
    ++shown;
    const bool leaf = part->leaf.has_value();
    out += formatted(
        "  %12llu %6s %7s %21lld %15.8g\n", static_cast<unsigned long long>(part->sample),
        leaf ? std::to_string(*part->leaf).c_str() : "all",
        leaf ? std::to_string(count_tokens(*part)).c_str() : "-", static_cast<long long>(part->sum),
        std::ldexp(static_cast<double>(part->sum), -o.scale));
  }
  if (shown < parts.size()) {
    out += "  and " + std::to_string(parts.size() - shown) + " more (--all lists them)\n";
  }
  out += formatted("  %12s %6s %7s %21lld %15.8g\n", "sum", "", "", static_cast<long long>(*o.sum),
                   *o.value);
  out += o.adds_up() ? "  the parts are the element, to the last integer\n"
                     : "  the parts are NOT the element\n";
  for (const LeafPart* part : parts) {
    if (part->tokens.empty() || (!all && part != parts.front())) continue;
    out += tokens_text(o, *part, all);
  }
  return out;
}

std::string part_json(const LeafPart& part) {
  JsonLine out;
  out.integer("sample", static_cast<int64_t>(part.sample));
  part.leaf ? out.integer("leaf", *part.leaf) : out.null("leaf");
  out.text("sum", std::to_string(part.sum));
  std::string tokens;
  for (const TokenPart& t : part.tokens) {
    std::string factors;
    for (const double f : t.factors) factors += (factors.empty() ? "" : ", ") + shortest_of(f);
    JsonLine line;
    line.integer("position", t.position).json("factors", "[" + factors + "]");
    line.number("product", t.product);
    tokens += (tokens.empty() ? "" : ", ") + line.str();
  }
  out.json("tokens", "[" + tokens + "]");
  if (part.tokens.empty()) return out.null("products").null("rest").str();
  return out.number("products", part.products).number("rest", part.rest).str();
}

}  // namespace

std::string origin_text(const ElementOrigin& o, bool all) {
  std::string out = element_name(o) + "\n  " + o.place + "\n";
  if (o.is_gradient()) {
    out += formatted("  value  %.9g, %lld times 2^-%d\n", *o.value, static_cast<long long>(*o.sum),
                     o.scale);
    out += "  " + wrapped(o.formula, 76, 2) + "\n";
  } else if (o.value) {
    out += "  value  " + shortest_of(*o.value) + "  (" + hex_float(*o.value) + ")\n";
  }
  out += o.inputs.empty() ? "  given from outside: computed from nothing of the step\n"
                          : "  computed from\n";
  for (const ElementInput& input : o.inputs) {
    const std::string value = input.value ? "  " + shortest_of(*input.value) : "";
    out += "    " + input.event + ", " + input.reach + value + "\n";
  }
  if (o.is_gradient()) out += parts_text(o, all);
  return out + "step " + StepId{o.question.at.rollout_id, o.question.at.step_id}.name() +
         " again from its recorded state: " +
         (o.identical ? "identical" : "NOT identical to the record") + " (" +
         counted(o.events, "event") + ")\n";
}

std::string origin_json(const ElementOrigin& o, const std::string& dump) {
  JsonLine out;
  out.text("schema", "rlreplay.why/1").text("dump", dump).text("element", element_name(o));
  out.text("place", o.place).boolean("identical", o.identical).integer("events", o.events);
  out.number("value", o.value);
  std::string inputs;
  for (const ElementInput& input : o.inputs) {
    JsonLine line;
    line.text("event", input.event).text("reach", input.reach).number("value", input.value);
    inputs += (inputs.empty() ? "" : ", ") + line.str();
  }
  out.json("inputs", "[" + inputs + "]");
  if (!o.is_gradient()) return out.null("gradient").str();
  std::string parts, factors;
  for (const LeafPart& part : o.parts) parts += (parts.empty() ? "" : ", ") + part_json(part);
  for (const std::string& f : o.factors) factors += (factors.empty() ? "\"" : ", \"") + f + "\"";
  JsonLine gradient;
  gradient.text("sum", std::to_string(*o.sum)).integer("scale", o.scale);
  gradient.boolean("adds_up", o.adds_up()).json("factors", "[" + factors + "]");
  return out.json("gradient", gradient.json("parts", "[" + parts + "]").str()).str();
}

}  // namespace rlreplay::replay
