#include "kernels/cpu/draw_border.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/contract.h"

namespace rlreplay::kernels::cpu {
namespace {

constexpr int64_t kTile = BorderTiles::kTile;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool better(const Ranked& a, const Ranked& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

}  // namespace

size_t BorderSearch::scratch_bytes(int64_t vocab) {
  return kBins * (sizeof(uint64_t) + sizeof(int64_t)) + static_cast<size_t>(vocab) * sizeof(Ranked);
}

BorderSearch::BorderSearch(const DrawTokens& op, int64_t t, const BorderTiles& tiles,
                           std::byte* scratch)
    : op_(op),
      tiles_(tiles),
      logits_(op.logits.row(t)),
      max_(op.max[t]),
      inverse_(1.0f / op.sum[t]),
      masses_(reinterpret_cast<uint64_t*>(scratch)),
      counts_(reinterpret_cast<int64_t*>(masses_ + kBins)),
      found_(reinterpret_cast<Ranked*>(counts_ + kBins)) {}

/// each(first id, elements, bins, probabilities) for every tile.
template <class Each>
void BorderSearch::for_tiles(bool masses, Each&& each) {
  alignas(64) float padded[kTile];
  alignas(64) float probabilities[kTile];
  alignas(64) int32_t bins[kTile];
  for (int64_t first = 0; first < op_.logits.cols; first += kTile) {
    const int64_t n = std::min(kTile, op_.logits.cols - first);
    const float* from = logits_ + first;
    if (n < kTile) {
      std::fill(std::copy(from, from + n, padded), padded + kTile, -kInfinity);
      from = padded;
    }
    tiles_.bins(from, max_, bins);
    if (masses) tiles_.probabilities(from, max_, inverse_, probabilities);
    each(first, n, bins, probabilities);
  }
}

void BorderSearch::fill_histogram(bool masses) {
  std::fill(masses_, masses_ + kBins, 0);
  std::fill(counts_, counts_ + kBins, 0);
  for_tiles(masses, [&](int64_t, int64_t n, const int32_t* bins, const float* probabilities) {
    for (int64_t i = 0; i < n; ++i) ++counts_[bins[i] & (kBins - 1)];
    for (int64_t i = 0; masses && i < n; ++i) {
      masses_[bins[i] & (kBins - 1)] += integer_mass(probabilities[i]);
    }
  });
}

/// Puts the best `needed` of a bin into found_, sorted; returns how many there are.
int64_t BorderSearch::collect(int bin, int64_t needed) {
  int64_t count = 0;
  for_tiles(false, [&](int64_t first, int64_t n, const int32_t* bins, const float*) {
    for (int64_t i = 0; i < n; ++i) {
      if ((bins[i] & (kBins - 1)) != bin) continue;
      // A NaN is a finding, not an answer: it only must not confuse the order.
      const float value = logits_[first + i];
      found_[count++] = {value == value ? value : -kInfinity, static_cast<int32_t>(first + i)};
    }
  });
  if (needed < count) {
    std::nth_element(found_, found_ + needed, found_ + count, better);
    count = needed;
  }
  std::sort(found_, found_ + count, better);
  return count;
}

uint64_t BorderSearch::mass(Ranked candidate) const {
  return integer_mass(contract::exp<contract::Scalar>(candidate.value - max_) * inverse_);
}

Ranked BorderSearch::find() {
  const int64_t vocab = op_.logits.cols;
  const int64_t k = op_.top_k > 0 ? std::min(op_.top_k, vocab) : vocab;
  fill_histogram(op_.top_p < 1);
  int last_bin = 0;
  int64_t before = 0;
  uint64_t kept = 0;
  while (before + counts_[last_bin] < k) {
    kept += masses_[last_bin];
    before += counts_[last_bin++];
  }
  if (op_.top_p < 1 && before + counts_[last_bin] == k) {  // the whole bin: no need to sort it
    return top_p_border(last_bin, counts_[last_bin], kept + masses_[last_bin]);
  }
  const int64_t count = collect(last_bin, k - before);
  if (op_.top_p >= 1) return found_[count - 1];
  for (int64_t i = 0; i < count; ++i) kept += mass(found_[i]);
  return top_p_border(last_bin, count, kept);
}

/// kept: the mass of the bins before last_bin and of the best kept_of_last_bin of that one.
Ranked BorderSearch::top_p_border(int last_bin, int64_t kept_of_last_bin, uint64_t kept) {
  const uint64_t units = top_p_units(op_.top_p);
  uint64_t before = 0;
  int bin = 0;
  while (bin < last_bin &&
         (counts_[bin] == 0 || stays_in_top_p(before + masses_[bin], units, kept))) {
    before += masses_[bin++];
  }
  const int64_t count = collect(bin, bin == last_bin ? kept_of_last_bin : counts_[bin]);
  // The first candidate of this bin stays: it is the first of all, or it was tested above.
  int64_t n = 1;
  for (before += mass(found_[0]); n < count && stays_in_top_p(before, units, kept); ++n) {
    before += mass(found_[n]);
  }
  return found_[n - 1];
}

int32_t BorderSearch::lowest(Ranked last) const {
  for (int64_t i = 0; i < op_.logits.cols; ++i) {
    const Ranked candidate{logits_[i], static_cast<int32_t>(i)};
    if (candidate.id == last.id || better(candidate, last)) return candidate.id;
  }
  return last.id;
}

}  // namespace rlreplay::kernels::cpu
