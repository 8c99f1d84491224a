#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "src/base/error.h"
#include "src/replay/doctor/diagnose.h"
#include "src/replay/doctor/doctor_report.h"
#include "src/replay/doctor/weight_versions.h"
#include "src/replay/verbs/verb.h"

namespace rlreplay::replay {
namespace {

struct DoctorArguments {
  std::string path, explain;
  WeightReference reference;
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

/// Errors: kUsage.
void check_reference_words(const WeightReference& reference) {
  if (!reference.path.empty() || (reference.step.empty() && reference.earlier.empty())) return;
  throw Error(ErrorCode::kUsage, "--step and --earlier say more of --ref, which is missing");
}

int run_doctor(const DoctorArguments& arguments) {
  if (arguments.list || !arguments.explain.empty()) return print_rules(arguments);
  if (arguments.path.empty()) {
    throw Error(ErrorCode::kUsage, "CKPT is missing; see rlreplay doctor --help");
  }
  check_reference_words(arguments.reference);
  const WeightFiles weights = WeightFiles::open(arguments.path);
  std::optional<WeightVersions> versions;
  if (!arguments.reference.path.empty()) versions.emplace(arguments.reference);
  const Diagnosis diagnosis = diagnose(weights, versions ? &*versions : nullptr);
  WeightReference reference = arguments.reference;
  if (versions && versions->step()) reference.step = versions->step()->name();
  if (arguments.json) {
    std::cout << diagnosis_json(weights, reference, diagnosis) << '\n';
  } else {
    std::cout << diagnosis_text(weights, reference, diagnosis, arguments.all);
  }
  return diagnosis.code();
}

}  // namespace

void add_doctor(CLI::App& program, VerbRun& chosen) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* verb = program.add_subcommand("doctor", "Whether a checkpoint's weights are sound");
  verb->add_option("ckpt", arguments->path,
                   "a checkpoint: a folder of safetensors, or a file of it");
  verb->add_option("--ref", arguments->reference.path,
                   "compare with this checkpoint, or with the weights of this dump, tensor by "
                   "tensor");
  verb->add_option("--step", arguments->reference.step,
                   "of a dump the weights before this step, as 3.0; default: the last it holds");
  verb->add_option("--earlier", arguments->reference.earlier,
                   "older checkpoints, the newest first, also more than once: tensors that are "
                   "theirs were not synced; a dump's own earlier weights need no name")
      ->allow_extra_args(false);
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
      "With --ref also whether it has the tensors of another checkpoint or of a dump, under the\n"
      "names of the hub, of Megatron, or fused as vLLM and SGLang do, how they differ, and "
      "whether\n"
      "they are those of earlier weights.\n"
      "Exit code 3 where a file is damaged or missing, 1 where a rule found an error; warnings "
      "and\n"
      "notes leave 0.\n\nExamples:\n"
      "  rlreplay doctor Qwen2.5-0.5B/\n"
      "  rlreplay doctor exported/ --ref Qwen2.5-0.5B/\n"
      "  rlreplay doctor synced/ --ref dump/ --step 3.0\n"
      "  rlreplay doctor model.safetensors --all\n"
      "  rlreplay doctor --explain RD805");
  verb->callback([=, &chosen] { chosen = [=] { return run_doctor(*arguments); }; });
}

}  // namespace rlreplay::replay
