#include <algorithm>

#include "format/unit_index.h"

namespace rlreplay::format {

struct UnitList::Made {
  using Piece = std::array<UnitRecord, kPiece>;

  explicit Made(size_t units) : pieces((units + kPiece - 1) / kPiece) {}

  std::vector<std::atomic<const Piece*>> pieces;
  std::mutex mutex;
  std::vector<std::unique_ptr<const Piece>> owned;
};

UnitList::UnitList(UnitIndex index)
    : index_(std::move(index)), made_(std::make_unique<Made>(index_.size())) {}
UnitList::~UnitList() = default;
UnitList::UnitList(UnitList&&) noexcept = default;

const UnitRecord& UnitList::operator[](size_t row) const {
  std::atomic<const Made::Piece*>& piece = made_->pieces[row / kPiece];
  if (const Made::Piece* there = piece.load(std::memory_order_acquire)) {
    return (*there)[row % kPiece];
  }
  std::lock_guard lock(made_->mutex);
  if (piece.load(std::memory_order_acquire) == nullptr) {
    auto fresh = std::make_unique<Made::Piece>();
    const size_t first = row - row % kPiece;
    for (size_t i = 0; i < std::min(kPiece, size() - first); ++i) {
      (*fresh)[i] = index_.record(first + i);
    }
    piece.store(fresh.get(), std::memory_order_release);
    made_->owned.push_back(std::move(fresh));
  }
  return (*piece.load(std::memory_order_acquire))[row % kPiece];
}

}  // namespace rlreplay::format
