#include "src/engine/gradients.h"

#include <algorithm>

#include "src/base/error.h"

namespace rlreplay::engine {

Gradients::Gradients(const ParameterTable& parameters)
    : parameters_(&parameters),
      sums_(static_cast<size_t>(parameters.elements)),
      begun_(parameters.list.size()),
      rejected_(parameters.list.size()) {}

void Gradients::begin(int scale, const ContributionCounts& counts) {
  scale_ = scale;
  counts_ = counts;
  std::fill(begun_.begin(), begun_.end(), false);
  std::fill(rejected_.begin(), rejected_.end(), kernels::Rejected());
}

void Gradients::settle(int parameter) {
  if (begun_[static_cast<size_t>(parameter)]) return;
  const Parameter& p = (*parameters_)[parameter];
  std::fill_n(sums_.data() + p.offset, p.size(), int64_t{0});
  begun_[static_cast<size_t>(parameter)] = true;
}

void Gradients::finish() {
  for (size_t i = 0; i < begun_.size(); ++i) settle(static_cast<int>(i));
}

kernels::Matrix<int64_t> Gradients::sum(int parameter) {
  const Parameter& p = (*parameters_)[parameter];
  return {sums_.data() + p.offset, p.rows, p.cols};
}

int64_t Gradients::contributions(const Parameter& p) const {
  const bool tied = p.role == Role::kEmbedding && parameters_->head == parameters_->embedding;
  switch (p.role) {
    case Role::kMatrix:
    case Role::kHead:
      return counts_.leaves;
    case Role::kEmbedding:
      return tied ? counts_.leaves + counts_.tokens : counts_.tokens;
    case Role::kBias:
    case Role::kNorm:
    case Role::kHeadNorm:
      return counts_.tokens * p.heads;
  }
  return 0;
}

kernels::TokenSum Gradients::place_of(std::initializer_list<int> parameters) {
  const Parameter& first = (*parameters_)[*parameters.begin()];
  kernels::TokenSum out;
  out.sum = {sums_.data() + first.offset, first.rows, first.cols};
  int64_t end = first.offset;
  for (int i : parameters) {
    const Parameter& p = (*parameters_)[i];
    check(p.offset == end && p.role == first.role && (p.is_vector() || p.cols == first.cols),
          "a fused gradient needs adjacent parameters of one kind");
    end += p.size();
  }
  const int64_t elements = end - first.offset;
  if (first.is_vector()) {
    out.sum.cols = out.sum.stride = elements;
  } else {
    out.sum.rows = elements / first.cols;
  }
  out.scale = scale_;
  out.contributions = std::max<int64_t>(1, contributions(first));
  out.rejected = &rejected_[static_cast<size_t>(*parameters.begin())];
  return out;
}

kernels::TokenSum Gradients::token_sum(std::initializer_list<int> parameters) {
  for (const int i : parameters) settle(i);
  return place_of(parameters);
}

kernels::MatmulTokens Gradients::product(kernels::Matrix<const float> dy,
                                         kernels::Matrix<const float> x,
                                         std::span<const kernels::Range> leaves,
                                         std::initializer_list<int> parameters) {
  const auto begun = [&](int i) { return bool{begun_[static_cast<size_t>(i)]}; };
  const bool accumulate = std::any_of(parameters.begin(), parameters.end(), begun);
  if (accumulate) return {dy, x, leaves, token_sum(parameters), true};
  for (const int i : parameters) begun_[static_cast<size_t>(i)] = true;
  return {dy, x, leaves, place_of(parameters), false};
}

std::optional<Gradients::Refused> Gradients::refused() const {
  std::optional<Refused> out;
  for (size_t i = 0; i < rejected_.size(); ++i) {
    const kernels::Rejected& rejected = rejected_[i];
    if (!rejected.any() || (out && (!out->finite || rejected.finite()))) continue;
    // Fused parameters are adjacent: the element says in which of them it is.
    size_t owner = i;
    int64_t element = rejected.element();
    while (element >= parameters_->list[owner].size()) {
      element -= parameters_->list[owner++].size();
    }
    out = {static_cast<int>(owner), element, rejected.finite()};
  }
  return out;
}

}  // namespace rlreplay::engine
