#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/doctor/diagnose.h"
#include "src/replay/doctor/doctor_report.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct DoctorArguments {
  std::string path, reference, explain;
  bool list = false;
  bool all = false;
  bool json = false;
};

/// The table of rules, or one of them, where it is asked for.
int print_rules(const DoctorArguments& arguments) {
  if (!arguments.path.empty()) {
    throw Error(ErrorCode::kUsage, "--list and --explain say what rules are; leave the path out",
                arguments.path);
  }
  const auto rules =
      arguments.list ? doctor_rules() : std::span(&find_doctor_rule(arguments.explain), size_t{1});
  if (arguments.json) {
    std::cout << rules_json(rules) << '\n';
  } else {
    std::cout << (arguments.list ? rules_text(rules) : rule_text(rules.front()));
  }
  return 0;
}

/// A reference that is not whole is nothing to hold weights against.
WeightFiles open_reference(const std::string& path) {
  WeightFiles reference = WeightFiles::open(path);
  Diagnosis diagnosis;
  check_files(reference, diagnosis);
  check_index(reference, diagnosis);
  for (const DoctorFinding& finding : diagnosis.findings()) {
    if (!finding.damaged) continue;
    throw Error(ErrorCode::kCorrupt,
                "the reference cannot be read: " + finding.where + ": " + finding.observed, path);
  }
  return reference;
}

int run_doctor(const DoctorArguments& arguments) {
  if (arguments.list || !arguments.explain.empty()) return print_rules(arguments);
  if (arguments.path.empty()) {
    throw Error(ErrorCode::kUsage, "CKPT is missing; see rlreplay doctor --help");
  }
  const WeightFiles weights = WeightFiles::open(arguments.path);
  std::optional<WeightFiles> reference;
  if (!arguments.reference.empty()) reference = open_reference(arguments.reference);
  const Diagnosis diagnosis = diagnose(weights, reference ? &*reference : nullptr);
  if (arguments.json) {
    std::cout << diagnosis_json(weights, arguments.reference, diagnosis) << '\n';
  } else {
    std::cout << diagnosis_text(weights, arguments.reference, diagnosis, arguments.all);
  }
  return diagnosis.code();
}

}  // namespace

void add_doctor(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* verb = program.add_subcommand("doctor", "Whether a checkpoint's weights are sound");
  verb->add_option("ckpt", arguments->path,
                   "a checkpoint: a folder of safetensors, or a file of it");
  verb->add_option("--ref", arguments->reference, "compare with this checkpoint, tensor by tensor");
  auto* list = verb->add_flag("--list", arguments->list, "list the rules");
  verb->add_option("--explain", arguments->explain, "say what a rule is about, as RD805")
      ->excludes(list);
  verb->add_flag("--all", arguments->all, "print every finding and place");
  verb->add_flag("--json", arguments->json, "print one JSON object");
  verb->footer(
      "Every byte of the weights is read, without a model: files and index, layers and experts,\n"
      "shapes, vocabulary, head, element types, values. Each rule passes, fails or cannot be "
      "asked,\n"
      "and then says why. Findings come with what to do, causes before what follows from them.\n"
      "With --ref also whether it has the tensors of another checkpoint, under the names of the\n"
      "hub, of Megatron, or fused as vLLM and SGLang do, and how they differ.\n"
      "Exit code 3 where a file is damaged or missing, 1 where a rule found an error; warnings "
      "and\n"
      "notes leave 0.\n\nExamples:\n"
      "  rlreplay doctor Qwen2.5-0.5B/\n"
      "  rlreplay doctor exported/ --ref Qwen2.5-0.5B/\n"
      "  rlreplay doctor model.safetensors --all\n"
      "  rlreplay doctor --explain RD805");
  verb->callback([=, &chosen] { chosen = [=] { return run_doctor(*arguments); }; });
}

}  // namespace rlreplay::replay
