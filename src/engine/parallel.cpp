#include "src/engine/parallel.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace rlreplay::engine {
namespace {

using kernels::KernelSet;
using kernels::Matrix;
using kernels::Range;

std::span<const std::byte> bytes(const Buffer<float>& buffer) {
  return std::as_bytes(std::span(buffer));
}
std::span<std::byte> bytes(Buffer<float>& buffer) {
  return std::as_writable_bytes(std::span(buffer));
}

void copy_rows(Matrix<const float> from, Matrix<float> to) {
  for (int64_t r = 0; r < from.rows; ++r) {
    std::memcpy(to.row(r), from.row(r), static_cast<size_t>(from.cols) * sizeof(float));
  }
}

/// The bytes of a matrix without gaps between its rows, as a collective wants them: its own, or
/// those of a copy in `room`.
std::span<const std::byte> packed(Matrix<const float> m, Buffer<float>& room) {
  if (m.stride != m.cols) {
    room.resize(static_cast<size_t>(m.rows * m.cols));
    copy_rows(m, {room.data(), m.rows, m.cols});
    return bytes(std::as_const(room));
  }
  return std::as_bytes(std::span(m.data, static_cast<size_t>(m.rows * m.cols)));
}

Range rows_of_rank(int64_t rows, int rank, int size) { return kernels::segment(rows, size, rank); }

bool cuts_stream(const Runtime& runtime) {
  return runtime.tp() != nullptr && runtime.ranks->layout.sp;
}

}  // namespace

Range stream_rows(const Runtime& runtime, int64_t rows) {
  if (!cuts_stream(runtime)) return {0, rows};
  return rows_of_rank(rows, runtime.tp()->rank(), runtime.tp()->size());
}

// Every rank sends as many bytes, those of the longest part: zeros behind the others, which nobody
// copies out.
void gather_stream(const Runtime& runtime, Matrix<float> whole) {
  if (!cuts_stream(runtime)) return;
  Group& tp = *runtime.tp();
  const int64_t most = kernels::ceil_div(whole.rows, tp.size()), C = whole.cols;
  Buffer<float> own(static_cast<size_t>(most * C)),
      all(own.size() * static_cast<size_t>(tp.size()));
  std::fill_n(own.data(), own.size(), 0.0f);
  const Range rows = rows_of_rank(whole.rows, tp.rank(), tp.size());
  copy_rows({whole.row(rows.begin), rows.size(), C, whole.stride}, {own.data(), rows.size(), C});
  tp.gather(bytes(std::as_const(own)), bytes(all));
  for (int r = 0; r < tp.size(); ++r) {
    const Range of = rows_of_rank(whole.rows, r, tp.size());
    copy_rows({all.data() + r * most * C, of.size(), C},
              {whole.row(of.begin), of.size(), C, whole.stride});
  }
}

Matrix<const float> whole_stream(const Runtime& runtime, Matrix<const float> own, int64_t rows,
                                 Buffer<float>& room) {
  if (!cuts_stream(runtime)) return own;
  room.resize(static_cast<size_t>(rows * own.cols));
  const Matrix<float> whole{room.data(), rows, own.cols};
  copy_rows(own, {whole.row(stream_rows(runtime, rows).begin), own.rows, own.cols});
  gather_stream(runtime, whole);
  return whole;
}

// Each rank computes one segment of every sum, and combine_segments adds them in the order of
// ranks, as one rank alone adds its own: a collective that reduces would add in another order.
void row_parallel(const Runtime& runtime, Matrix<const float> x, const kernels::PackedWeight& w,
                  const kernels::DotOrder& order, Matrix<const float> residual, Matrix<float> y,
                  Range own) {
  Group* tp = runtime.tp();
  if (tp == nullptr) {
    runtime.run(&KernelSet::matmul,
                {.x = x, .w = &w, .order = &order, .bias = nullptr, .residual = residual, .y = y});
    return;
  }
  const auto size = static_cast<size_t>(x.rows * y.cols);
  Buffer<float> part(size), all(size * static_cast<size_t>(tp->size()));
  runtime.run(&KernelSet::matmul, {.x = x,
                                   .w = &w,
                                   .order = &order,
                                   .bias = nullptr,
                                   .residual = {},
                                   .y = {part.data(), x.rows, y.cols}});
  tp->gather(bytes(std::as_const(part)), bytes(all));
  std::vector<Matrix<const float>> parts;
  for (int r = 0; r < tp->size(); ++r) {
    const float* of_rank = all.data() + static_cast<size_t>(r) * size;
    parts.emplace_back(of_rank + own.begin * y.cols, own.size(), y.cols);
  }
  runtime.run(&KernelSet::combine_segments,
              {.parts = parts, .bias = nullptr, .residual = residual, .y = y});
}

Matrix<float> gather_columns(const Runtime& runtime, Matrix<const float> own, Buffer<float>& room) {
  Group& tp = *runtime.tp();
  const auto size = static_cast<size_t>(own.rows * own.cols);
  Buffer<float> copy, all(size * static_cast<size_t>(tp.size()));
  tp.gather(packed(own, copy), bytes(all));
  room.resize(all.size());
  const Matrix<float> out{room.data(), own.rows, own.cols * tp.size()};
  for (int r = 0; r < tp.size(); ++r) {
    copy_rows({all.data() + static_cast<size_t>(r) * size, own.rows, own.cols},
              {out.data + r * own.cols, own.rows, own.cols, out.stride});
  }
  return out;
}

Matrix<float> gather_axis(const Runtime& runtime, Matrix<const float> own, int64_t n,
                          Buffer<float>& room) {
  const int ranks = runtime.tp()->size();
  const int64_t most = kernels::ceil_div(n, ranks);
  Buffer<float> padded(static_cast<size_t>(own.rows * most)), columns;
  std::fill_n(padded.data(), padded.size(), 0.0f);
  copy_rows(own, {padded.data(), own.rows, own.cols, most});
  const Matrix<float> all =
      gather_columns(runtime, Matrix<const float>(padded.data(), own.rows, most), columns);
  room.resize(static_cast<size_t>(own.rows * n));
  const Matrix<float> out{room.data(), own.rows, n};
  for (int r = 0; r < ranks; ++r) {
    const Range part = kernels::segment(n, ranks, r);
    copy_rows({all.data + r * most, own.rows, part.size(), all.stride},
              {out.data + part.begin, own.rows, part.size(), n});
  }
  return out;
}

Matrix<float> gather_context(const Runtime& runtime, const ContextRows& context,
                             Matrix<const float> own, Buffer<float>& room) {
  Group& cp = *runtime.cp();
  const auto size = static_cast<size_t>(context.longest * own.cols);
  Buffer<float> padded(size), all(size * static_cast<size_t>(cp.size()));
  std::fill_n(padded.data(), size, 0.0f);
  copy_rows(own, {padded.data(), own.rows, own.cols});
  cp.gather(bytes(std::as_const(padded)), bytes(all));
  room.resize(static_cast<size_t>(context.rows * own.cols));
  const Matrix<float> out{room.data(), context.rows, own.cols};
  for (size_t r = 0; r < context.runs.size(); ++r) {
    const Matrix<const float> of{all.data() + r * size, context.longest, own.cols};
    for (const RowRunOfRank& run : context.runs[r]) {
      copy_rows({of.row(run.own), run.count, own.cols}, {out.row(run.whole), run.count, own.cols});
    }
  }
  return out;
}

}  // namespace rlreplay::engine
