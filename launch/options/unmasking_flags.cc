#include "launch/options/unmasking_flags.h"

#include "launch/common/option_checks.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 20;

}  // namespace

void add_unmask_cache_option(CLI::App& command, UnmaskCache& cache) {
  command
      .add_option_function<std::string>(
          "--unmask-cache",
          [&cache](const std::string& name) { cache = find_unmask_cache(name).value_or(cache); },
          "LLaDA, Dream: exact; or approximate and faster: after a block's first pass, its other passes "
          "reuse the keys and values of earlier tokens (prefix) or of all other tokens (dual)")
      ->check(one_of(unmask_caches()))
      ->type_name("CACHE")
      ->default_str("exact");
}

void UnmaskingFlags::add_to(CLI::App& command) {
  const std::string group = "Diffusion language models (LLaDA, Dream, SDAR)";
  command
      .add_option("--steps", steps,
                  "Passes in total, divided evenly among the blocks (default: one for each of --max-tokens)")
      ->check(whole_number(1, kMostSteps))
      ->type_name("N")
      ->group(group);
  command
      .add_option(
          "--block-length", block_length,
          "Tokens of a block; blocks are settled one after another (default: --max-tokens, or the model's)")
      ->check(whole_number(1, kMostSteps))
      ->type_name("N")
      ->group(group);
  command
      .add_option("--unmask", unmask,
                  "Tokens that a pass settles: low-confidence (the most probable ones), margin, entropy, "
                  "threshold, sequential (default: low-confidence)")
      ->check(one_of(unmask_rules()))
      ->type_name("RULE")
      ->group(group);
  command
      .add_option("--threshold", threshold,
                  "With --unmask threshold: settle every token with at least this probability (default: 0.9)")
      ->check(number())
      ->type_name("P")
      ->group(group);
}

void UnmaskingFlags::check() const {
  if (threshold && unmask != "threshold")
    throw CLI::ValidationError("--threshold is for --unmask threshold; give that too, or leave it out");
  Request request;
  apply(request);
  request.prompt = {0};  // any
  try {
    request.validate();
  } catch (const RequestError& error) {
    throw CLI::ValidationError(error.what());
  }
}

void UnmaskingFlags::require_fit(const std::filesystem::path& model) const {
  if (!any()) return;
  const std::string architecture = load_config(model).architecture;
  const ModelKind kind = family_of(architecture).kind;
  require<ConfigError>(
      kind == ModelKind::diffusion,
      "cannot use --steps, --block-length, --unmask and --threshold with {}: expected a diffusion language "
      "model, found {} ({}); leave them out",
      model.string(), describe(kind), architecture);
}

void UnmaskingFlags::apply(Request& request) const {
  if (!any()) return;
  Unmasking& settings = request.unmasking.emplace();
  if (steps) settings.steps = *steps;
  if (block_length) settings.block_length = *block_length;
  if (unmask) settings.rule = find_unmask_rule(*unmask).value_or(settings.rule);
  if (threshold) settings.threshold = *threshold;
}

}  // namespace tp
