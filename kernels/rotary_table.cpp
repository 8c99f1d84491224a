#include "kernels/rotary_table.h"

#include <string>
#include <vector>

#include "kernels/binary64.h"
#include "src/base/error.h"
#include "src/base/thread_pool.h"

namespace rlreplay::kernels {
namespace {

void refuse(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, "rotary embedding: " + what);
}

void validate(const RopeConfig& c) {
  if (c.head_size < 2 || c.head_size % 2 != 0) refuse("the head size must be even and positive");
  if (!(c.theta > 0 && c.theta < 0x1p126)) refuse("theta must be positive and finite");
  if (c.scaling == RopeScaling::kNone) return;
  if (!(c.factor >= 1 && c.factor < 0x1p60)) refuse("the scaling factor must be at least 1");
  if (c.scaling == RopeScaling::kLinear) return;
  if (!(c.low_freq_factor > 0 && c.high_freq_factor > c.low_freq_factor)) {
    refuse("llama3 scaling needs 0 < low_freq_factor < high_freq_factor");
  }
  if (!(c.original_max_position_embeddings >= 1)) {
    refuse("llama3 scaling needs original_max_position_embeddings");
  }
}

/// Long wavelengths are divided by the factor, short ones kept, those between interpolated.
template <class Real>
Real scale_llama3(Real frequency, const RopeConfig& c) {
  const Real low = static_cast<Real>(c.low_freq_factor);
  const Real factor = static_cast<Real>(c.factor);
  const double context = c.original_max_position_embeddings;
  const Real wavelength = static_cast<Real>(0x1.921fb54442d18p+2) / frequency;  // 2 pi
  if (wavelength > static_cast<Real>(context / c.low_freq_factor)) return frequency / factor;
  if (wavelength < static_cast<Real>(context / c.high_freq_factor)) return frequency;
  const Real span = static_cast<Real>(c.high_freq_factor - c.low_freq_factor);
  const Real smooth = (static_cast<Real>(context) / wavelength - low) / span;
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

/// theta^(-2i/n), every step rounded to Real; the power itself is a binary64 program.
template <class Real>
Real frequency(const RopeConfig& c, int64_t i) {
  const Real exponent = static_cast<Real>(2 * i) / static_cast<Real>(c.head_size);
  const Real power =
      static_cast<Real>(binary64::pow(static_cast<Real>(c.theta), static_cast<double>(exponent)));
  const Real plain = 1 / power;
  if (c.scaling == RopeScaling::kLinear) return plain / static_cast<Real>(c.factor);
  return c.scaling == RopeScaling::kLlama3 ? scale_llama3(plain, c) : plain;
}

}  // namespace

std::string_view to_string(Rope rope) { return rope == Rope::kHf ? "hf" : "exact"; }

std::string_view to_string(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "default";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kLlama3:
      return "llama3";
  }
  return "default";
}

double inverse_frequency(const RopeConfig& config, int64_t i) {
  validate(config);
  return config.rope == Rope::kHf ? frequency<float>(config, i) : frequency<double>(config, i);
}

RotaryTable::RotaryTable(const RopeConfig& config, int64_t positions, ThreadPool& pool)
    : positions_(positions), pairs_(config.head_size / 2) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < pairs_; ++i) frequencies.push_back(inverse_frequency(config, i));
  validate(config);
  if (positions < 0 || positions > (int64_t{1} << 24)) refuse("positions must be below 2^24");
  cos_.resize(static_cast<size_t>(positions * pairs_));
  sin_.resize(static_cast<size_t>(positions * pairs_));
  pool.run(positions, [&](int64_t position, int) {
    for (int64_t i = 0; i < pairs_; ++i) {
      double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
      if (config.rope == Rope::kHf) angle = static_cast<float>(angle);
      const size_t at = static_cast<size_t>(position * pairs_ + i);
      cos_[at] = static_cast<float>(binary64::cos(angle));
      sin_[at] = static_cast<float>(binary64::sin(angle));
    }
  });
}

}  // namespace rlreplay::kernels
