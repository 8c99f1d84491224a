#include "format/hdf5/dense.h"

#include "format/hdf5/fractal_heap.h"

namespace rlreplay::format::h5 {
namespace {

/// The addresses that a message of information gives of a heap and its indices, by name and by
/// order of creation; kNowhere for one that is not there.
struct DensePlace {
  uint64_t heap = kNowhere, names = kNowhere, order = kNowhere;
};

DensePlace place_of(Bytes info, const DenseForm& form, const File& file) {
  constexpr uint64_t kTracked = 0x01, kIndexed = 0x02;
  Cursor c(info, file);
  c.expect(1, 0, form.version);
  const uint64_t flags = c.byte();
  file.expect_flags(flags, kTracked | kIndexed, "an object with unknown flags");
  c.skip((flags & kTracked) != 0 ? form.highest_order : 0);
  DensePlace out{c.address(), c.address()};
  if ((flags & kIndexed) != 0) out.order = c.address();
  file.expect(out.heap != kNowhere || (out.names == kNowhere && out.order == kNowhere),
              "an index of no heap");
  return out;
}

}  // namespace

void visit_dense(File& file, Bytes info, const DenseForm& form, size_t most,
                 const std::function<std::string(Bytes, Bytes)>& take) {
  const DensePlace place = place_of(info, form, file);
  if (place.heap == kNowhere) return;
  FractalHeap heap(file, place.heap);
  NameOrder order;
  const auto records = records_of(file, place.names, form.names, form.name_record, most);
  for (const Bytes record : records) {
    const std::string name = take(heap.object(record.subspan(form.id, form.id_size)), record);
    order.next(file, Cursor(record.subspan(form.checksum), file).number(4), name);
  }
  heap.expect_counted();
  if (place.order == kNowhere) return;
  const auto again = records_of(file, place.order, form.order, form.order_record, most);
  file.expect_equal(again.size(), records.size(), form.disagree);
}

}  // namespace rlreplay::format::h5
