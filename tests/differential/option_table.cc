#include "model/config/architectures.h"
#include "tests/differential/random_trial.h"
#include "tests/runtime/engine/engine_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tp::differential {
namespace {

constexpr Models kDecoders{"decoders with a cache",
                           [](const TrialModel& model) { return model.is_cached_decoder(); }};
constexpr Models kCached{"with a cache",
                         [](const TrialModel& model) { return can_divide_steps(model.spec); }};
constexpr Models kStages{"with separate layers", [](const TrialModel& model) {
                           return can_divide_steps(model.spec) && can_divide_layers(model.spec);
                         }};
constexpr Models kWholeTexts{"LLaDA and Dream", [](const TrialModel& model) {
                               return model.spec.diffusion.has_value() && model.spec.bidirectional;
                             }};
constexpr Models kAdaptable{"decoders with o_proj or down_proj",
                            [](const TrialModel& model) { return !model.adapted_layers().empty(); }};
constexpr Models kLetters{"decoders and encoder-decoders",
                          [](const TrialModel& model) { return model.may_have_letters(); }};

std::string_view name_of(TwoBatchOverlap overlap) { return overlap == TwoBatchOverlap::on ? "on" : "off"; }
std::string_view name_of(DraftRanks ranks) { return ranks == DraftRanks::all ? "all" : "first"; }
std::string_view name_of(DraftKind kind) {
  constexpr std::array kNames = {"none", "ngram", "model", "mtp", "automatic", "custom"};
  return kNames[static_cast<std::size_t>(kind)];
}

template <class T, class Value>
std::string set(T& option, const Value& value) {
  option = value;
  if constexpr (requires { name_of(value); })
    return std::string(name_of(value));
  else
    return fmt::format("{}", value);
}

template <auto Member, std::size_t Min, std::size_t Max>
std::string number(Draw& draw) {
  return set(draw.options.*Member, draw.in(Min, Max));
}

template <auto Member, auto... Values>
std::string choice(Draw& draw) {
  constexpr std::array kValues = {Values...};
  return set(draw.options.*Member, kValues[draw.in(0, kValues.size() - 1)]);
}

// Like choice. If the last value is drawn, the engine chooses a type.
template <auto Member, auto... Values>
std::string type(Draw& draw) {
  constexpr std::array kValues = {Values...};
  const std::size_t value = draw.in(0, kValues.size());
  if (value < kValues.size()) return set(draw.options.*Member, kValues[value]);
  (draw.options.*Member).reset();
  return "automatic";
}

template <auto Member>
std::string folder(Draw& draw) {
  draw.options.*Member = "folder";
  return "in use";
}

std::string draw_task(Draw& draw) {
  const std::vector<std::string>& tasks = draw.model.config.encoder.lora_adaptations;
  return tasks.empty() ? "" : set(draw.options.task, tasks[draw.in(0, tasks.size() - 1)]);
}

std::string draw_synthetic(Draw& draw) {
  return std::filesystem::is_directory(draw.model.path) ? set(draw.options.synthetic, true) : "";
}

// In recurrent layers, a difference in the last bit grows a hundredfold. Indexers and hashes may choose
// different positions, and rounded numbers different experts.
std::string draw_same_bits(Draw& draw) {
  const EngineOptions& options = draw.options;
  const bool rounds = options.weights != WeightType::f32 || options.kv_type != KvType::f32;
  const auto is_sensitive = [&](const BlockSpec& block) {
    return keeps_state(block) || block_indexer_of(block) != nullptr ||
           (rounds && experts_in(block) != nullptr);
  };
  const ModelSpec& spec = draw.model.spec;
  const bool must = options.favor_features != 0 || spec.recomputes || max_chosen(spec) != 0 ||
                    std::ranges::any_of(spec.blocks, is_sensitive);
  const bool may = draw.one_in(2);
  return must || may ? set(draw.options.same_bits, true) : "";
}

std::string draw_adapters(Draw& draw) {
  draw.options.adapters = {{.name = "whole", .path = {}}, {.name = "half", .path = {}, .scale = 0.5}};
  return "whole, half";
}

std::string draw_default_adapter(Draw& draw) {
  if (draw.options.adapters.empty()) return "";
  return set(draw.options.default_adapter, std::string(draw.one_in(2) ? "half" : ""));
}

std::string draw_ranks(Draw& draw) {
  ModelSpec spec = draw.model.spec;
  spec.same_bits = true;
  const std::size_t heads = leaf_heads(spec);
  const bool any = heads == 0 || draw.one_in(8);
  return set(draw.trial.ranks, draw.in(1, any ? draw.trial.ranks : std::min(draw.trial.ranks, heads)));
}

std::string draw_pipeline(Draw& draw) {
  const std::size_t stages = draw.in(1, draw.trial.ranks);
  const bool fits = draw.trial.ranks % stages == 0 && stages <= draw.model.spec.blocks.size();
  return stages > 1 && (fits || draw.one_in(8)) ? set(draw.options.pipeline, stages) : "";
}

std::string draw_split(Draw& draw) {
  for (std::size_t rank = 0; rank < draw.trial.ranks / draw.options.pipeline; ++rank)
    draw.options.split.push_back(static_cast<double>(draw.in(1, 3)));
  return fmt::format("{}", fmt::join(draw.options.split, ","));
}

std::string draw_wire(Draw& draw) {
  const bool is_refused = draw.options.same_bits;
  return is_refused && !draw.one_in(8) ? ""
                                       : choice<&EngineOptions::wire, WireType::bf16, WireType::int8>(draw);
}

std::string draw_cache_tokens(Draw& draw) {
  return set(draw.options.cache_tokens, draw.in(kLongest + draw.options.block_size, 4 * kLongest));
}

// Each step exceeds this time, so chunks don't depend on the machine.
std::string draw_step_time(Draw& draw) {
  draw.options.step_time = std::chrono::microseconds(1);
  return "1 us";
}

std::string draw_drafts(Draw& draw) {
  std::vector<DraftKind> kinds = {DraftKind::ngram, DraftKind::automatic, DraftKind::custom};
  if (draw.model.has_draft_model()) kinds.insert(kinds.end(), 2, DraftKind::model);
  if (draw.model.may_have_layer()) kinds.insert(kinds.end(), 4, DraftKind::mtp);
  return set(draw.options.speculation.drafts, kinds[draw.in(0, kinds.size() - 1)]);
}

std::string draw_draft_model(Draw& draw) {
  SpeculationOptions& own = draw.options.speculation;
  const bool may = own.drafts == DraftKind::model || (own.drafts == DraftKind::automatic && draw.one_in(2));
  if (!may || !draw.model.has_draft_model()) return "";
  own.model = draw.model.drafter.empty() ? draw.model.path : draw.model.drafter;
  return draw.model.drafter.empty() ? "itself" : "a drafter";
}

template <auto Member, auto... Values>
std::string drafting(Draw& draw) {
  constexpr std::array kValues = {Values...};
  SpeculationOptions& own = draw.options.speculation;
  return own.drafts == DraftKind::none ? "" : set(own.*Member, kValues[draw.in(0, kValues.size() - 1)]);
}

std::string draw_history(Draw& draw) {
  SpeculationOptions& own = draw.options.speculation;
  const bool may = own.drafts == DraftKind::ngram || own.drafts == DraftKind::automatic;
  return may ? set(own.draft_history, draw.in(2, 400)) : "";
}

template <class Change>
std::string in_requests(Draw& draw, std::size_t one_in, const Change& change) {
  std::size_t changed = 0;
  for (TrialRequest& one : draw.trial.requests) {
    if (!draw.one_in(one_in)) continue;
    change(one.request);
    ++changed;
  }
  return changed == 0 ? "" : fmt::format("in {}", changed);
}

std::string draw_priorities(Draw& draw) {
  return in_requests(draw, 3,
                     [&](Request& request) { request.priority = static_cast<int>(draw.in(0, 2)) - 1; });
}

std::string draw_request_adapters(Draw& draw) {
  if (draw.options.adapters.empty()) return "";
  return in_requests(draw, 2, [&](Request& request) {
    request.adapter = std::array{"", "whole", "half"}[draw.in(0, 2)];
  });
}

// Regular expressions over random tokens. Each pair of letters is a token.
std::string draw_constraints(Draw& draw) {
  return in_requests(draw, 2, [&](Request& request) {
    std::array<std::string, 5> t;
    for (std::string& text : t) text = test::ModelFolder::decoded({static_cast<TokenId>(draw.in(0, 179))});
    if (request.max_tokens == 0) return;
    request.constraint =
        constraint::Regex{fmt::format("(({}|{})({})?){{1,8}}{}({})*", t[0], t[1], t[2], t[3], t[4])};
  });
}

// Five tokens, which depend on the length of the text.
std::string draw_allowed_tokens(Draw& draw) {
  return in_requests(draw, 3, [&](Request& request) {
    const std::size_t vocab_size = draw.model.config.vocab_size;
    const std::size_t first = draw.in(0, vocab_size);
    if (request.constraint || request.max_tokens == 0) return;
    request.allowed_tokens = [=](std::span<const TokenId> generated) {
      TokenMask mask(vocab_size);
      for (std::size_t i = 0; i < 5; ++i)
        mask.add(static_cast<TokenId>((first + generated.size() * 17 + i * 7) % vocab_size));
      return mask;
    };
  });
}

using O = EngineOptions;
using S = SpeculationOptions;
using W = WeightType;
constexpr bool kEqual = true;
constexpr bool kDefault = false;
constexpr Effect kNone = Effect::none;
constexpr Effect kLastBits = Effect::last_bits;
constexpr Effect kRounding = Effect::rounding;

const Option kOptions[] = {
    {"model", "every fixture", kEqual, kNone},
    {"pretend_ranks", "never: results are meaningless", kEqual, kNone},
    {"task", "the model's tasks", kEqual, kNone, draw_task, 2},
    {"synthetic", "true", kEqual, kNone, draw_synthetic, 24},
    {"weights", "f16, bf16, int8, int4, as stored", kEqual, kRounding,
     type<&O::weights, W::f16, W::bf16, W::int8, W::int4>, 3},
    {"kv_type", "bf16, int8, automatic", kEqual, kRounding, type<&O::kv_type, KvType::bf16, KvType::int8>, 3},
    {"favor_features", "16 to 128", kEqual, kNone, number<&O::favor_features, 16, 128>, 10, kDecoders},
    {"unmask_cache", "prefix, dual", kEqual, kNone,
     choice<&O::unmask_cache, UnmaskCache::prefix, UnmaskCache::dual>, 2, kWholeTexts},
    {"same_bits", "true", kEqual, kNone, draw_same_bits},
    {"max_length", "49 to 72", kEqual, kNone, number<&O::max_length, kLongestPrompt + 1, kLongest>, 2},
    {"block_size", "1 to 32", kEqual, kNone, number<&O::block_size, 1, 32>},
    {"adapters", "one adapter in two scales", kEqual, kNone, draw_adapters, 4, kAdaptable, "adapter"},
    {"default_adapter", "half, none", kEqual, kNone, draw_default_adapter},
    {"ranks", "1 to all that mpirun started", kDefault, kLastBits, draw_ranks, 1, kAll,
     "cannot divide the model over"},
    {"pipeline", "2 to all ranks", kDefault, kLastBits, draw_pipeline, 3, kStages},
    {"split", "1 to 3 for each rank", kDefault, kLastBits, draw_split, 4},
    {"measured_split", "true", kDefault, kLastBits, choice<&O::measured_split, true>, 8},
    {"kv_slices", "false", kDefault, kLastBits, choice<&O::kv_slices, false>, 3},
    {"wire", "bf16, int8", kDefault, kRounding, draw_wire, 8},
    {"two_batch_overlap", "on, off", kDefault, kLastBits,
     choice<&O::two_batch_overlap, TwoBatchOverlap::on, TwoBatchOverlap::off>, 3, kCached},
    {"packed_cache", "a folder, which a second engine reads", kDefault, kNone, folder<&O::packed_cache>, 8},
    {"kv_store", "a folder, which a second engine reads", kDefault, kLastBits, folder<&O::kv_store>, 3,
     kCached, "kv_store"},
    {"kv_store_min", "1 to 48 tokens", kDefault, kLastBits, number<&O::kv_store_min, 1, kLongestPrompt>},
    {"kv_store_size", "10 kB to 1 MB", kDefault, kLastBits, number<&O::kv_store_size, 10'000, 1'000'000>, 4},
    {"prefill_chunk", "1 to 64", kDefault, kLastBits, number<&O::prefill_chunk, 1, 64>},
    {"max_sequences", "1 to 8", kDefault, kLastBits, number<&O::max_sequences, 1, 8>},
    {"cache_tokens", "1 to 4 requests", kDefault, kLastBits, draw_cache_tokens},
    {"threads", "2", kDefault, kLastBits, number<&O::threads, 2, 2>, 10},
    {"step_time", "1 us", kDefault, kLastBits, draw_step_time, 2},
    {"max_queue", "1 to 4", kDefault, kNone, number<&O::max_queue, 1, 4>, 16},
    {"max_queue_tokens", "20 to 200", kDefault, kNone, number<&O::max_queue_tokens, 20, 200>, 16},
    {"speculation.drafts", "ngram, model, mtp, automatic, custom", kDefault, kLastBits, draw_drafts, 2,
     kDecoders, "draft"},
    {"speculation.model", "the model itself, a trained drafter", kDefault, kLastBits, draw_draft_model},
    {"speculation.tokens", "1, 2, 4, 8, 15", kDefault, kLastBits, drafting<&S::tokens, 1U, 2U, 4U, 8U, 15U>},
    {"speculation.always", "true, rarely false", kDefault, kLastBits,
     drafting<&S::always, true, true, true, false>},
    {"speculation.ranks", "first, all", kDefault, kLastBits,
     drafting<&S::ranks, DraftRanks::first, DraftRanks::all>},
    {"speculation.draft_history", "2 to 400 tokens", kDefault, kLastBits, draw_history, 3},
    {"Request::priority", "-1 to 1", kEqual, kLastBits, draw_priorities},
    {"Request::adapter", "none, whole, half", kEqual, kNone, draw_request_adapters},
    {"Request::constraint", "regular expressions", kEqual, kNone, draw_constraints, 4, kLetters},
    {"Request::allowed_tokens", "five tokens", kEqual, kNone, draw_allowed_tokens, 4, kDecoders},
};

}  // namespace

std::span<const Option> all_options() { return kOptions; }

std::string table_of_options() {
  constexpr std::array kEffects = {"nothing", "last bits", "numbers, by rounding"};
  std::string table =
      "| option | random values | models | in the reference | difference without `same_bits` |\n"
      "| --- | --- | --- | --- | --- |\n";
  for (const Option& option : kOptions)
    table += fmt::format("| `{}` | {} | {} | {} | {} |\n", option.name, option.values, option.models.name,
                         option.is_shared ? "equal" : "default",
                         kEffects[static_cast<std::size_t>(option.effect)]);
  return table;
}

}  // namespace tp::differential
