#pragma once

#include "kernels/functions.h"

namespace rlreplay::sweep {

/// f(x) in binary64 by libm, relative error below 2^-44 (a measuring tool may use it).
double truth(kernels::Function function, double x);

}  // namespace rlreplay::sweep
