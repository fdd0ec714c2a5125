#include "runtime/step/draft_model.h"

#include "model/config/architectures.h"
#include "model/memory/kv_cache.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_files.h"
#include "parallel/exchange/archive.h"
#include "parallel/exchange/fail_together.h"
#include "runtime/setup/drafter_plan.h"
#include "runtime/setup/engine_plan_archive.h"
#include "runtime/setup/internal_hooks.h"
#include "runtime/setup/next_token_plan.h"
#include "runtime/setup/plan_agreement.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace tp {
namespace {

// With fewer weight bytes per rank than this, messages cost more time than additional ranks save. Measured
// with two ranks on one host.
constexpr std::size_t kWorthDividing = std::size_t{2} << 20;
// A draft model with at least this many weight bytes is divided among several hosts. An estimate, not
// measured.
constexpr std::size_t kWorthDividingOverHosts = std::size_t{96} << 20;

std::string token_of(const Tokenizer& tokenizer, std::size_t id) {
  try {
    return std::string(tokenizer.id_to_token(static_cast<TokenId>(id)));
  } catch (const RequestError&) {  // no token has this id
    return {};
  }
}

// Compares tokens instead of sizes if possible, because a model's tables may have more rows than its
// vocabulary has tokens.
void require_same_vocabulary(const EnginePlan& draft, const EnginePlan& target) {
  std::filesystem::path folder = target.options.model;
  if (target.options.synthetic) folder = folder.parent_path();
  const std::string name = draft.options.model.string();
  if (!holds_tokenizer(folder) || !holds_tokenizer(name)) {
    require<ConfigError>(
        draft.config.vocab_size == target.config.vocab_size,
        "cannot draft tokens with {}: expected a vocabulary of {} tokens, as the model's, found "
        "{}; use a draft model with the same tokenizer",
        name, target.config.vocab_size, draft.config.vocab_size);
    return;
  }
  const Tokenizer own = Tokenizer::load(name);
  const Tokenizer expected = Tokenizer::load(folder);
  const std::size_t size = std::max(own.vocab_size(), expected.vocab_size());
  for (std::size_t id = 0; id < size; ++id) {
    const std::string token = token_of(own, id);
    const std::string other = token_of(expected, id);
    require<ConfigError>(
        token == other,
        "cannot draft tokens with {}: expected the model's tokens, of which {} is {:?}, found "
        "{:?}; use a draft model with the same tokenizer",
        name, id, other, token);
  }
}

void require_can_draft(const EnginePlan& plan) {
  const ModelSpec spec = plan.spec();
  require<ConfigError>(
      (kind_of(plan.config) == ModelKind::decoder || is_drafter(plan)) && !takes_whole_sequences(spec) &&
          !spec.encoder && !spec.diffusion,
      "cannot draft tokens with {}: expected a model that generates one token after the other from a cache, "
      "found {}; use another draft model",
      plan.options.model.string(), plan.config.architecture);
  require<ConfigError>(
      std::ranges::none_of(spec.blocks, keeps_state),
      "cannot draft tokens with {}: expected layers that can take a token back, found recurrent "
      "ones ({}); use another draft model",
      plan.options.model.string(), plan.config.architecture);
}

EnginePlan plan_on(std::size_t ranks, const EngineOptions& options, const EnginePlan& target) {
  const EngineOptions& models = target.options;
  EngineOptions own{.model = options.speculation.model,
                    .same_bits = models.same_bits,
                    .wire = models.wire,
                    .kv_slices = models.kv_slices,
                    .prefill_chunk = models.prefill_chunk,
                    .max_sequences = models.max_sequences,
                    .max_length = models.max_length,
                    .block_size = models.block_size};
  if (ranks > 1 && models.split.size() == ranks) own.split = models.split;
  EnginePlan plan = make_plan(own, ranks);
  if (is_drafter(plan)) plan.target = std::make_shared<EnginePlan>(target);
  return plan;
}

// Whether to divide a draft model among all ranks. `plan`: the plan for one rank.
bool divides(const EnginePlan& plan, const WeightSource& source, const Communicator& comm, DraftRanks where,
             const EnginePlan& target) {
  const std::size_t ranks = comm.size();
  if (target.options.pipeline != 1 || ranks == 1 || target.pretends() || where == DraftRanks::first)
    return false;
  if (where == DraftRanks::all) return true;
  const std::size_t worth_dividing =
      comm.placement().hosts.size() == 1 ? ranks * kWorthDividing : kWorthDividingOverHosts;
  return ranks <= plan.config.num_attention_heads &&
         Footprint(plan.spec(), plan, source).of({0, 1}).weights >= worth_dividing;
}

// Plans the draft model, on rank 0.
DraftPlan plan_draft(const Communicator& comm, const EngineOptions& options, const EnginePlan& target) {
  DraftPlan draft{.plan = plan_on(1, options, target)};
  EnginePlan& plan = draft.plan;
  require_can_draft(plan);
  if (is_drafter(plan)) require_fits(plan, target);
  const std::unique_ptr<WeightSource> source = open_weights(plan);
  draft.on_all_ranks = divides(plan, *source, comm, options.speculation.ranks, target);
  if (draft.on_all_ranks) {
    plan = plan_on(comm.size(), options, target);
    share_caches(plan, hosts_of_stages(comm.placement(), 1));
  }
  plan.options.kv_type = default_kv_type(usual_weight_type(plan, *source));
  return draft;
}

// Plans the multi-token prediction layer as a draft model, on rank 0.
DraftPlan plan_next_token(const Communicator& comm, const EngineOptions& options, const EnginePlan& target) {
  DraftPlan draft{.plan = next_token_plan(1, target)};
  const std::unique_ptr<WeightSource> source = open_weights(draft.plan);
  draft.on_all_ranks = divides(draft.plan, *source, comm, options.speculation.ranks, target);
  if (draft.on_all_ranks) {
    draft.plan = next_token_plan(comm.size(), target);
    share_caches(draft.plan, hosts_of_stages(comm.placement(), 1));
  }
  return draft;
}

// The tables that the multi-token prediction layer or drafter shares with the model on this rank: none if it
// and the model are divided differently.
SameTables tables_of_both(const Communicator& comm, const DraftPlan& draft, const EnginePlan& target) {
  const EnginePlan& layer = draft.plan;
  const bool is_divided_alike =
      layer.ranks == target.ranks && layer.options.split == target.options.split && !target.pretends();
  if (!reads_states(layer) || !is_divided_alike) return {};
  if (is_drafter(layer)) return tables_of_target(layer);
  return same_tables(layer.spec(), *open_weights(layer), layer.tp(comm.rank()));
}

// How many cache blocks to allocate for the draft model per cache block of the target. A sequence has the
// same number of blocks in every group of layers.
std::uint64_t blocks_beside(const EnginePlan& draft, const EnginePlan& target) {
  const std::size_t own = draft.cache_groups(draft.spec()).windows.size();
  const std::size_t others = target.cache_groups(target.spec()).windows.size();
  return (own + others - 1) / others;
}

}  // namespace

std::optional<DraftPlan> agree_on_draft(Communicator& comm, const EngineOptions& options,
                                        const EngineHooks& hooks, const EnginePlan& target) {
  const SpeculationOptions& speculation = options.speculation;
  DraftPlan draft;
  bool is_there = false;
  fail_together(comm, [&] {
    if (!comm.is_root()) return;
    require<ConfigError>(speculation.drafts != DraftKind::model || !speculation.model.empty(),
                         "cannot draft tokens by DraftKind::model: expected the folder of a model in "
                         "`speculation.model`, found nothing; name one");
    require<ConfigError>(speculation.drafts != DraftKind::custom || hooks.draft_source,
                         "cannot draft tokens by DraftKind::custom: expected `draft_source` to create a "
                         "source of draft tokens, found an empty function; set it on rank 0");
    const bool is_automatic = speculation.drafts == DraftKind::automatic;
    const bool is_model =
        speculation.drafts == DraftKind::model || (is_automatic && !speculation.model.empty());
    if (speculation.drafts == DraftKind::mtp) require_next_token_layer(target);
    // A wrapped source drafts for a different model, whose hidden states are not available here.
    const bool has_layer = is_automatic && !is_model && !draft_wrapper(hooks) && has_next_token_layer(target);
    const bool is_layer = speculation.drafts == DraftKind::mtp || has_layer;
    is_there = is_model || is_layer;
    if (is_model) {
      draft = plan_draft(comm, options, target);
      require<ConfigError>(
          !is_drafter(draft.plan) || !draft_wrapper(hooks),
          "cannot draft tokens of recorded texts with {}: expected a draft model, which needs only the text, "
          "found a trained drafter, which reads the hidden states of the model that wrote it; use a draft "
          "model",
          draft.plan.options.model.string());
      if (!draft_wrapper(hooks)) require_same_vocabulary(draft.plan, target);
    }
    if (is_layer) draft = plan_next_token(comm, options, target);
  });
  broadcast_object(comm, is_there);
  if (!is_there) return std::nullopt;
  broadcast_object(comm, draft.plan);
  broadcast_object(comm, draft.on_all_ranks);
  EngineOptions& own = draft.plan.options;
  own.threads = target.options.threads;
  if (draft.plan.next_token)
    own.model = target.options.model;
  else
    own.model = target.options.speculation.model;
  if (is_drafter(draft.plan)) draft.plan.target = std::make_shared<EnginePlan>(target);
  if (draft.on_all_ranks) agree_on_arithmetic(comm, draft.plan);
  fail_together(comm, [&] { draft.same = tables_of_both(comm, draft, target); });
  return draft;
}

MemoryNeed draft_need(const Communicator& comm, const DraftPlan& draft, const EnginePlan& target) {
  if (!draft.on_all_ranks && !comm.is_root()) return {};
  const std::unique_ptr<WeightSource> source = open_weights(draft.plan);
  const ModelSpec spec = draft.plan.spec();
  const TpRank tp = draft.plan.tp(comm.rank());
  const VocabTables others =
      Model::shape_of(spec, *source, tp, draft.plan.weights()).tables().only(draft.same);
  MemoryNeed need = Footprint(spec, draft.plan, *source).of(tp, {}, {}, others);
  need.other = 0;  // already included in the target's need
  need.cache_block *= blocks_beside(draft.plan, target);
  need.whole_block *= blocks_beside(draft.plan, target);
  if (reads_states(draft.plan)) need.workspace += bytes_of_states(draft.plan);
  return need;
}

DraftModel::DraftModel(const Communicator& comm, const std::vector<std::size_t>& ranks, EnginePlan plan,
                       const VocabTables& others)
    : comm_(comm, ranks),
      plan_(std::move(plan)),
      others_(others),
      worker_(comm_, plan_, {.cache_is_planned = true, .others = others}, {}) {}

std::size_t DraftModel::kept_states() const { return reads_states(plan_) ? states_read(plan_) : 0; }

std::size_t DraftModel::size_of_kept_state() const { return size_of_read_state(plan_); }

std::vector<std::size_t> DraftModel::captured_places() const {
  return is_drafter(plan_) ? tp::captured_places(plan_) : std::vector<std::size_t>();
}

DraftModelLimits DraftModel::limits() const {
  const std::optional<DrafterSpec> drafter = plan_.spec().drafter;
  DraftModelLimits::Block block;
  if (drafter && drafter->block)
    block = {drafter->block->size, drafter->block->mask_token, drafter->block->samples_from_anchor};
  return {.vocab_size = plan_.config.vocab_size,
          .max_length = plan_.options.max_length,
          .step_tokens = plan_.step_limits().tokens,
          .cache_blocks = plan_.cache_blocks,
          .cache = plan_.cache_shape(plan_.cache_groups(plan_.spec())),
          .reads_states = reads_states(plan_) && block.size == 0,
          .block = block};
}

DraftInfo DraftModel::info() const {
  const EngineInfo& info = worker_.info();
  return {.config = info.config,
          .parameters = info.parameters,
          .ranks = comm_.size(),
          .weight_bytes = info.weight_bytes,
          .cache_bytes = info.cache_bytes,
          .workspace_bytes = info.workspace_bytes + (reads_states(plan_) ? bytes_of_states(plan_) : 0),
          .is_layer = plan_.next_token,
          .drafter = is_drafter(plan_) ? std::string(name_of(plan_.config.drafter.kind)) : std::string(),
          .captured_places = captured_places(),
          .uses_embedding = others_.embedding != nullptr,
          .uses_head = others_.head != nullptr};
}

std::unique_ptr<DraftModel> load_draft(Communicator& comm, const DraftPlan& draft, const EnginePlan& target,
                                       const VocabTables& tables) {
  EnginePlan plan = draft.plan;
  const VocabTables others = tables.only(draft.same);
  plan.cache_blocks = target.cache_blocks * blocks_beside(plan, target);
  if (draft.on_all_ranks) {
    std::vector<std::size_t> ranks(comm.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return std::make_unique<DraftModel>(comm, ranks, std::move(plan), others);
  }
  std::unique_ptr<DraftModel> model;
  fail_together(comm, [&] {
    if (!comm.is_root()) return;
    fail_among_some([&] {
      model = std::make_unique<DraftModel>(comm, std::vector<std::size_t>{0}, std::move(plan), others);
    });
  });
  return model;
}

}  // namespace tp
