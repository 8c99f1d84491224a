#include <algorithm>
#include <map>

#include "src/base/progress.h"
#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/doctor/value_scan.h"
#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kConstant = "RD805", kFinite = "RD807", kTypes = "RD808";
constexpr int64_t kMiB = int64_t{1} << 20;

/// Tensors that may well hold one value: what LoRA begins with, and what belongs to quantisers.
bool may_be_constant(std::string_view name) {
  return std::ranges::any_of(
      std::to_array<std::string_view>({"lora_B", "scale", "zero", "inv_freq", "position_ids"}),
      [&](std::string_view word) { return name.find(word) != name.npos; });
}

/// Where an element stands: "model.norm.weight[3, 7]".
std::string element_place(const foreign::StoredTensor& tensor, int64_t index) {
  std::vector<int64_t> place(tensor.shape.size());
  for (size_t i = place.size(); i-- > 0;) {
    place[i] = index % tensor.shape[i];
    index /= tensor.shape[i];
  }
  return tensor.name + foreign::shape_text(place);
}

/// Parts of a tensor that are matrices of their own: experts in one tensor, not the channels of a
/// convolution.
size_t parts_of(const foreign::StoredTensor& tensor) {
  const bool stacked =
      tensor.shape.size() == 3 && tensor.count() > 0 && tensor.shape[1] > 1 && tensor.shape[2] > 1;
  return stacked ? static_cast<size_t>(tensor.shape[0]) : 1;
}

/// Goes over the values of one tensor after the other and gathers two findings: a place for each
/// tensor that is not finite, and one for each matrix of one value.
class ValueCheck {
 public:
  explicit ValueCheck(int64_t bytes) : progress_("values", "MiB", bytes / kMiB) {}

  void look_at(const WeightTensor& tensor) {
    const foreign::StoredTensor& stored = *tensor.stored;
    if (!is_floating(stored.dtype) || stored.data.empty()) return;
    const size_t parts = parts_of(stored);
    const size_t size = stored.data.size() / parts;
    bool finite = true;
    for (size_t i = 0; i < parts; ++i) {
      const foreign::Bytes data = stored.data.subspan(i * size, size);
      const ValueScan scan =
          scan_values(tensor.file->content.file(), stored.dtype, data, [&](size_t bytes) {
            done_ += static_cast<int64_t>(bytes);
            progress_.at(done_ / kMiB);
          });
      const auto begin = static_cast<int64_t>(i * size / size_of(stored.dtype));
      if (scan.nonfinite && finite) {
        finite = false;
        add_nonfinite(stored, {scan.nonfinite->index + begin, scan.nonfinite->nan});
      }
      const bool matrix = stored.shape.size() >= 2 && data.size() > size_of(stored.dtype);
      if (scan.constant && matrix && !scan.nonfinite && !may_be_constant(stored.name)) {
        add_constant(stored, data, parts > 1 ? "[" + std::to_string(i) + "]" : "");
      }
    }
  }

  void report(Diagnosis& diagnosis) {
    if (nonfinite_.count > 0) {
      nonfinite_.fact = nonfinite_.count == 1 ? "a tensor holds numbers that are not finite"
                                              : "tensors hold numbers that are not finite";
      nonfinite_.observed = counted(nonfinite_.count, "tensor");
      diagnosis.add(std::move(nonfinite_));
    }
    if (constant_.count == 0) return;
    constant_.fact =
        constant_.count == 1 ? "a matrix holds one value alone" : "matrices hold one value alone";
    if (routers_ == constant_.count) constant_.fact += ", a router's";
    diagnosis.add(std::move(constant_));
  }

 private:
  void add_nonfinite(const foreign::StoredTensor& tensor, foreign::NonFinite found) {
    nonfinite_.add_place(element_place(tensor, found.index) + " is " +
                         (found.nan ? "NaN" : "infinite"));
  }

  void add_constant(const foreign::StoredTensor& tensor, foreign::Bytes data,
                    const std::string& part) {
    const std::string value = element_text(tensor.dtype, data, 0);
    if (constant_.count == 0) constant_.observed = "all elements are " + value;
    if (is_router(tensor.name)) ++routers_;
    constant_.add_place(tensor.name + part + ": " + value);
  }

  Progress progress_;
  int64_t done_ = 0;
  DoctorFinding nonfinite_{kFinite, "", "", ""}, constant_{kConstant, "", "", ""};
  size_t routers_ = 0;
};

int64_t floating_bytes(const WeightFiles& weights) {
  int64_t bytes = 0;
  for (const WeightTensor& tensor : weights.tensors) {
    if (is_floating(tensor.stored->dtype))
      bytes += static_cast<int64_t>(tensor.stored->data.size());
  }
  return bytes;
}

/// What config.json says the element type is, by its name since transformers 5 and before.
std::optional<DType> type_said(const WeightFiles& weights) {
  auto said = weights.setting("dtype");
  if (!said) said = weights.setting("torch_dtype");
  if (!said || !said->is_string()) return std::nullopt;
  if (said->string() == "float32") return DType::kF32;
  if (said->string() == "bfloat16") return DType::kBF16;
  if (said->string() == "float16") return DType::kF16;
  return std::nullopt;
}

void check_mixed(const WeightFiles& weights, Diagnosis& diagnosis) {
  std::map<std::string, std::map<DType, size_t>> kinds;
  const auto kind = [](const WeightTensor& tensor) {
    const WeightName name = split_name(tensor.name());
    return name.layer < 0 ? "" : name.stack + " " + name.role;
  };
  for (const WeightTensor& tensor : weights.tensors) ++kinds[kind(tensor)][tensor.stored->dtype];
  kinds.erase("");
  DoctorFinding finding{kTypes, "layers have a kind of tensor in several element types", "", ""};
  finding.severity = Severity::kWarning;
  for (const WeightTensor& tensor : weights.tensors) {
    const auto found = kinds.find(kind(tensor));
    if (found == kinds.end() || found->second.size() < 2) continue;
    const auto& [usual, count] =
        *std::ranges::max_element(found->second, {}, [](const auto& one) { return one.second; });
    if (tensor.stored->dtype == usual) continue;
    const std::string text = std::string(to_string(tensor.stored->dtype)) + " instead of " +
                             std::string(to_string(usual));
    if (finding.observed.empty()) finding.observed = text;
    finding.add_place(tensor.name() + ": " + text);
  }
  if (!finding.places.empty()) diagnosis.add(std::move(finding));
}

void check_said(const WeightFiles& weights, DType said, Diagnosis& diagnosis) {
  std::map<DType, int64_t> elements;
  for (const WeightTensor& tensor : weights.tensors) {
    elements[tensor.stored->dtype] += tensor.stored->count();
  }
  const auto& [most, count] =
      *std::ranges::max_element(elements, {}, [](const auto& one) { return one.second; });
  if (most == said) return;
  diagnosis.add({.rule = kTypes,
                 .fact = "most elements have another type than config.json says",
                 .observed = std::string(to_string(most)) + ", config.json says " +
                             std::string(to_string(said)),
                 .where = "config.json",
                 .severity = Severity::kNote});
}

}  // namespace

void check_values(const WeightFiles& weights, Diagnosis& diagnosis) {
  const int64_t bytes = floating_bytes(weights);
  if (bytes == 0) {
    for (const auto rule : {kConstant, kFinite}) {
      diagnosis.not_applicable(rule, "no tensor of numbers with fractions could be read");
    }
    return;
  }
  ValueCheck check(bytes);
  for (const WeightTensor& tensor : weights.tensors) check.look_at(tensor);
  check.report(diagnosis);
}

void check_types(const WeightFiles& weights, Diagnosis& diagnosis) {
  check_mixed(weights, diagnosis);
  const auto said = type_said(weights);
  if (said && !weights.setting("quantization_config")) check_said(weights, *said, diagnosis);
}

}  // namespace rlreplay::replay
