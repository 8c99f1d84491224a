#pragma once

#include "kernels/kernels.h"
#include "src/engine/rank_mesh.h"

namespace rlreplay::engine {

/// Does what rank 0 orders, until it needs no rank any more. Errors: what ends this rank, of which
/// the others are told; those of RankMesh.
void serve_rank(RankMesh& mesh, const kernels::KernelSet& kernels);

/// Rank 0 tells the others that they are not needed any more.
void dismiss_ranks(RankMesh& mesh);

}  // namespace rlreplay::engine
