#pragma once

#include <exception>

#include "format/hdf5_ids.h"
#include "format/sink.h"

/// Included by hdf5_*.cpp only.
namespace rlreplay::format::h5 {

/// What a file that libhdf5 builds through the driver below reaches. libhdf5 cannot be told why a
/// write failed, and does not always end well when one does: the first error is kept here, and from
/// then on every write seems to succeed.
struct Outlet {
  Sink* sink = nullptr;
  uint64_t end = 0;  // of the file
  std::exception_ptr error;

  void rethrow() const {
    if (error) std::rethrow_exception(error);
  }
};

/// Makes the file driver that writes to `outlet` the one of the property list.
void use_outlet(hid_t access, Outlet* outlet);

}  // namespace rlreplay::format::h5
