#pragma once

namespace rlreplay::aten {

/// The number of threads that ATen's operators use from now on, in the whole process.
void set_threads(int threads);

}  // namespace rlreplay::aten
