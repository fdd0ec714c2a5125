#include "model/weights/quantized/quantization_fields.h"

#include "model/files/printable.h"
#include "model/files/split_text.h"
#include "tp/internal/require.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/ranges.h>

namespace tp {
namespace {

using Texts = std::vector<std::string_view>;

// Values that the program computes as the file's tool does. It refuses all others, except null.
struct Limit {
  std::string_view fields;
  std::string_view values;  // separated by spaces; empty: none
};

// Names are paths, separated by spaces. "*" stands for any member or element.
struct MethodFields {
  std::string_view method;
  Texts honoured;   // by the reader of the settings, or because the stored tensors show the value
  Texts no_effect;  // on weights, and on arithmetic that rounds no activations
  std::vector<Limit> limits;
};

// Settings by which a tool found the stored numbers, its own notes, and the choice of kernels.
constexpr std::string_view kTools =
    "act_bits act_data_type act_dynamic act_group_aware act_group_size act_sym amp autoround_version "
    "batch_size block_name_to_quantize cache_block_outputs damp_auto_increment damp_percent dataset device "
    "disable_exllama do_fuse enable_minmax_tuning enable_norm_bias_tuning enable_quanted_input "
    "exllama_config exllama_version fuse_max_seq_len gradient_accumulate_steps hyb_act iters "
    "low_gpu_mem_usage lr max_input_length meta minmax_lr model_file_base_name model_name_or_path "
    "model_seqlen module_name_preceding_first_block modules_to_fuse mse nsamples pack_impl pad_token_id "
    "producer provider quant_block_list scale_dtype seqlen static_attention_dtype "
    "static_attention_granularity static_kv_dtype static_kv_granularity supported_types "
    "to_quant_block_names tokenizer true_sequential use_cuda_fp16 use_exllama";

// Other programs round activations and the cache to fewer bits. This program does not need to.
constexpr std::string_view kActivations =
    "activation_scale_ub activation_scheme kv_cache_dtype kv_cache_quant_algo kv_cache_quant_targets "
    "kv_cache_scheme scale_fmt";

// GPTQModel's rules for some layers.
constexpr std::string_view kRules = "dynamic.*.desc_act dynamic.*.group_size dynamic.*.sym";
constexpr std::string_view kToolsInRules =
    "dynamic.*.act_group_aware dynamic.*.damp_auto_increment dynamic.*.damp_percent dynamic.*.mse "
    "dynamic.*.static_groups dynamic.*.true_sequential";

constexpr std::string_view kGroups =
    "config_groups.*.targets config_groups.*.weights.block_structure config_groups.*.weights.group_size "
    "config_groups.*.weights.symmetric";
constexpr std::string_view kActivationsOfGroups =
    "config_groups.*.input_activations config_groups.*.output_activations";
constexpr std::string_view kStrategies = "tensor channel group block tensor_group";

constexpr std::string_view kFormats =
    "pack-quantized int-quantized float-quantized naive-quantized nvfp4-pack-quantized mxfp4-pack-quantized "
    "mixed-precision dense";

constexpr std::string_view kAlgorithms = "FP8 FP8_PER_CHANNEL_PER_TOKEN FP8_PB_WO MXFP8 NVFP4 W4A16_NVFP4";
constexpr std::string_view kAllAlgorithms =
    "FP8 FP8_PER_CHANNEL_PER_TOKEN FP8_PB_WO MXFP8 NVFP4 W4A16_NVFP4 MIXED_PRECISION";

const std::vector<MethodFields>& all_methods() {
  // GPTQModel's `rotation` turns inputs of layers while the model runs, `adapter` adds to their outputs.
  // AutoRound's `rotation_configs` does the former, `super_bits` quantizes scales.
  static const std::vector<MethodFields> methods = {
      {.method = "awq",
       .honoured = {"quant_method group_size q_group_size zero_point sym lm_head modules_to_not_convert "
                    "modules_in_block_to_quantize",
                    kRules},
       .no_effect = {kTools, kToolsInRules},
       .limits = {{"bits w_bit dynamic.*.bits", "4 8"},
                  {"version format checkpoint_format", "gemm"},
                  {"method", "awq"},
                  {"backend",
                   "autoawq auto auto_trainable machete marlin exllama_v1 exllama_v2 gemm gemm_triton "
                   "torch_awq torch_fused_awq"},
                  {"data_type", "int"},
                  {"desc_act", "false"},
                  {"pack_dtype", "int32"},
                  {"adapter dynamic.*.adapter rotation rotation_configs super_bits super_group_size", ""}}},
      {.method = "gptq",
       .honoured = {"quant_method group_size desc_act static_groups sym lm_head modules_to_not_convert "
                    "modules_in_block_to_quantize",
                    kRules},
       .no_effect = {kTools, kToolsInRules, "backend"},
       .limits = {{"bits dynamic.*.bits", "4 8"},
                  {"checkpoint_format format", "gptq gptq_v2"},
                  {"method", "gptq"},
                  {"data_type", "int"},
                  {"is_marlin_format awq_gemm_checkpoint", "false"},
                  {"pack_dtype", "int32"},
                  {"adapter dynamic.*.adapter rotation rotation_configs super_bits super_group_size", ""}}},
      {.method = "compressed-tensors",
       .honoured = {"quant_method ignore", kGroups,
                    "config_groups.*.weights.actorder config_groups.*.weights.scale_dtype "
                    "config_groups.*.weights.zp_dtype"},
       .no_effect = {kActivations, kActivationsOfGroups,
                     "version quantization_status global_compression_ratio run_compressed producer "
                     "config_groups.*.weights.observer config_groups.*.weights.observer_kwargs "
                     "sparsity_config.targets sparsity_config.ignore sparsity_config.global_sparsity "
                     "sparsity_config.sparsity_structure sparsity_config.registry_requires_subclass "
                     "transform_config.config_groups.*.type transform_config.config_groups.*.randomize "
                     "transform_config.config_groups.*.requires_grad "
                     "transform_config.config_groups.*.head_dim transform_config.config_groups.*.precision "
                     "transform_config.config_groups.*.apply.*.targets "
                     "transform_config.config_groups.*.apply.*.ignore "
                     "transform_config.config_groups.*.apply.*.inverse"},
       .limits = {{"format config_groups.*.format", kFormats},
                  {"config_groups.*.weights.num_bits", "4 8"},
                  {"config_groups.*.weights.type", "int float"},
                  {"config_groups.*.weights.strategy", kStrategies},
                  {"config_groups.*.weights.dynamic", "false"},
                  {"sparsity_config.format", "dense"},
                  // The stored weights contain the transforms at these places. At other places, activations
                  // are transformed while the model runs.
                  {"transform_config.config_groups.*.apply.*.location", "weight_input weight_output"}}},
      {.method = "fp8",
       .honoured = {"quant_method weight_block_size group_size sym modules_to_not_convert ignored_layers"},
       .no_effect = {kTools, kActivations,
                     "dequantize ignore_patterns weight_scale_method export.kv_cache_group "
                     "export.min_kv_scale export.pack_method export.weight_merge_groups"},
       .limits = {{"fmt format", "e4m3 float8_e4m3fn"},
                  {"method", "fp8"},
                  {"bits", "8"},
                  {"data_type", "fp8 fp"},
                  {"export.weight_format", "real_quantized"},
                  // GPTQModel divides by these scales. All other tools multiply.
                  {"weight_scale_semantics adapter rotation rotation_configs", ""}}},
      {.method = "modelopt",
       .honoured = {"quant_method group_size ignore exclude_modules quantized_layers.*.group_size", kGroups},
       .no_effect = {kActivations, kActivationsOfGroups, "producer"},
       .limits = {{"quant_algo", kAllAlgorithms},
                  {"quantized_layers.*.quant_algo", kAlgorithms},
                  {"config_groups.*.weights.num_bits", "4 8"},
                  {"config_groups.*.weights.type", "float"},
                  {"config_groups.*.weights.strategy", kStrategies},
                  {"config_groups.*.weights.dynamic", "false"},
                  {"has_zero_point pre_quant_scale use_meta_recipe quantized_layers.*.has_zero_point "
                   "quantized_layers.*.pre_quant_scale",
                   "false"},
                  {"smoothquant_val clamp_val", ""}}},
      {.method = "mxfp4",
       .honoured = {"quant_method modules_to_not_convert"},
       .no_effect = {"dequantize"},
       .limits = {}},
      {.method = "bitsandbytes",
       .honoured = {"quant_method load_in_4bit _load_in_4bit bnb_4bit_use_double_quant "
                    "bnb_4bit_quant_storage bnb_4bit_target_parameters llm_int8_skip_modules"},
       .no_effect = {"bnb_4bit_compute_dtype llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight "
                     "llm_int8_threshold"},
       .limits = {{"load_in_8bit _load_in_8bit", "false"}, {"bnb_4bit_quant_type", "nf4"}}}};
  return methods;
}

const MethodFields& fields_of(const QuantizationConfig& config) {
  const std::string_view method = config.method == "fbgemm_fp8" ? "fp8" : std::string_view(config.method);
  const std::vector<MethodFields>& methods = all_methods();
  const auto found = std::ranges::find(methods, method, &MethodFields::method);
  require<ConfigError>(found != methods.end(),
                       "{}: quantization_config: quant_method must be awq, gptq, compressed-tensors, fp8, "
                       "modelopt, mxfp4 or bitsandbytes, found {}; {}",
                       config.file, printable(config.method), kQuantizationAdvice);
  return *found;
}

std::string shown_value(const nlohmann::json& value) {
  if (value.is_structured()) return fmt::format("a value of type {}", value.type_name());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "a, b or c"
std::string any_of(const Texts& values) {
  if (values.empty()) return "null";
  if (values.size() == 1) return std::string(values.front());
  return fmt::format("{} or {}", fmt::join(values.begin(), values.end() - 1, ", "), values.back());
}

class Checker {
 public:
  Checker(const QuantizationConfig& config, const MethodFields& fields) : config_(config) {
    for (const Texts* const texts : {&fields.honoured, &fields.no_effect}) {
      for (const std::string_view text : *texts) add(text, nullptr);
    }
    for (const Limit& limit : fields.limits) add(limit.fields, &limit);
  }

  // `path`: the field's name in the tables. `place`: its name in the file.
  void check(const nlohmann::json& value, const std::string& path, const std::string& place) const {
    const bool is_empty = value.is_null() || (value.is_structured() && value.empty());
    if (is_empty) return;
    if (const auto found = limits_.find(path); found != limits_.end()) {
      if (found->second != nullptr) check_limit(value, *found->second, place);
    } else if (!containers_.contains(path)) {
      refuse_unknown(place);
    } else if (!value.is_structured()) {
      refuse_field(config_, place, "an object or a list", shown_value(value));
    } else {
      check_members(value, path, place);
    }
  }

 private:
  // `limit`: null for fields with any value.
  void add(std::string_view paths, const Limit* limit) {
    containers_.emplace("");
    for (const std::string_view path : split_text(paths)) {
      limits_.insert_or_assign(std::string(path), limit);
      for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
        containers_.emplace(path.substr(0, dot));
    }
  }

  void check_members(const nlohmann::json& value, const std::string& path, const std::string& place) const {
    const std::string beginning = path.empty() ? "" : path + ".";
    for (const auto& [key, member] : value.items()) {
      const std::string named = beginning + key;
      const bool is_known = limits_.contains(named) || containers_.contains(named);
      check(member, is_known ? named : beginning + "*", place.empty() ? key : place + "." + key);
    }
  }

  void check_limit(const nlohmann::json& value, const Limit& limit, const std::string& place) const {
    const Texts values = limit.values.empty() ? Texts{} : split_text(limit.values);
    const std::string found = shown_value(value);
    const bool is_allowed = std::ranges::any_of(values, [&](std::string_view allowed) {
      return lower_case(std::string(allowed)) == lower_case(found);
    });
    if (!is_allowed) refuse_field(config_, place, any_of(values), found);
  }

  [[noreturn]] void refuse_unknown(const std::string& place) const {
    throw_error<ConfigError>(
        "{}: quantization_config: expected only fields of {} that this program knows, found {}, which may "
        "change the model's numbers; {}, or remove the field from the file if it changes nothing",
        config_.file, printable(config_.method), printable(place), kQuantizationAdvice);
  }

  const QuantizationConfig& config_;
  std::map<std::string, const Limit*, std::less<>> limits_;  // by path
  std::set<std::string, std::less<>> containers_;            // paths of objects and lists
};

}  // namespace

void check_quantization_fields(const QuantizationConfig& config) {
  Checker(config, fields_of(config)).check(config.fields, "", "");
}

void refuse_field(const QuantizationConfig& config, std::string_view field, std::string_view expected,
                  std::string_view found) {
  throw_error<ConfigError>("{}: quantization_config: {} of {} must be {}, found {}; {}", config.file,
                           printable(field), printable(config.method), expected, printable(found),
                           kQuantizationAdvice);
}

}  // namespace tp
