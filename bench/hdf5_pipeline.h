#pragma once

#include <string>
#include <vector>

#include "format/dataset.h"
#include "format/unit_writer.h"

/// What a dump would be with HDF5's own filter pipeline at the same settings: the other side of the
/// comparison.
namespace rlreplay::bench {

/// Makes the zstd filter known to libhdf5, with the same codec that dumps use.
void register_zstd();

/// Writes the datasets through the pipeline (shuffle, zstd) with a hash each, and makes the file
/// durable.
void pipeline_write(const std::string& path, const std::vector<format::Dataset>& datasets,
                    const format::Packing& packing);

/// Reads every dataset through the pipeline and checks its hash.
void pipeline_read(const std::string& path, const std::vector<format::Dataset>& datasets);

}  // namespace rlreplay::bench
