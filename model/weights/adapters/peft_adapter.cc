// Adapters in PEFT's layout: a folder with adapter_config.json and adapter_model.safetensors.
#include "model/files/printable.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/adapters/peft_config.h"
#include "model/weights/safetensors/safetensors_checkpoint.h"
#include "tp/internal/require.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tp {
namespace {

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kPeftWeight = ".weight";
constexpr std::string_view kPeftBias = ".bias";

// The meanings of the ends of tensors' names. A whole tensor replaces the model's.
enum class PeftPart : std::uint8_t { a, b, embedding_a, embedding_b, whole };

struct PeftEnd {
  std::string_view end;
  PeftPart part;
};

constexpr PeftEnd kPeftEnds[] = {{".lora_A.weight", PeftPart::a},
                                 {".lora_B.weight", PeftPart::b},
                                 {".lora_embedding_A", PeftPart::embedding_a},
                                 {".lora_embedding_B", PeftPart::embedding_b},
                                 {".modules_to_save.weight", PeftPart::whole},
                                 {".base_layer.weight", PeftPart::whole}};

// Ends that belong to settings which peft_config refuses, if the config has them.
struct RefusedEnd {
  std::string_view end;
  std::string_view what;
};

constexpr RefusedEnd kRefusedEnds[] = {{".lora_magnitude_vector", "DoRA"},
                                       {".lora_magnitude_vector.weight", "DoRA"},
                                       {".lora_A.bias", "biases of factors"},
                                       {".lora_B.bias", "biases of factors"},
                                       {".token_adapter.trainable_tokens_delta", "vectors of single tokens"}};

class PeftReader {
 public:
  explicit PeftReader(const AdapterOptions& options)
      : options_(options), config_(options.path / "adapter_config.json"), tensors_(open_tensors(options)) {}

  Adapter read() const {
    Adapter adapter{.name = options_.name, .place = options_.path.string(), .identity = {}};
    std::string scales;
    for (const std::string& name : tensors_->names()) add(name, adapter);
    for (const auto& [layer, factors] : adapter.layers)
      scales += fmt::format("{} {}\n", layer, factors.scale);
    adapter.identity = adapter_identity(tensors_->mapped_files(), scales);
    return adapter;
  }

 private:
  static std::shared_ptr<SafetensorsCheckpoint> open_tensors(const AdapterOptions& options) {
    const std::filesystem::path file = options.path / "adapter_model.safetensors";
    std::error_code error;
    const bool has_pickle = std::filesystem::exists(options.path / "adapter_model.bin", error);
    require<CheckpointError>(
        std::filesystem::exists(file, error),
        "cannot open the adapter {}: expected adapter_model.safetensors in \"{}\", found {}; "
        "{}",
        printable(options.name), printable(options.path.string()),
        has_pickle ? "only adapter_model.bin" : "none",
        has_pickle ? "save it again with PEFT, which writes safetensors" : "download the adapter again");
    return SafetensorsCheckpoint::open_file(file);
  }

  void add(const std::string& name, Adapter& adapter) const {
    if (!name.starts_with(kPeftPrefix)) refuse(name);
    const std::string_view rest = std::string_view(name).substr(kPeftPrefix.size());
    for (const RefusedEnd& refused : kRefusedEnds) {
      require<ConfigError>(
          !rest.ends_with(refused.end),
          "{}: cannot use an adapter with {}: found the tensor {}; merge it into the model with "
          "PEFT",
          where(), refused.what, printable(name));
    }
    for (const PeftEnd& known : kPeftEnds) {
      if (rest.ends_with(known.end))
        return add(name, rest.substr(0, rest.size() - known.end.size()), known.part, adapter);
    }
    for (const std::string_view end : {kPeftWeight, kPeftBias}) {
      if (rest.ends_with(end)) return add_whole(name, rest, adapter);
    }
    refuse(name);
  }

  void add(const std::string& name, std::string_view module, PeftPart part, Adapter& adapter) const {
    if (part == PeftPart::whole) return add_whole(name, std::string(module).append(kPeftWeight), adapter);
    AdapterLayer& layer = adapter.layers[layer_key(module)];
    AdapterMatrix& matrix = part == PeftPart::a || part == PeftPart::embedding_a ? layer.a : layer.b;
    set(matrix, name);
    if (part == PeftPart::embedding_a || part == PeftPart::embedding_b) layer.is_embedding = true;
    require_untied(name, layer.is_embedding || module.ends_with("lm_head"));
    if (part != PeftPart::a && part != PeftPart::embedding_a) return;
    if (matrix.shape.rows == 0) return;  // check_factors refuses it
    const double scale = options_.scale * config_.scale_of(std::string(module), matrix.shape.rows);
    require<ConfigError>(std::abs(scale) <= std::numeric_limits<float>::max(),
                         "{}: the scale of {} is {}, expected a number that float32 can hold; lower its "
                         "alpha, or the SCALE of --lora",
                         where(), printable(name), scale);
    layer.scale = static_cast<float>(scale);
  }

  void add_whole(const std::string& name, std::string_view tensor, Adapter& adapter) const {
    set(adapter.tensors[layer_key(tensor)], name);
    require_untied(name, true);
  }

  void set(AdapterMatrix& matrix, const std::string& name) const {
    require<CheckpointError>(
        !matrix.exists(),
        "{}: {} and {} belong to the same layer, expected one of them; get the adapter again", where(),
        printable(matrix.name), printable(name));
    matrix = matrix_of(name);
  }

  void require_untied(const std::string& name, bool may_be_tied) const {
    require<ConfigError>(
        !(config_.keeps_tied() && may_be_tied),
        "{}: `ensure_weight_tying` is true and the adapter changes {}, expected false; merge the "
        "adapter into the model with PEFT",
        where(), printable(name));
  }

  AdapterMatrix matrix_of(const std::string& name) const {
    const std::vector<std::size_t>& shape = tensors_->find_raw(name)->tensor.shape;
    require<ConfigError>(shape.size() <= 2,
                         "{}: {} is {}, expected a matrix; merge the adapter into the model with PEFT",
                         where(), printable(name), printable(shape));
    const MatrixShape matrix{shape.size() == 2 ? shape[0] : 1, shape.empty() ? 1 : shape.back()};
    tensors_->expect(name, matrix, "the adapter's own shape");
    return {name, tensors_->dtype(name), matrix,
            [tensors = tensors_, name, matrix](const TensorSlice& slice, TensorView<float> out) {
              tensors->read(name, matrix, slice, out);
            }};
  }

  std::string where() const { return printable((options_.path / "adapter_model.safetensors").string()); }

  [[noreturn]] void refuse(const std::string& name) const {
    throw_error<ConfigError>(
        "{}: cannot use the tensor {}: expected factors (lora_A, lora_B) and whole weights of "
        "layers, named base_model.model. and so on; merge the adapter into the model with "
        "PEFT",
        where(), printable(name));
  }

  const AdapterOptions& options_;
  PeftConfig config_;
  std::shared_ptr<SafetensorsCheckpoint> tensors_;
};

}  // namespace

Adapter open_peft_adapter(const AdapterOptions& options) { return PeftReader(options).read(); }

}  // namespace tp
