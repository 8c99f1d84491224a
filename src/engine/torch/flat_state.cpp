#include "src/engine/torch/flat_state.h"

#include "src/engine/torch/convert.h"

namespace rlreplay::aten {
namespace {

/// Parts of one memory, each without a history of autograd.
std::vector<at::Tensor> views(const ParameterTable& parameters, const at::Tensor& flat) {
  std::vector<at::Tensor> out;
  for (const Parameter& p : parameters.list) {
    const auto part = flat.narrow(0, p.offset, p.size());
    out.push_back((p.is_vector() ? part : part.view({p.rows, p.cols})).detach());
  }
  return out;
}

}  // namespace

FlatState::Flat FlatState::make_flat(int64_t elements, Precision precision) const {
  Flat out;
  out.values = at::zeros({elements}, scalar_type(precision));
  out.rounded = precision == Precision::kFloat32 ? out.values : at::zeros({elements}, at::kFloat);
  return out;
}

FlatState::FlatState(const ParameterTable& parameters, Precision precision, bool training) {
  for (int i = 0; i < (training ? 3 : 1); ++i) {
    flats_.push_back(make_flat(parameters.elements, precision));
  }
  weights_ = views(parameters, flats_[0].values);
  if (!training) return;
  for (at::Tensor& w : weights_) w.requires_grad_(true);
  first_ = views(parameters, flats_[1].values);
  second_ = views(parameters, flats_[2].values);
}

StateSpans<float> FlatState::spans() {
  const auto span = [&](size_t i) -> std::span<float> {
    if (i >= flats_.size()) return {};
    Flat& flat = flats_[i];
    if (!flat.rounded.is_same(flat.values)) flat.rounded.copy_(flat.values);
    return {flat.rounded.mutable_data_ptr<float>(), static_cast<size_t>(flat.rounded.numel())};
  };
  return {span(0), span(1), span(2)};
}

void FlatState::adopt() {
  for (Flat& flat : flats_) {
    if (!flat.rounded.is_same(flat.values)) flat.values.copy_(flat.rounded);
  }
}

}  // namespace rlreplay::aten
