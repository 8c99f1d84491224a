#pragma once

#include "src/replay/doctor/diagnosis.h"
#include "src/replay/doctor/weight_files.h"
#include "src/replay/doctor/weight_versions.h"

/// The rules on one checkpoint. Each adds what it finds, or why it could not be asked.
namespace rlreplay::replay {

/// RD801: files. RD802: their index.
void check_files(const WeightFiles& weights, Diagnosis& diagnosis);
void check_index(const WeightFiles& weights, Diagnosis& diagnosis);

/// RD803: layers and experts. RD811: shapes.
void check_layers(const WeightFiles& weights, Diagnosis& diagnosis);
void check_shapes(const WeightFiles& weights, Diagnosis& diagnosis);

/// RD604: vocabulary. RD804: the head.
void check_vocabulary(const WeightFiles& weights, Diagnosis& diagnosis);
void check_head(const WeightFiles& weights, Diagnosis& diagnosis);

/// RD805 and RD807: values, all of them. RD808: element types.
void check_values(const WeightFiles& weights, Diagnosis& diagnosis);
void check_types(const WeightFiles& weights, Diagnosis& diagnosis);

/// RD809: the weights against those that they should be, tensor by tensor, and against earlier ones
/// where they are not. Errors: those of WeightVersions.
void check_reference(const WeightFiles& weights, WeightVersions& versions, Diagnosis& diagnosis);

}  // namespace rlreplay::replay
