#include "launch/options/unmasking_flags.h"

#include "launch/common/option_group.h"
#include "model/config/architectures.h"
#include "model/config/config.h"
#include "tp/internal/require.h"

namespace tp {
namespace {

constexpr std::uint64_t kMaxSteps = std::uint64_t{1} << 20;

}  // namespace

void add_unmask_cache_option(CLI::App& command, UnmaskCache& cache) {
  OptionGroup(command).add_choice(
      "--unmask-cache",
      [&cache](const std::string& name) { cache = find_unmask_cache(name).value_or(cache); }, "CACHE",
      unmask_caches(),
      "LLaDA, Dream: exact; or approximate and faster: after a block's first pass, its other passes "
      "reuse the keys and values of earlier tokens (prefix) or of all other tokens (dual)");
}

void UnmaskingFlags::add_to(CLI::App& command) {
  const OptionGroup group(command, "Diffusion language models (LLaDA, LLaDA2, Dream, SDAR, DiffusionGemma)");
  group.add("--steps", steps, "N", whole_number(1, kMaxSteps),
            "Passes in total, divided evenly among the blocks (default: one for each of --max-tokens; "
            "DiffusionGemma: as many as generation_config.json says for each canvas)");
  group.add(
      "--block-length", block_length, "N", whole_number(1, kMaxSteps),
      "Tokens of a block; blocks are unmasked one after another (default: --max-tokens, or the model's)");
  group.add("--unmask", unmask, "RULE", one_of(unmask_rules()),
            "Tokens that a pass unmasks: low-confidence (the most probable ones), margin, entropy, "
            "threshold, sequential (default: low-confidence)");
  group.add("--threshold", threshold, "P", number(),
            "With --unmask threshold: unmask every token with at least this probability (default: 0.9)");
}

void UnmaskingFlags::check() const {
  require<CLI::ValidationError>(!threshold || unmask == "threshold",
                                "--threshold is for --unmask threshold; give that too, or leave it out");
  Request request;
  apply(request);
  request.prompt = {0};  // any prompt
  require_valid(request);
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
  if (unmask) settings.rule = find_unmask_rule(*unmask);
  if (threshold) settings.threshold = *threshold;
}

}  // namespace tp
