#include <algorithm>
#include <map>
#include <set>

#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/doctor/known_tensors.h"
#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kShapes = "RD811";

using Shape = std::vector<int64_t>;

std::string difference_text(const Shape& is, const Shape& wanted) {
  const std::string text = foreign::shape_text(is) + " instead of " + foreign::shape_text(wanted);
  const bool turned = is.size() == 2 && wanted.size() == 2 && is[0] == wanted[1] &&
                      is[1] == wanted[0] && is != wanted;
  return text + (turned ? ", transposed" : "");
}

/// A kind of tensor: the stack, the type of its layer and its role.
std::string kind_of(const WeightName& name) {
  return name.layer < 0 ? "" : name.stack + " " + name.role;
}

/// Gathers the tensors that have another shape than is wanted, for one finding. What is wanted says
/// the configuration, or of a model that is not known the other layers.
class ShapeCheck {
 public:
  explicit ShapeCheck(const WeightFiles& weights) : weights_(weights) {}

  void against_config(const std::vector<foreign::ExpectedTensor>& expected) {
    std::map<std::string_view, const Shape*> wanted;
    for (const auto& tensor : expected) wanted.emplace(tensor.name, &tensor.shape);
    for (const WeightTensor& tensor : weights_.tensors) {
      const auto found = wanted.find(tensor.name());
      if (found == wanted.end()) continue;
      // How many rows a vocabulary has is asked by RD604.
      const bool rows = is_embedding(tensor.name()) || is_head(tensor.name());
      Shape shape = tensor.stored->shape;
      if (rows && shape.size() == 2) shape[0] = found->second->front();
      if (shape != *found->second) add(tensor, *found->second);
    }
  }

  void against_each_other() {
    std::map<std::string, std::map<Shape, size_t>> kinds;
    for (const WeightTensor& tensor : weights_.tensors) {
      const std::string kind = kind_of(split_name(tensor.name()));
      if (!kind.empty()) ++kinds[kind][tensor.stored->shape];
    }
    for (const WeightTensor& tensor : weights_.tensors) {
      const auto found = kinds.find(kind_of(split_name(tensor.name())));
      if (found == kinds.end() || found->second.size() != 2) continue;  // more: they are meant to
      const auto& [shape, count] =
          *std::ranges::max_element(found->second, {}, [](const auto& one) { return one.second; });
      // Kinds of layers that alternate are no mistake.
      if (tensor.stored->shape != shape && found->second.at(tensor.stored->shape) * 4 <= count) {
        add(tensor, shape);
      }
    }
  }

  void report(Severity severity, Diagnosis& diagnosis) {
    if (finding_.count == 0) return;
    finding_.fact =
        finding_.count == 1 ? "a tensor has another shape" : "tensors have other shapes";
    finding_.severity = severity;
    diagnosis.add(std::move(finding_));
  }

 private:
  void add(const WeightTensor& tensor, const Shape& wanted) {
    const std::string text = difference_text(tensor.stored->shape, wanted);
    if (finding_.count == 0) finding_.observed = text;
    finding_.add_place(tensor.name() + ": " + text);
  }

  const WeightFiles& weights_;
  DoctorFinding finding_{kShapes, "", "", ""};
};

}  // namespace

void check_shapes(const WeightFiles& weights, Diagnosis& diagnosis) {
  ShapeCheck check(weights);
  if (const auto expected = known_tensors(weights)) {
    check.against_config(*expected);
    check.report(Severity::kError, diagnosis);
    return;
  }
  std::set<int64_t> layers;
  for (const WeightTensor& tensor : weights.tensors) {
    layers.insert(split_name(tensor.name()).layer);
  }
  layers.erase(-1);
  if (layers.size() < 2) {
    diagnosis.not_applicable(kShapes,
                             "neither a known model nor layers to be held against each other");
    return;
  }
  check.against_each_other();
  check.report(Severity::kWarning, diagnosis);
}

}  // namespace rlreplay::replay
