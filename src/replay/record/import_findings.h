#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/dataset.h"
#include "format/dump_reader.h"
#include "format/foreign/tree_check.h"

namespace rlreplay::replay {

/// The kind of the unit that says in what the files of an import contradict themselves, and which
/// rule gave their samples other ids.
inline constexpr std::string_view kFindingsKind = "x-findings";
inline constexpr const char* kFindingsUnit = "x-findings/import.h5";

/// Whether files contradict each other, their names or themselves, or one is missing: a reader of
/// the imported dump must be told of it.
[[nodiscard]] bool is_contradiction(const foreign::Problem& finding);

/// Whether samples have their place in the file as id, so that a reader must be told.
[[nodiscard]] bool is_replaced_id(const foreign::Problem& finding);

/// Whether it is of a step for which terms of its policy are missing or unplaced.
[[nodiscard]] bool is_unplaced_term(const foreign::Problem& finding);

/// Whether it is of what an import could not judge, and a reader of the imported dump must be told:
/// such terms, and columns of which a file holds a part.
[[nodiscard]] bool is_unjudged(const foreign::Problem& finding);

/// Findings as the content of their unit, a line each.
[[nodiscard]] std::vector<format::Dataset> findings_datasets(
    const std::vector<foreign::Problem>& findings);

/// The contradictions that an import found; empty where it found nothing, or the dump is none.
/// Errors: FormatError; kCorrupt where the unit says something else.
[[nodiscard]] std::vector<foreign::Problem> recorded_findings(const format::DumpReader& dump);

/// recorded_findings() as lines of the content (format/SPEC.md section 7): "CODE: MESSAGE (WHERE)".
[[nodiscard]] std::set<std::string> contradictions(const format::DumpReader& dump);

/// What the import of a dump could not judge, a sentence each.
[[nodiscard]] std::vector<std::string> unjudged(const format::DumpReader& dump);

/// What its import found where samples have other ids than their files say.
[[nodiscard]] std::vector<foreign::Problem> replaced_ids(const format::DumpReader& dump);

}  // namespace rlreplay::replay
