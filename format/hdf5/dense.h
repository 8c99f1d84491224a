#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "format/hdf5/b_tree.h"
#include "format/hdf5/file.h"

namespace rlreplay::format::h5 {

/// How the links of a group, or the attributes of an object, are indexed where there are many.
/// Source: HDF5 File Format Specification, version 3, "The Link Info Message" and "The
/// Attribute Info Message".
struct DenseForm {
  const char* version;   // what another version of the message is called
  const char* disagree;  // what two indices of different length are called
  size_t highest_order;  // bytes of the highest order in the message
  RecordType names, order;
  size_t name_record, order_record;  // bytes
  size_t id, id_size, checksum;      // places in a record of `names`
};

/// Calls `take` with each object of the heap that a message of information names, and its record,
/// in the order of their names; `take` gives the object's name.
/// Errors: FormatError kContainer, also for an index of no heap, names that are not in order, and a
/// heap that counts other objects than these.
void visit_dense(File& file, Bytes info, const DenseForm& form, size_t most,
                 const std::function<std::string(Bytes object, Bytes record)>& take);

}  // namespace rlreplay::format::h5
