#include <algorithm>
#include <map>
#include <set>

#include "format/foreign/checkpoint_config.h"
#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/doctor/known_tensors.h"
#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kLayers = "RD803";
constexpr size_t kMostKinds = 64;  // kinds of layers that are held against each other

/// The layers of one stack by number, and what each holds.
struct Stack {
  std::map<int64_t, std::set<std::string>> roles;
  std::map<std::pair<int64_t, std::string>, std::set<int64_t>> experts;  // of layer and role
};

std::map<std::string, Stack> stacks_of(const WeightFiles& weights) {
  std::map<std::string, Stack> out;
  for (const WeightTensor& tensor : weights.tensors) {
    const WeightName name = split_name(tensor.name());
    if (name.layer < 0) continue;
    Stack& stack = out[name.stack];
    stack.roles[name.layer].insert(name.role);
    if (name.expert >= 0) stack.experts[{name.layer, name.role}].insert(name.expert);
  }
  return out;
}

std::optional<int64_t> layers_said(const WeightFiles& weights) {
  for (const std::string_view key : {"num_hidden_layers", "n_layer", "num_layers"}) {
    if (const auto size = weights.size_of_model(key)) return size;
  }
  return std::nullopt;
}

std::optional<int64_t> experts_said(const WeightFiles& weights) {
  for (const std::string_view key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (const auto size = weights.size_of_model(key)) return size;
  }
  return std::nullopt;
}

/// Gathers what is missing and what is too much over all stacks, for one finding each at the end.
class LayerCheck {
 public:
  LayerCheck(const WeightFiles& weights, Diagnosis& diagnosis)
      : weights_(weights), diagnosis_(diagnosis) {}

  void run() {
    const std::map<std::string, Stack> stacks = stacks_of(weights_);
    const auto expected = known_tensors(weights_);
    if (stacks.empty() && !expected) {
      diagnosis_.not_applicable(kLayers, "no tensor has a layer's number in its name");
      return;
    }
    if (expected) {
      check_expected(*expected);
    } else {
      for (const auto& [name, stack] : stacks) {
        check_numbers(name, stack);
        check_kinds(name, stack);
        check_experts(name, stack);
      }
    }
    report();
  }

 private:
  void add_missing(const std::string& place, int64_t layer) {
    if (layer >= 0) missing_layers_.insert(layer);
    missing_.add_place(place);
  }

  void check_expected(const std::vector<foreign::ExpectedTensor>& expected) {
    std::set<std::string_view> known, there;
    for (const WeightTensor& tensor : weights_.tensors) there.insert(tensor.name());
    for (const foreign::ExpectedTensor& tensor : expected) {
      known.insert(tensor.name);
      const bool by_head = is_head(tensor.name) && weights_.setting("tie_word_embeddings");
      if (there.contains(tensor.name) || by_head) continue;  // of which RD804 asks
      add_missing(tensor.name, split_name(tensor.name).layer);
    }
    for (const std::string_view name : there) {
      const bool derived = name.ends_with(".rotary_emb.inv_freq");
      if (known.contains(name) || is_head(name) || derived) continue;
      surplus_.add_place(std::string(name));
    }
  }

  void check_numbers(const std::string& name, const Stack& stack) {
    const auto said = is_text_stack(name) ? layers_said(weights_) : std::nullopt;
    const int64_t layers = said.value_or(stack.roles.rbegin()->first + 1);
    for (int64_t i = 0; i < layers; ++i) {
      if (stack.roles.contains(i)) continue;
      add_missing(joined_name(name, i, "*"), i);
      if (missing_.count >= DoctorFinding::kMostPlaces) return;
    }
    const int64_t predicted =
        said ? weights_.size_of_model("num_nextn_predict_layers").value_or(0) : 0;
    for (const auto& [layer, roles] : stack.roles) {
      if (layer < layers + predicted) continue;
      surplus_.add_place(joined_name(name, layer, "*"));
    }
  }

  /// What config.json calls a layer, where it has names for them.
  std::string type_of(const std::string& name, int64_t layer) const {
    const auto types = is_text_stack(name) ? weights_.setting("layer_types") : std::nullopt;
    if (!types || !types->is_array() || layer >= static_cast<int64_t>(types->size())) return "";
    return types->at(static_cast<size_t>(layer)).string();
  }

  void check_kinds(const std::string& name, const Stack& stack) {
    if (weights_.setting("block_configs")) return;  // layers are meant to differ
    using Kind = std::pair<std::string, std::set<std::string>>;
    std::map<Kind, std::vector<int64_t>> kinds;
    for (const auto& [layer, roles] : stack.roles)
      kinds[{type_of(name, layer), roles}].push_back(layer);
    if (kinds.size() > kMostKinds) return;
    for (const auto& [kind, layers] : kinds) {
      const std::set<std::string>* whole = nullptr;
      size_t most = layers.size();
      for (const auto& [other, others] : kinds) {
        const bool less = other.first == kind.first && other.second.size() > kind.second.size() &&
                          std::ranges::includes(other.second, kind.second);
        if (!less || others.size() < most) continue;
        whole = &other.second;
        most = others.size();
      }
      if (whole == nullptr) continue;
      for (const int64_t layer : layers) {
        for (const std::string& role : *whole) {
          if (!kind.second.contains(role)) add_missing(joined_name(name, layer, role), layer);
        }
      }
    }
  }

  void check_experts(const std::string& name, const Stack& stack) {
    int64_t most = 0;
    for (const auto& [place, experts] : stack.experts) most = std::max(most, *experts.rbegin() + 1);
    const int64_t wanted = is_text_stack(name) ? experts_said(weights_).value_or(most) : most;
    for (const auto& [place, experts] : stack.experts) {
      for (int64_t i = 0; i < wanted; ++i) {
        if (experts.contains(i)) continue;
        add_missing(joined_name(name, place.first, place.second, i), place.first);
        if (missing_.count >= DoctorFinding::kMostPlaces) return;
      }
      if (*experts.rbegin() >= wanted) {
        surplus_.add_place(joined_name(name, place.first, place.second, *experts.rbegin()));
      }
    }
  }

  void report() {
    if (missing_.count > 0) {
      const std::string layers =
          missing_layers_.empty() ? "" : ", in " + counted(missing_layers_.size(), "layer");
      missing_.fact = missing_.count == 1 ? "a tensor is missing" : "tensors are missing";
      missing_.observed = counted(missing_.count, "name") + " without a tensor" + layers;
      missing_.symptom_of = cause_of_missing();
      diagnosis_.add(std::move(missing_));
    }
    if (surplus_.count == 0) return;
    surplus_.fact = "tensors have no place in the model of config.json";
    surplus_.observed = counted(surplus_.count, "name");
    diagnosis_.add(std::move(surplus_));
  }

  /// Files that are not there, or that lack what the index places in them. A stale index alone
  /// takes no tensor away.
  std::string_view cause_of_missing() const {
    if (diagnosis_.failed("RD801")) return "RD801";
    const bool lacking = std::ranges::any_of(diagnosis_.findings(), [](const DoctorFinding& one) {
      return one.rule == "RD802" && one.damaged;
    });
    return lacking ? "RD802" : "";
  }

  const WeightFiles& weights_;
  Diagnosis& diagnosis_;
  DoctorFinding missing_{kLayers, "", "", ""}, surplus_{kLayers, "", "", ""};
  std::set<int64_t> missing_layers_;
};

}  // namespace

void check_layers(const WeightFiles& weights, Diagnosis& diagnosis) {
  if (!weights.is_folder && parse_shard_name(weights.files.front()->name)) {
    diagnosis.not_applicable(kLayers, "one shard of several");
    return;
  }
  LayerCheck(weights, diagnosis).run();
}

}  // namespace rlreplay::replay
