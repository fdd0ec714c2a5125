// Adapters in GGUF files, as llama.cpp's convert_lora_to_gguf.py writes them.
#include "model/files/printable.h"
#include "model/weights/adapters/adapter.h"
#include "model/weights/gguf/gguf_dequantize.h"
#include "model/weights/gguf/gguf_files.h"
#include "model/weights/gguf/gguf_header.h"
#include "model/weights/gguf_names.h"
#include "tp/internal/require.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tp {
namespace {

constexpr std::string_view kLoraA = ".lora_a";
constexpr std::string_view kLoraB = ".lora_b";

// Settings that change results and that the program does not apply.
constexpr std::string_view kRefusedKeys[] = {"adapter.alora.invocation_tokens", "adapter.lora.prompt_prefix"};

// One file. GgufFiles refuses adapters, because they are no models.
struct GgufAdapterFile {
  explicit GgufAdapterFile(const std::filesystem::path& path)
      : file(path), header(parse_gguf_header(file.bytes(), file.name())) {
    for (const GgufTensor& tensor : header.tensors) {
      require<CheckpointError>(tensors.try_emplace(tensor.name, GgufFiles::Entry{tensor, file}).second,
                               "{}: there are two tensors {}, expected one; get the adapter again",
                               file.name(), printable(tensor.name));
    }
  }
  GgufAdapterFile(const GgufAdapterFile&) = delete;
  GgufAdapterFile& operator=(const GgufAdapterFile&) = delete;

  MappedFile file;
  GgufHeader header;
  std::map<std::string, GgufFiles::Entry> tensors{};  // refer to `file`
};

class GgufAdapterReader {
 public:
  GgufAdapterReader(const AdapterOptions& options, const ModelSpec& spec, std::string_view architecture)
      : options_(options),
        file_(std::make_shared<const GgufAdapterFile>(options.path)),
        names_(spec.names, heads_of(spec)) {
    const GgufMetadata& metadata = file_->header.metadata;
    expect("general.type", "adapter");
    expect("adapter.type", "lora");
    expect("general.architecture", architecture);
    for (const std::string_view key : kRefusedKeys) {
      require<ConfigError>(!metadata.has(key), "{}: cannot use an adapter with `{}`; merge it into the model",
                           where(), key);
    }
    alpha_ = metadata.number("adapter.lora.alpha");
    for (const BlockSpec& block : spec.blocks) {
      if (const MixtureOfExpertsSpec* const experts = experts_in(block))
        experts_ = experts->router.num_experts;
    }
  }

  Adapter read() const {
    Adapter adapter{.name = options_.name, .place = options_.path.string(), .identity = {}};
    for (const auto& [name, entry] : file_->tensors) {
      if (name.ends_with(kLoraA) || name.ends_with(kLoraB)) {
        add(name, entry, adapter);
        continue;
      }
      // llama.cpp ignores norms, which its converter writes.
      require<ConfigError>(
          name.ends_with("_norm.weight"),
          "{}: cannot use the tensor {}: expected factors (.lora_a, .lora_b); merge the adapter "
          "into the model",
          where(), printable(name));
    }
    adapter.identity = adapter_identity(std::array{&file_->file}, fmt::format("{}", options_.scale));
    return adapter;
  }

 private:
  void expect(std::string_view key, std::string_view expected) const {
    const std::string_view found = file_->header.metadata.text_or(key, "");
    require<ConfigError>(
        found == expected,
        "{}: cannot use the adapter: `{}` is \"{}\", expected \"{}\"; choose an adapter of this "
        "model",
        where(), key, printable(found), expected);
  }

  void add(const std::string& name, const GgufFiles::Entry& entry, Adapter& adapter) const {
    require_readable(entry);
    const bool is_a = name.ends_with(kLoraA);
    GgufTensor weight = entry.tensor;
    weight.name = name.substr(0, name.size() - kLoraA.size());
    const std::vector<std::string> of_model = names_.in_checkpoint(weight);
    const std::optional<GgufPlace> place =
        of_model.empty() ? std::optional<GgufPlace>() : names_.find(of_model.front());
    constexpr std::string_view kWeight = ".weight";
    require<ConfigError>(
        place && place->tensor == weight.name && !place->is_stack && of_model.front().ends_with(kWeight) &&
            (of_model.size() == 1 || place->expert),
        "{}: cannot use {}: expected factors of a layer of the model; choose an adapter of this "
        "model",
        where(), printable(name));
    require<ConfigError>(entry.tensor.shape.size() == (place->expert ? 3 : 2),
                         "{}: {} is {}, expected {}; choose an adapter of this model", where(),
                         printable(name), printable(entry.tensor.shape),
                         place->expert ? "a matrix for each expert" : "a matrix");
    require<ConfigError>(!place->expert || of_model.size() == experts_,
                         "{}: {} has factors of {} experts, expected {}; choose an adapter of this model",
                         where(), printable(name), of_model.size(), experts_);
    for (std::size_t matrix = 0; matrix < of_model.size(); ++matrix) {
      const std::string layer = of_model[matrix].substr(0, of_model[matrix].size() - kWeight.size());
      add(Factor{name, entry, is_a, matrix}, *place, adapter.layers[layer_key(layer)]);
    }
  }

  // A matrix of a tensor, which has one for each expert if it belongs to a stack.
  struct Factor {
    const std::string& name;
    const GgufFiles::Entry& entry;
    bool is_a = false;
    std::size_t matrix = 0;
  };

  void add(const Factor& factor, const GgufPlace& place, AdapterLayer& layer) const {
    const std::string& name = factor.name;
    const bool is_a = factor.is_a;
    layer.is_embedding = place.tensor == "token_embd.weight";
    // An embedding's A has a row for each token. Factors of a matrix that the checkpoint stores transposed
    // are those of the layer, whose order of outputs and inputs the place describes.
    const bool has_token_rows = is_a && layer.is_embedding;
    const GgufOrder order = is_a ? (layer.is_embedding ? GgufOrder{} : place.columns) : place.rows;
    (is_a ? layer.a : layer.b) = matrix_of(factor, order, has_token_rows);
    if (!is_a) return;
    const double scale = options_.scale * alpha_ / static_cast<double>(layer.a.shape.rows);
    require<ConfigError>(std::abs(scale) <= std::numeric_limits<float>::max(),
                         "{}: the scale of {} is {}, expected a number that float32 can hold", where(),
                         printable(name), scale);
    layer.scale = static_cast<float>(scale);
  }

  AdapterMatrix matrix_of(const Factor& factor, const GgufOrder& order, bool is_transposed) const {
    const GgufTensor& tensor = factor.entry.tensor;
    const bool is_a = factor.is_a;
    const std::size_t rows = tensor.shape[tensor.shape.size() - 2];
    MatrixShape shape{rows, tensor.shape.back()};
    if (is_transposed) std::swap(shape.rows, shape.columns);
    require<CheckpointError>(order.fits(is_a ? shape.columns : shape.rows),
                             "{}: {} is {}, expected whole heads; get the adapter again", where(),
                             printable(factor.name), printable(tensor.shape));
    const auto read = [file = file_, &entry = factor.entry, first = factor.matrix * rows, is_a, order,
                       is_transposed](const TensorSlice& slice, TensorView<float> out) {
      const GgufTensor& stored = entry.tensor;
      const std::byte* const data =
          entry.file.bytes().data() + stored.bytes.begin + first * stored.row_bytes();
      const auto row_at = [&](std::size_t row) { return data + row * stored.row_bytes(); };
      for (std::size_t i = 0; i < out.rows(); ++i) {
        const std::size_t row = slice.rows.begin + i;
        if (!is_a || (order.keeps_places() && !is_transposed)) {
          dequantize(stored.type, row_at(is_a ? row : order.stored(row)), slice.columns, out.row(i));
          continue;
        }
        for (std::size_t j = 0; j < out.columns(); ++j) {
          const std::size_t column = order.stored(slice.columns.begin + j);
          if (is_transposed)
            dequantize(stored.type, row_at(column), {row, row + 1}, out.row(i) + j);
          else
            dequantize(stored.type, row_at(row), {column, column + 1}, out.row(i) + j);
        }
      }
    };
    return {factor.name, plain_type(tensor.type).value_or(DType::f32), shape, read};
  }

  std::string where() const { return printable(options_.path.string()); }

  const AdapterOptions& options_;
  std::shared_ptr<const GgufAdapterFile> file_;
  GgufNames names_;
  std::size_t experts_ = 0;
  double alpha_ = 0.0;
};

}  // namespace

Adapter open_gguf_adapter(const AdapterOptions& options, const ModelSpec& spec,
                          std::string_view architecture) {
  return GgufAdapterReader(options, spec, architecture).read();
}

}  // namespace tp
