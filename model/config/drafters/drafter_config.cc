#include "model/config/drafters/drafter_config.h"

#include "model/files/printable.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace tp {
namespace {

using nlohmann::json;

constexpr const char* kEagle3 = "LlamaForCausalLMEagle3";
constexpr const char* kDFlash = "DFlashDraftModel";
constexpr const char* kDSpark = "Qwen3DSparkModel";
constexpr const char* kEagleLayers = "eagle_aux_hidden_state_layer_ids";
constexpr const char* kPlacesField = "captured_places";  // in the fields of drafter_fields only
constexpr std::size_t kMaxStreams = 64;
constexpr std::size_t kMaxLayers = 65536;

std::string text_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string class_of(const json& document) {
  const auto classes = document.find("architectures");
  const bool has_class =
      classes != document.end() && classes->is_array() && !classes->empty() && classes->front().is_string();
  return has_class ? classes->front().get<std::string>() : std::string();
}

bool is_set(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

[[noreturn]] void refuse_drafter(const std::string& where, std::string_view what) {
  throw_error<ConfigError>(
      "{}: this drafter is not supported: expected EAGLE-3 with one layer of Llama, or DFlash or DSpark with "
      "layers of Qwen3, found {}; use another drafter, or use a different kind of drafts",
      where, printable(what));
}

// A kind of drafter that is not supported, and the word by which it is recognized.
struct UnsupportedDrafter {
  std::string_view word;  // in the class, or in speculators_model_type
  std::string_view name;
};
constexpr auto kUnsupportedDrafters = std::to_array<UnsupportedDrafter>({
    {"peagle", "P-EAGLE"},
    {"dflash2", "DFlash 2"},
    {"domino", "Domino"},
    {"qwen3eagle3", "EAGLE-3 with a layer of Qwen3 (DeepSpec)"},
});

std::string lower_letters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  std::erase_if(text, [](char c) { return c == '_' || c == '-'; });
  return text;
}

// The name of a kind that is not supported; empty: none is recognized.
std::string unsupported_kind(const json& document, const std::string& architecture) {
  const std::string words =
      lower_letters(architecture) + " " + lower_letters(text_member(document, "speculators_model_type"));
  for (const UnsupportedDrafter& kind : kUnsupportedDrafters) {
    if (words.find(kind.word) != words.npos) return std::string(kind.name);
  }
  if (document.value("parallel_drafting", json(false)) == json(true)) return "P-EAGLE (parallel_drafting)";
  if (is_set(document, "speculators_model_type") &&
      text_member(document, "speculators_model_type") != "eagle3")
    return fmt::format("speculators_model_type \"{}\"", text_member(document, "speculators_model_type"));
  const std::size_t eagle = lower_letters(architecture).find("eagle");
  const bool is_known = architecture == kEagle3 || architecture == "Eagle3LlamaForCausalLM" ||
                        architecture == "Eagle3Speculator" || architecture == "Eagle3DraftModel";
  if (eagle != architecture.npos && !is_known) return fmt::format("the class {}", architecture);
  return {};
}

// Reads a list of layers and adds `more` to each of them, so that they become places.
std::optional<std::vector<std::size_t>> places_in(const JsonNode& fields, std::string_view key,
                                                  std::int64_t more) {
  const std::optional<JsonNode> list = fields.find(key);
  if (!list) return std::nullopt;
  std::vector<std::size_t> places;
  for (const JsonNode& layer : list->elements()) {
    const json& value = layer.value();
    const bool is_small =
        value.is_number_unsigned() ? value.get<std::uint64_t>() < kMaxLayers : value.is_number_integer();
    const bool fits = is_small && value.get<std::int64_t>() >= -more;
    if (!fits) layer.fail_type(fmt::format("a layer from {} to {}", -more, kMaxLayers - 1));
    places.push_back(static_cast<std::size_t>(value.get<std::int64_t>() + more));
  }
  require<ConfigError>(!places.empty() && places.size() <= kMaxStreams,
                       "{}: {} must name 1 to {} layers, found {}; check config.json", fields.file(), key,
                       kMaxStreams, places.size());
  return places;
}

// At the top, the list counts layers before a stream. In eagle_config, it counts layers from 0 whose outputs
// are the streams.
void set_places(const json& document, const std::string& where, json& fields) {
  const JsonNode top(document, where);
  const auto places = places_in(top, kEagleLayers, 0);
  std::optional<std::vector<std::size_t>> nested;
  if (const std::optional<JsonNode> inner = top.find("eagle_config")) {
    require<ConfigError>(inner->boolean_or("use_aux_hidden_state", true),
                         "{}: eagle_config.use_aux_hidden_state must be true for EAGLE-3, found false; use "
                         "another drafter",
                         where);
    nested = places_in(*inner, kEagleLayers, 1);
    for (const char* const key : {"fc_norm", "norm_before_fc", "norm_output", "norm_before_residual"}) {
      if (!is_set(fields, key) && inner->has(key)) fields[key] = inner->at(key).value();
    }
  }
  require<ConfigError>(
      !places || !nested || *places == *nested,
      "{}: {} at the top names the streams after {} layers, and the list in eagle_config those after {} "
      "layers: expected the same streams, because the list in eagle_config counts outputs of layers from 0; "
      "remove the wrong list",
      where, kEagleLayers, fmt::join(places.value_or(std::vector<std::size_t>()), ", "),
      fmt::join(nested.value_or(std::vector<std::size_t>()), ", "));
  if (const auto& found = places ? places : nested) fields[kPlacesField] = *found;
}

// Moves the layer's config to the top, as in the other layouts.
void flatten_speculators(const json& document, const std::string& where, json& fields) {
  const JsonNode layer = JsonNode(document, where).at("transformer_layer_config");
  layer.for_each_member([&](const std::string& key, const json& value) {
    const bool is_own = key == "architectures" || key == kPlacesField;
    if (!is_set(fields, key.c_str()) && !is_own) fields[key] = value;
  });
  const std::string type = layer.string_or("model_type", "llama");
  if (type != "llama") refuse_drafter(where, fmt::format("a layer of the model_type \"{}\"", type));
  // vLLM assumes true, and llama.cpp false.
  require<ConfigError>(is_set(document, "norm_before_residual"),
                       "{}: expected norm_before_residual, true or false, on which the drafts depend, found "
                       "nothing; add the value with which the drafter was trained",
                       where);
}

// Whether this is DFlash in DeepSpec's layout. Such drafters with a Markov head are DSpark.
bool is_flat_dflash(const json& document, const std::string& architecture) {
  return architecture == kDSpark && document.value("markov_rank", json(1)) == json(0);
}

// Moves the members of dflash_config to the top, as DeepSpec has them.
json flat_dflash(const json& document, const std::string& architecture, const std::string& where) {
  json fields = document;
  if (const std::optional<JsonNode> nested = JsonNode(document, where).find("dflash_config")) {
    nested->for_each_member([&](const std::string& key, const json& value) {
      if (!is_set(fields, key.c_str())) fields[key] = value;
    });
  }
  for (const char* const key : {"conv_kernel_size", "selector_rank"}) {
    if (is_set(fields, key)) refuse_drafter(where, fmt::format("DFlash 2 ({})", key));
  }
  const bool is_dspark = architecture == kDSpark && !is_flat_dflash(document, architecture);
  const std::string type = text_member(fields, "projector_type");
  if (!type.empty() && type != (is_dspark ? "dspark" : "dflash"))
    refuse_drafter(where, fmt::format("the projector_type \"{}\"", type));
  // Only drafters with all of DFlash's usual parts have been compared with their own code.
  for (const char* const key : {"use_swa", "attention_sink_bias", "is_causal", "causal"}) {
    if (fields.value(key, json(false)) == json(true)) refuse_drafter(where, fmt::format("{} true", key));
  }
  for (const char* const key : {"is_neox_style", "rope_is_neox_style"}) {
    if (fields.value(key, json(true)) == json(false)) refuse_drafter(where, fmt::format("{} false", key));
  }
  for (const char* const key : {"input_embedding_scale", "final_logit_softcapping", "output_multiplier"}) {
    if (is_set(fields, key) && fields[key] != json(1))
      refuse_drafter(where, fmt::format("{} {}", key, fields[key].dump()));
  }
  if (is_set(fields, "draft_vocab_size") && fields["draft_vocab_size"] != fields.value("vocab_size", json()))
    refuse_drafter(where, fmt::format("a draft_vocab_size of {}", fields["draft_vocab_size"].dump()));
  fields.erase(kPlacesField);
  if (const auto places = places_in(JsonNode(fields, where), "target_layer_ids", 1))
    fields[kPlacesField] = *places;
  if (architecture == kDSpark && !is_set(fields, "sample_from_anchor")) fields["sample_from_anchor"] = true;
  fields["architectures"] = {is_dspark ? kDSpark : kDFlash};
  return fields;
}

void read_dflash(const JsonNode& fields, const std::string& where, DrafterConfig& config) {
  config.layers = fields.at("num_hidden_layers").size();
  require<ConfigError>(
      !config.places.empty() || config.layers <= kMaxStreams,
      "{}: expected target_layer_ids or at most {} layers, found {} layers without it; check "
      "config.json",
      where, kMaxStreams, config.layers);
  config.target_layers = fields.count_or("num_target_layers", 0);
  config.block_size = fields.at("block_size").size();
  constexpr std::size_t kMaxInBlock = 256;
  require<ConfigError>(config.block_size >= 2 && config.block_size <= kMaxInBlock,
                       "{}: block_size must be in 2..{}, found {}; check config.json", where, kMaxInBlock,
                       config.block_size);
  const auto vocab_size = static_cast<std::int64_t>(fields.at("vocab_size").size());
  config.mask_token = static_cast<TokenId>(fields.at("mask_token_id").integer_below(vocab_size));
  fields.update({"sample_from_anchor"}, config.sample_from_anchor);
}

void read_dspark(const JsonNode& fields, const std::string& where, DrafterConfig& config) {
  config.markov_rank = fields.at("markov_rank").size();
  constexpr std::size_t kMaxRank = 65536;
  require<ConfigError>(config.markov_rank <= kMaxRank,
                       "{}: markov_rank must be at most {}, found {}; check config.json", where, kMaxRank,
                       config.markov_rank);
  const std::string type = fields.string_or("markov_head_type", "vanilla");
  if (type != "vanilla") refuse_drafter(where, fmt::format("DSpark with the markov_head_type \"{}\"", type));
  fields.update({"enable_confidence_head"}, config.enable_confidence_head);
  fields.update({"confidence_head_with_markov"}, config.confidence_head_with_markov);
}

void read_eagle3(const JsonNode& fields, const std::string& where, DrafterConfig& config) {
  fields.update_size({"draft_vocab_size"}, config.draft_vocab_size);
  fields.update({"norm_before_residual"}, config.norm_before_residual);
  fields.update({"norm_output"}, config.norm_output);
  fields.update({"fc_norm"}, config.fc_norm);
  fields.update({"norm_before_fc"}, config.norm_before_fc);
  require<ConfigError>(!config.fc_norm || !config.norm_before_fc,
                       "{}: expected fc_norm or norm_before_fc, found both; check config.json", where);
  // EAGLE 3.1's own code assumes true.
  require<ConfigError>(!config.fc_norm || fields.has("norm_output"),
                       "{}: expected norm_output (true or false) with fc_norm, found nothing; add the value "
                       "with which the drafter was trained",
                       where);
  if (const std::size_t layers = fields.size_or("num_hidden_layers", 1); layers != 1)
    refuse_drafter(where, fmt::format("{} layers", layers));
  if (!fields.boolean_or("is_causal", true)) refuse_drafter(where, "is_causal false");
}

// Layers that z-lab's code reads if a config names none: evenly spaced, without the first and the last ones.
std::vector<std::size_t> usual_dflash_places(std::size_t layers, std::size_t target_layers) {
  if (layers == 1) return {target_layers / 2 + 1};
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < layers; ++i) {
    const double step = static_cast<double>(target_layers - 4) / static_cast<double>(layers - 1);
    const double layer = std::nearbyint(1.0 + static_cast<double>(i) * step);  // half to even
    places.push_back(static_cast<std::size_t>(layer) + 1);
  }
  return places;
}

}  // namespace

std::string_view name_of(DrafterKind kind) {
  switch (kind) {
    case DrafterKind::eagle3:
      return "EAGLE-3";
    case DrafterKind::dflash:
      return "DFlash";
    case DrafterKind::dspark:
      return "DSpark";
    case DrafterKind::none:
      break;
  }
  return "no drafter";
}

json drafter_fields(const json& document, const std::string& where) {
  if (!document.is_object()) return document;
  const std::string architecture = class_of(document);
  if (const std::string kind = unsupported_kind(document, architecture); !kind.empty())
    refuse_drafter(where, kind);
  if (architecture == kDFlash || architecture == kDSpark) return flat_dflash(document, architecture, where);
  if (architecture.find("DSpark") != architecture.npos || architecture.find("DFlash") != architecture.npos)
    refuse_drafter(where, fmt::format("the class {}", architecture));
  const bool is_of_speculators =
      text_member(document, "speculators_model_type") == "eagle3" || architecture == "Eagle3Speculator";
  // SafeAILab's checkpoints have the class of their targets.
  const bool has_draft_vocabulary =
      architecture == "LlamaForCausalLM" && is_set(document, "draft_vocab_size");
  if (!is_of_speculators && !has_draft_vocabulary && architecture != kEagle3 &&
      architecture != "Eagle3LlamaForCausalLM")
    return document;
  json fields = document;
  fields.erase(kPlacesField);
  if (is_of_speculators) flatten_speculators(document, where, fields);
  set_places(document, where, fields);
  fields["architectures"] = {kEagle3};
  return fields;
}

void read_drafter(const JsonNode& fields, const std::string& where, DrafterConfig& config) {
  if (const auto places = places_in(fields, kPlacesField, 0)) config.places = *places;
  fields.update_size({"target_hidden_size"}, config.target_hidden_size);
  for (const std::string& type : fields.list_or_empty("layer_types", &JsonNode::string)) {
    if (type != "full_attention") refuse_drafter(where, fmt::format("a layer of the type \"{}\"", type));
  }
  if (!fields.has("layer_types") && fields.has("sliding_window") &&
      fields.boolean_or("use_sliding_window", false))
    refuse_drafter(where, "use_sliding_window true");
  if (config.drafts_blocks())
    read_dflash(fields, where, config);
  else
    read_eagle3(fields, where, config);
  if (config.kind == DrafterKind::dspark) read_dspark(fields, where, config);
}

std::size_t captured_streams(const DrafterConfig& config) {
  constexpr std::size_t kOfEagle3 = 3;
  if (!config.places.empty()) return config.places.size();
  return config.drafts_blocks() ? config.layers : kOfEagle3;
}

std::vector<std::size_t> captured_places(const DrafterConfig& config, std::size_t target_layers) {
  std::vector<std::size_t> places = config.places;
  constexpr std::size_t kMin = 4;
  if (places.empty() && target_layers >= kMin)
    places = config.drafts_blocks() ? usual_dflash_places(config.layers, target_layers)
                                    : std::vector<std::size_t>{2, target_layers / 2, target_layers - 3};
  require<ConfigError>(
      config.target_layers == 0 || config.target_layers == target_layers,
      "cannot draft with this drafter: expected a target with {} layers (num_target_layers), found {}; use "
      "the target for which the drafter was trained",
      config.target_layers, target_layers);
  require<ConfigError>(!places.empty() && std::ranges::max(places) <= target_layers,
                       "cannot draft with this drafter: expected a target with at least {} layers, found {}; "
                       "use the target for which the drafter was trained",
                       places.empty() ? kMin : std::ranges::max(places), target_layers);
  return places;
}

std::string describe_places(const DrafterConfig& config) {
  if (!config.places.empty())
    return fmt::format("after {} layers of the target", fmt::join(config.places, ", "));
  if (config.kind == DrafterKind::eagle3) return "after 2, L / 2 and L - 3 of the target's L layers";
  if (config.target_layers >= 4)
    return fmt::format("after {} layers of the target",
                       fmt::join(captured_places(config, config.target_layers), ", "));
  return fmt::format("{} streams, evenly spaced among the target's layers", config.layers);
}

}  // namespace tp
